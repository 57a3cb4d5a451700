"""Random access by global index for any reader, in the form that torch's ``Dataset`` and the step plan expect.

No torch here: its DataLoader asks for ``__len__``, ``__getitem__`` and, to fetch a batch in one go, ``__getitems__``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pliant.data.contract import DataReader
from pliant.data.errors import RecordError


class MapDataset:
    """``MapDataset(reader, decode)[i]``; ``transform`` turns a stored record into what training wants."""

    def __init__(self, reader: DataReader, transform: Callable[[Any], Any] | None = None) -> None:
        self.reader = reader
        self._transform = transform

    def __len__(self) -> int:
        return len(self.reader)

    def __getitem__(self, index: int) -> Any:
        return self._apply(index, self.reader[index])

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        records = self.reader.fetch(indices)
        if self._transform is None:
            return records
        return [self._apply(index, record) for index, record in zip(indices, records, strict=True)]

    def _apply(self, index: int, record: Any) -> Any:
        if self._transform is None:
            return record
        try:
            return self._transform(record)
        except Exception as error:  # the user's function; its failure names the record
            part, place = self.reader.locate(index % len(self))
            raise RecordError.at(f"{part} record {place}", index, error) from error
