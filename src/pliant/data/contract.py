"""What a reader is: the one contract between stored records and everything that consumes them.

Two methods must be written, ``create_shards`` (the parts of the data and their sizes) and ``read_records`` (the records of a range
of one part). Length, random access by *global* index (parts one after the other) and batched access follow from them; readers
that can do better override ``read`` and ``gather``.

A shard names either a part, and then counts records within it, or something else (a dataset), and then counts over all
parts. Neighbours: ``readers`` implement this, ``pipeline`` and ``map_dataset`` consume it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, chain, count
from numbers import Integral
from operator import eq
from types import TracebackType
from typing import Any, Protocol, Self, TypeGuard, overload, runtime_checkable

from pliant.core.errors import CorruptData, InvalidRequest
from pliant.data.columns import columns_of
from pliant.data.errors import OutOfRange


@runtime_checkable
class ShardRange(Protocol):
    """Records ``[start, end)`` of ``name``, or those of ``indices`` if a shard has them: a list, or a method that returns one."""

    @property
    def name(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


@dataclass(frozen=True, slots=True)
class RecordRange:
    """A ``ShardRange`` without a lease: records of one part, as readers ask each other for them."""

    name: str
    start: int
    end: int
    indices: tuple[int, ...] = ()


def order_of(shard: ShardRange) -> Sequence[int]:
    """The record numbers of a shard, in the order in which they are to be read."""
    listed = getattr(shard, "indices", None)
    if callable(listed):
        listed = listed()
    elif not listed:
        listed = range(shard.start, shard.end)
    if isinstance(listed, range):
        return listed
    chosen = list(listed)
    if chosen and chosen[-1] - chosen[0] + 1 == len(chosen) and all(map(eq, chosen, count(chosen[0]))):
        return range(chosen[0], chosen[0] + len(chosen))
    return chosen


class LazyBlock(ABC):
    """Neighbouring records that are made when they are taken, a list at a time."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def runs(self) -> Iterator[list[Any]]:
        """The records, in lists small enough to stay in the cache of a core."""

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self.runs())


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a ``dataset_fn`` may need to know of the source of its records."""

    format: str
    column_names: tuple[str, ...] = ()
    column_types: Mapping[str, str] = field(default_factory=dict)


class Parts:
    """Named parts one after the other: from a global index to a part and a position in it."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        for name, size in sizes.items():
            if not isinstance(size, Integral) or size < 0:
                raise InvalidRequest(f"create_shards returned {size!r:.40} records for {name!r}")
        self.names = list(sizes)
        self.starts = [0, *accumulate(sizes.values())]
        self._numbers = {name: number for number, name in enumerate(self.names)}

    def __len__(self) -> int:
        return self.starts[-1]

    def number(self, name: str) -> int | None:
        return self._numbers.get(name)

    def locate(self, index: int) -> tuple[int, int]:
        number = bisect_right(self.starts, index) - 1
        return number, index - self.starts[number]

    def spans(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """(part, start, stop) of each part that ``[start, stop)`` touches."""
        while start < stop:
            number, place = self.locate(start)
            length = min(stop, self.starts[number + 1]) - start
            yield number, place, place + length
            start += length


class DataReader(ABC):
    """Subclass this for data of your own; see the module's docstring."""

    @abstractmethod
    def create_shards(self) -> Mapping[str, int]:
        """Names of the parts (files, tables) and the number of records in each, in a fixed order."""

    @abstractmethod
    def read_records(self, shard: ShardRange) -> Iterator[Any]:
        """The records of a shard, in its order."""

    @property
    def metadata(self) -> Metadata:
        return Metadata("custom")

    @cached_property
    def parts(self) -> Parts:
        return Parts(self.create_shards())

    def __len__(self) -> int:
        return len(self.parts)

    def read(self, start: int, stop: int) -> Iterable[Any]:
        """Records ``[start, stop)`` by global index."""
        self._check(start, stop)
        for number, first, behind in self.parts.spans(start, stop):
            yield from self.read_records(RecordRange(self.parts.names[number], first, behind))

    def fetch(self, indices: Sequence[int]) -> list[Any]:
        """Records by global index, in the order asked for. Neighbours are read together."""
        found: list[Any] = []
        for first, behind in _runs(indices):
            found.extend(self.read(first, behind))
        return self._complete(found, indices)

    def fetch_columns(self, indices: Sequence[int]) -> Any:
        """The same records by column: see ``columns``."""
        return columns_of(self.fetch(indices))

    def blocks(self, indices: Sequence[int], size: int) -> Iterator[tuple[int, Iterable[Any]]]:
        """Records by global index in blocks of about ``size``, each with its number of records.

        Waiting (for a disk, a network, a decompressor) happens before a block is yielded.
        """
        for at in range(0, len(indices), size):
            some = indices[at : at + size]
            records = list(self.read(some.start, some.stop)) if is_run(some) else self.fetch(some)
            yield len(some), self._complete(records, some)

    def positions(self, shard: ShardRange) -> Sequence[int]:
        """The global indices of a shard's records, in its order."""
        order = order_of(shard)
        number = self.parts.number(shard.name)
        first = self.parts.starts[number] if number is not None else 0
        limit = (self.parts.starts[number + 1] if number is not None else len(self)) - first
        if len(order):
            least, most = (order.start, order.stop - 1) if is_run(order) else (min(order), max(order))
            self._check(least, most + 1, limit, shard.name)
        if not first:
            return order
        return range(first + order.start, first + order.stop) if is_run(order) else [first + i for i in order]

    def locate(self, index: int) -> tuple[str, int]:
        """The part that holds a global index, and the position in it, for messages."""
        number, place = self.parts.locate(index)
        return self.parts.names[number], place

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            wanted = range(*index.indices(len(self)))
            return list(self.read(wanted.start, wanted.stop)) if wanted.step == 1 else self.fetch(wanted)
        place = index + len(self) if index < 0 else index
        self._check(place, place + 1)
        return self.fetch([place])[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.read(0, len(self)))

    def close(self) -> None:  # noqa: B027  (readers without open files have nothing to close)
        """Release files and connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _complete(self, records: list[Any], indices: Sequence[int]) -> list[Any]:
        """A reader that returns fewer records than it promised must not look like the end of the data."""
        if len(records) != len(indices):
            part, place = self.locate(indices[0])
            raise CorruptData(
                f"{part}: {len(indices)} records were requested from record {place} on, {len(records)} were read"
            )
        return records

    def _check(self, start: int, stop: int, limit: int | None = None, name: str = "the data") -> None:
        limit = len(self) if limit is None else limit
        if not 0 <= start <= stop <= limit:
            raise OutOfRange(f"records [{start}, {stop}) were requested, {name} has {limit}")


class PartReader(DataReader):
    """Base of the built-in readers: one method for a range within a part, one for single positions in it."""

    @abstractmethod
    def read_part(self, number: int, start: int, stop: int) -> Iterable[Any]:
        """Records ``[start, stop)`` of a part; the range was checked."""

    def gather_part(self, number: int, positions: list[int]) -> Sequence[Any]:
        found: list[Any] = []
        for first, behind in _runs(positions):
            found.extend(self.read_part(number, first, behind))
        return found

    def read_records(self, shard: ShardRange) -> Iterator[Any]:
        for _, block in self.blocks(self.positions(shard), 1024):
            yield from block

    def read(self, start: int, stop: int) -> Iterable[Any]:
        self._check(start, stop)
        return self._read(start, stop)

    def _read(self, start: int, stop: int) -> Iterator[Any]:
        for number, first, behind in self.parts.spans(start, stop):
            yield from self.read_part(number, first, behind)

    def fetch(self, indices: Sequence[int]) -> list[Any]:
        if not len(indices):
            return []
        if is_run(indices):
            found = self.read(indices.start, indices.stop)
            return found if isinstance(found, list) else list(found)
        self._check(min(indices), max(indices) + 1)
        if len(self.parts.names) == 1:
            return list(self.gather_part(0, list(indices)))
        groups: dict[int, tuple[list[int], list[int]]] = {}
        for slot, index in enumerate(indices):
            number, place = self.parts.locate(index)
            slots, positions = groups.setdefault(number, ([], []))
            slots.append(slot)
            positions.append(place)
        picked: list[Any] = [None] * len(indices)
        for number, (slots, positions) in groups.items():
            for slot, record in zip(slots, self.gather_part(number, positions), strict=True):
                picked[slot] = record
        return picked


def is_run(indices: Sequence[int]) -> TypeGuard[range]:
    return isinstance(indices, range) and indices.step == 1


def _runs(indices: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Maximal stretches of neighbours, in order."""
    start = stop = -1
    for index in indices:
        if index != stop:
            if stop >= 0:
                yield start, stop
            start = index
        stop = index + 1
    if stop >= 0:
        yield start, stop
