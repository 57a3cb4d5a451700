"""Records by column: one array for each field of many records, where a loop over them would cost more than what is done with them.

A column of numbers or of arrays of one shape is an array. A column of lists of numbers is ``Lists``. All else, such as text or what
may be missing, is a list. Records that are not dicts are one column.

Neighbours: ``stream`` (``Dataset.map_batches``), readers (``DataReader.fetch_columns``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pliant.core.errors import InvalidRequest

Array: TypeAlias = npt.NDArray[Any]
Column: TypeAlias = "Array | Lists | list[Any]"


class Lists:
    """A list of numbers for each record, those of record i in ``values`` from ``offsets[i]`` to ``offsets[i + 1]``."""

    __slots__ = ("offsets", "values")

    def __init__(self, values: Array, offsets: npt.NDArray[np.int64]) -> None:
        self.values = values
        self.offsets = offsets

    @classmethod
    def of(cls, lists: Sequence[Sequence[Any]]) -> Lists:
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        values = np.array([value for one in lists for value in one])
        return cls(values if values.size else values.astype(np.int64), _offsets(lengths))

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, record: int) -> Array:
        if not -len(self) <= record < len(self):
            raise IndexError(record)
        at = record % len(self)
        return self.values[self.offsets[at] : self.offsets[at + 1]]

    def __iter__(self) -> Iterator[Array]:
        return (self[record] for record in range(len(self)))

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        return np.diff(self.offsets)

    def padded(self, width: int, fill: Any = 0) -> Array:
        """An array with a row for each record: its first ``width`` numbers, and ``fill`` where it has fewer."""
        if width < 0:
            raise InvalidRequest(f"invalid width {width}")
        out = np.full((len(self), width), fill, self.values.dtype)
        if width and self.values.size:
            places = np.arange(width)
            there = places < self.lengths[:, None]
            out[there] = self.values[(self.offsets[:-1, None] + places)[there]]
        return out

    def take(self, records: npt.NDArray[np.int64]) -> Lists:
        """Those of some records, in this order."""
        lengths = self.lengths[records]
        offsets = _offsets(lengths)
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][records] - offsets[:-1], lengths)
        return Lists(self.values[places], offsets)


def _offsets(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def columns_of(records: Sequence[Any]) -> Any:
    """A dict of columns of records that are dicts, else one column."""
    if records and isinstance(records[0], dict):
        names = records[0].keys()
        try:
            return {name: column_of([record[name] for record in records]) for name in names}
        except KeyError as error:
            raise InvalidRequest(
                f"records have different fields: some lack {error}", hint="use map, which is called with each record"
            ) from None
    return column_of(list(records))


def column_of(values: list[Any]) -> Column:
    kinds = {type(value) for value in values}
    if kinds and all(issubclass(kind, bool | int | float | np.generic) for kind in kinds):
        return np.asarray(values)
    if kinds == {list} and all(isinstance(number, bool | int | float) for one in values for number in one):
        return Lists.of(values)
    if kinds and all(issubclass(kind, np.ndarray) for kind in kinds):
        if len({value.shape for value in values}) == 1:
            return np.stack(values)
        if all(value.ndim == 1 for value in values):
            return Lists(np.concatenate(values), _offsets(np.array([value.size for value in values], np.int64)))
    return values


def take(column: Column, records: npt.NDArray[np.int64]) -> Column:
    """Of some records, in this order."""
    if isinstance(column, Lists):
        return column.take(records)
    if isinstance(column, list):
        return [column[record] for record in records]
    return column[records]


def cut(columns: Any, start: int, stop: int) -> Any:
    """Records ``[start, stop)`` of columns, without a copy."""
    if isinstance(columns, dict):
        return {name: cut(column, start, stop) for name, column in columns.items()}
    if isinstance(columns, Lists):
        return Lists(columns.values, columns.offsets[start : stop + 1])
    return columns[start:stop]


def joined(columns: Sequence[Column]) -> Column:
    """One after the other; columns of different kinds become a list."""
    if len(columns) == 1:
        return columns[0]
    lists = [column for column in columns if isinstance(column, Lists)]
    if len(lists) == len(columns):
        lengths = np.concatenate([one.lengths for one in lists])
        return Lists(np.concatenate([one.values[one.offsets[0] : one.offsets[-1]] for one in lists]), _offsets(lengths))
    arrays = [column for column in columns if isinstance(column, np.ndarray)]
    if len(arrays) == len(columns) and len({one.shape[1:] for one in arrays}) == 1:
        return np.concatenate(arrays)
    return [value for column in columns for value in column]


def rows_of(batch: Any, count: int) -> Iterator[Any]:
    """What a function made of ``count`` records at once, record by record. Raises if it is not of so many."""
    check_count(batch, count)
    return (_row(batch, record) for record in range(count))


def check_count(batch: Any, count: int) -> None:
    if isinstance(batch, dict):
        parts: list[Any] = list(batch.values())
    elif isinstance(batch, tuple):
        parts = list(batch)
    elif batch is None:
        return
    else:
        try:
            found = len(batch)
        except TypeError:
            raise InvalidRequest(
                f"the function of map_batches returned a {type(batch).__name__}",
                hint="return arrays with one row for each record, in tuples and dicts",
            ) from None
        if found != count:
            raise InvalidRequest(
                f"the function of map_batches made {found} values of {count} records",
                hint="return one for each; use filter to drop records",
            )
        return
    for part in parts:
        check_count(part, count)


def _row(batch: Any, record: int) -> Any:
    if isinstance(batch, dict):
        return {name: _row(part, record) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(_row(part, record) for part in batch)
    return None if batch is None else batch[record]
