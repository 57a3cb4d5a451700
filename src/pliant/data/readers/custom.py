"""A user's own reader that does not derive from ours: anything with ``create_shards`` and ``read_records``.

ElasticDL's readers are such: their ``create_shards`` returns ``{name: (first record, number of records)}`` and their
``read_records`` takes a task with ``shard_name``, ``start`` and ``end``. Both forms are understood.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pliant.core.errors import InvalidRequest
from pliant.data.contract import DataReader, Metadata, RecordRange, ShardRange, order_of


@dataclass(frozen=True, slots=True)
class Task:
    """A shard as a foreign reader may want to see it."""

    name: str
    shard_name: str
    start: int
    end: int


class CustomReader(DataReader):
    def __init__(self, reader: Any) -> None:
        missing = [name for name in ("create_shards", "read_records") if not callable(getattr(reader, name, None))]
        if missing:
            raise InvalidRequest(
                f"{type(reader).__name__} is not a data reader: it has no {' and no '.join(missing)}",
                hint="subclass pliant.data.DataReader, or implement both methods, or __len__ and __getitem__",
            )
        self._reader = reader

    @property
    def metadata(self) -> Metadata:
        given = getattr(self._reader, "metadata", None)
        if isinstance(given, Metadata):
            return given
        return Metadata("custom", tuple(getattr(given, "column_names", None) or ()))

    @cached_property
    def _extents(self) -> dict[str, tuple[int, int]]:
        shards: Mapping[str, Any] = self._reader.create_shards()
        return {name: extent if isinstance(extent, tuple) else (0, extent) for name, extent in shards.items()}

    def create_shards(self) -> Mapping[str, int]:
        return {name: count for name, (_, count) in self._extents.items()}

    def read_records(self, shard: ShardRange) -> Iterator[Any]:
        order = order_of(shard)
        if shard.name not in self._extents:
            for index in order:
                name, place = self.locate(index)
                yield from self.read_records(RecordRange(name, place, place + 1))
        elif isinstance(order, range):
            first = self._extents[shard.name][0]
            task = Task(shard.name, shard.name, first + order.start, first + order.stop)
            yield from self._reader.read_records(task)
        else:
            for place in order:
                yield from self.read_records(RecordRange(shard.name, place, place + 1))

    def close(self) -> None:
        if callable(close := getattr(self._reader, "close", None)):
            close()
