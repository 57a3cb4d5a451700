"""A lazy stream of records with ``map``, ``filter``, ``shuffle`` and ``batch``: what a ``dataset_fn`` works on.

Inside, every value travels with its *marks*: the records it was made from. That is what lets the pipeline acknowledge a record
when, and only when, all that was made from it has been consumed, although filters drop, shuffles delay and batches join:

- ``map`` hands the marks on, and so does ``map_batches``, whose function is called with many records at once; ``batch`` joins those
  of its records; ``shuffle`` keeps value and marks together;
- a value that is dropped (by a filter, or as the remainder of a batch) leaves its marks in the stream, as an item without a value,
  after what was sent before it;
- ``FLUSH`` travels down when the source has nothing for now: stages that hold values back send them. Else a worker
  would wait for shards that the master cannot release before this worker has finished those it is holding back.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, Protocol

from pliant.core.errors import InvalidRequest, PliantError
from pliant.data.collate import stack
from pliant.data.columns import columns_of, rows_of
from pliant.data.errors import RecordError


class Origin(Protocol):
    """Where records come from: notified when one is consumed, asked how to name one."""

    def consumed(self, position: int) -> None: ...
    def describe(self, position: int) -> tuple[str, int]: ...


class Signal(Enum):
    NOTHING = "no value, only marks"
    FLUSH = "send what you hold back"
    PAUSE = "the source may wait now; hand over what is ready"


Mark = tuple[Origin, int]
Item = tuple[Any, tuple[Mark, ...]]

FLUSH: Item = (Signal.FLUSH, ())
PAUSE: Item = (Signal.PAUSE, ())

MAP_BATCH = 1024  # records that map_batches passes at once, by default


class Dataset:
    """Immutable; each method returns a new stream. Iterating it runs the whole chain."""

    def __init__(self, items: Callable[[], Iterator[Item]], whole: Callable[[], Any] | None = None) -> None:
        """``whole``: all records by column, where the source is one batch."""
        self.items = items
        self.whole = whole

    @classmethod
    def of(cls, records: Iterable[Any]) -> Dataset:
        return cls(lambda: ((record, ()) for record in records))

    def __iter__(self) -> Iterator[Any]:
        return (value for value, _ in self.items() if not isinstance(value, Signal))

    def map(self, function: Callable[[Any], Any]) -> Dataset:
        return Dataset(lambda: _map(self.items(), function))

    def map_batches(self, function: Callable[[Any], Any], size: int | None = None) -> Dataset:
        """``function`` is called with many records at once, by column (``pliant.data.columns``), and returns arrays with one row
        for each of them, in tuples and dicts. What follows gets the rows one by one. ``size``: at most so many at once."""
        if size is not None and size < 1:
            raise InvalidRequest(f"invalid batch size {size}")
        items, whole = self.items, self.whole
        return Dataset(
            lambda: _map_batches(items(), function, size or MAP_BATCH),
            None if whole is None or size is not None else lambda: function(whole()),
        )

    def filter(self, predicate: Callable[[Any], bool]) -> Dataset:
        return Dataset(lambda: _filter(self.items(), predicate))

    def shuffle(self, buffer: int, seed: int = 0) -> Dataset:
        """Within a window of ``buffer`` records, the same way each time for one seed."""
        if buffer < 1:
            raise InvalidRequest(f"a shuffle buffer of {buffer} records is too small")
        return Dataset(lambda: _shuffle(self.items(), buffer, seed))

    def batch(
        self, size: int, *, drop_remainder: bool = False, collate: Callable[[Sequence[Any]], Any] = stack
    ) -> Dataset:
        """``drop_remainder``: a batch that is not full when the source ends or runs dry is dropped and counts as used."""
        if size < 1:
            raise InvalidRequest(f"invalid batch size {size}")
        return Dataset(lambda: _batch(self.items(), size, drop_remainder, collate))


def _call(function: Callable[[Any], Any], value: Any, marks: tuple[Mark, ...]) -> Any:
    try:
        return function(value)
    except PliantError:
        raise
    except Exception as error:  # the user's function; its failure names the record
        if not marks:
            raise
        origin, position = marks[0]
        place, index = origin.describe(position)
        raise RecordError.at(place, index, error) from error


def _map(items: Iterator[Item], function: Callable[[Any], Any]) -> Iterator[Item]:
    for item in items:
        value, marks = item
        yield item if isinstance(value, Signal) else (_call(function, value, marks), marks)


def _map_batches(items: Iterator[Item], function: Callable[[Any], Any], size: int) -> Iterator[Item]:
    held: list[Item] = []  # also those without a value, which keep their place
    count = 0
    for item in items:
        if item[0] is Signal.FLUSH or item[0] is Signal.PAUSE:
            yield from _made(held, function)
            held, count = [], 0
            yield item
            continue
        held.append(item)
        count += item[0] is not Signal.NOTHING
        if count == size:
            yield from _made(held, function)
            held, count = [], 0
    yield from _made(held, function)


def _made(held: Sequence[Item], function: Callable[[Any], Any]) -> Iterator[Item]:
    records = [item for item in held if item[0] is not Signal.NOTHING]
    rows: Iterator[Any] = iter(())
    if records:
        try:
            rows = rows_of(function(columns_of([value for value, _ in records])), len(records))
        except PliantError:
            raise
        except Exception:  # which record it is: the first that fails alone
            for value, marks in records:
                _call(lambda one: function(columns_of([one])), value, marks)
            raise
    for value, marks in held:
        yield (value if value is Signal.NOTHING else next(rows)), marks


def _filter(items: Iterator[Item], predicate: Callable[[Any], bool]) -> Iterator[Item]:
    for item in items:
        value, marks = item
        keep = isinstance(value, Signal) or _call(predicate, value, marks)
        yield item if keep else (Signal.NOTHING, marks)


def _shuffle(items: Iterator[Item], buffer: int, seed: int) -> Iterator[Item]:
    generator = random.Random(seed)
    held: list[Item] = []
    for item in items:
        if item[0] is Signal.FLUSH:
            generator.shuffle(held)
            yield from held
            held.clear()
        if isinstance(item[0], Signal):
            yield item
        elif len(held) < buffer:
            held.append(item)
        else:
            slot = generator.randrange(buffer)
            yield held[slot]
            held[slot] = item
    generator.shuffle(held)
    yield from held


def _batch(
    items: Iterator[Item], size: int, drop_remainder: bool, collate: Callable[[Sequence[Any]], Any]
) -> Iterator[Item]:
    values: list[Any] = []
    marks: list[Mark] = []

    def joined(full: bool) -> Item:
        item: Item = (_call(collate, list(values), tuple(marks)) if full else Signal.NOTHING, tuple(marks))
        values.clear()
        marks.clear()
        return item

    for item in items:
        value, some = item
        marks += some
        if value is Signal.FLUSH:
            if marks or values:
                yield joined(bool(values) and not drop_remainder)
            yield item
        elif value is Signal.PAUSE:
            yield item
        elif value is not Signal.NOTHING:
            values.append(value)
            if len(values) == size:
                yield joined(True)
    if marks or values:
        yield joined(bool(values) and not drop_remainder)
