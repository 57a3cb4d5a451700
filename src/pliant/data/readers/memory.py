"""Records that are in memory already: a list, an array, a torch or Hugging Face dataset with random access."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pliant.data.contract import Metadata, PartReader


class MemoryReader(PartReader):
    def __init__(self, records: Sequence[Any], *, name: str = "memory") -> None:
        self._records = records
        self._name = name

    @property
    def metadata(self) -> Metadata:
        return Metadata("memory")

    def create_shards(self) -> Mapping[str, int]:
        return {self._name: len(self._records)}

    def read_part(self, number: int, start: int, stop: int) -> Iterable[Any]:
        return (self._records[i] for i in range(start, stop))

    def gather_part(self, number: int, positions: list[int]) -> Sequence[Any]:
        return [self._records[i] for i in positions]
