"""A stream: records that arrive in partitions, as those of a log such as Kafka do, and are cut into shards as they come.

A partition has a name, the offset of its first record, and an end that grows until the partition is closed. Its shards are
ranges of its offsets: whole ones while it is open, and a last one of what is left when it is closed. A stream without partitions
has one, called as the dataset, from offset 0.

Shards ahead are handed out in turns, one of each partition that has some, so that no partition waits for another. State is an
end and a position per partition. The ordinal of a shard has the number of its partition in its upper bits, so it never changes,
however the others grow; that of the only partition is the plain number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pliant.core.errors import InvalidRequest, NotFound
from pliant.core.shards.datasets import MAX_RECORDS, DatasetSpec, Extent

SHARD_BITS = 42  # of an ordinal, for the number within the partition; 12 more hold MAX_PARTITIONS


@dataclass(slots=True)
class Partition:
    name: str
    start: int  # offset of its first record
    end: int  # offset after its last record so far
    closed: bool = False
    cursor: int = 0  # shards handed out, of those that were cut
    finished: int = 0  # records

    def shards(self, size: int) -> int:
        """How many can be cut so far."""
        records = self.end - self.start
        return -(-records // size) if self.closed else records // size

    def position(self, size: int) -> int:
        """The offset of the next record to hand out."""
        return min(self.start + self.cursor * size, self.end)


class Stream:
    def __init__(self, spec: DatasetSpec) -> None:
        self._name = spec.name
        self._size = spec.shard_size
        self.is_partitioned = bool(spec.partitions)
        parts = [(part.name, part.start) for part in spec.partitions] or [(spec.name, 0)]
        self.partitions = [Partition(name, start, start) for name, start in parts]
        self._numbers = {name: number for number, (name, _) in enumerate(parts)}
        self.turn = 0  # number of the partition that is asked first for the next shard
        self._add_up()

    def _add_up(self) -> None:
        """What is asked with every lease changes only with the ends of partitions."""
        self.records = sum(part.end - part.start for part in self.partitions)
        self.shards = sum(part.shards(self._size) for part in self.partitions)
        self.closed = all(part.closed for part in self.partitions)

    # --- reading

    @property
    def cursor(self) -> int:
        """Shards handed out, of all partitions."""
        return sum(part.cursor for part in self.partitions)

    def partition_of(self, ordinal: int) -> Partition:
        return self.partitions[self._split(ordinal)[0]]

    def extent(self, ordinal: int) -> Extent:
        number, shard = self._split(ordinal)
        part = self.partitions[number]
        start = part.start + shard * self._size
        return Extent(part.name, start, min(start + self._size, part.end))

    def has_shard(self, ordinal: int) -> bool:
        number, shard = self._split(ordinal)
        return 0 <= number < len(self.partitions) and 0 <= shard < self.partitions[number].shards(self._size)

    def is_handed_out(self, ordinal: int) -> bool:
        return self.has_shard(ordinal) and self._split(ordinal)[1] < self.partition_of(ordinal).cursor

    def ordinals(self) -> Iterator[range]:
        """Those of all shards so far, a range per partition, in their order."""
        for number, part in enumerate(self.partitions):
            first = self._ordinal(number, 0)
            yield range(first, first + part.shards(self._size))

    def handed_out(self) -> Iterator[range]:
        """Of each range of ``ordinals``, those that were handed out."""
        for number, part in enumerate(self.partitions):
            first = self._ordinal(number, 0)
            yield range(first, first + part.cursor)

    # --- changing

    def take(self) -> int | None:
        """The ordinal of the next shard, of the partition whose turn it is; None if no partition has one at present."""
        count = len(self.partitions)
        for number in (*range(self.turn, count), *range(self.turn)):
            part = self.partitions[number]
            if part.cursor < part.shards(self._size):
                part.cursor += 1
                self.turn = (number + 1) % count
                return self._ordinal(number, part.cursor - 1)
        return None

    def finish(self, ordinal: int, records: int) -> None:
        self.partition_of(ordinal).finished += records

    def grow(self, records: int, *, partition: str | None, end: int | None, close: bool) -> int:
        """Add records, or those up to an end; or close. Of one partition, or (to close) of all. Returns the end of the partition,
        without one the length of the stream."""
        if partition is None and self.is_partitioned:
            return self._close_all(records, end, close)
        part = self._partition(partition)
        grown = self._grown(part, records, end)
        if part.closed and (grown > part.end or (end is None and not close)):
            raise InvalidRequest(f"{self._called(part)} is closed")
        part.end = grown
        part.closed = part.closed or close
        self._add_up()
        return part.end

    def _close_all(self, records: int, end: int | None, close: bool) -> int:
        if records or end is not None or not close:
            raise InvalidRequest(
                f"stream {self._name!r} has partitions; specify which one to extend", hint=self._known()
            )
        for part in self.partitions:
            part.closed = True
        self._add_up()
        return self.records

    def _partition(self, name: str | None) -> Partition:
        if name is None:
            return self.partitions[0]
        if not self.is_partitioned:
            raise InvalidRequest(f"stream {self._name!r} has no partitions, but {name!r:.100} was given")
        if name not in self._numbers:
            raise NotFound(f"stream {self._name!r} has no partition {name!r:.100}", hint=self._known())
        return self.partitions[self._numbers[name]]

    def _grown(self, part: Partition, records: int, end: int | None) -> int:
        """Its new end. An end that was reached before is no mistake: several producers may read it at the source."""
        if records < 0:
            raise InvalidRequest(f"a stream cannot grow by {records} records")
        if end is not None and records:
            raise InvalidRequest(f"{self._called(part)}: specify records or an end, not both")
        if end is not None and end < part.start:
            raise InvalidRequest(f"{self._called(part)} starts at {part.start}; it cannot end at {end}")
        grown = part.end + records if end is None else max(part.end, end)
        if grown > MAX_RECORDS or self.records + grown - part.end > MAX_RECORDS:
            raise InvalidRequest(f"stream {self._name!r} cannot hold more than {MAX_RECORDS} records")
        if self.is_partitioned and grown - part.start > self._size << SHARD_BITS:
            raise InvalidRequest(f"{self._called(part)} cannot have more than 2^{SHARD_BITS} shards")
        return grown

    def _called(self, part: Partition) -> str:
        return f"partition {part.name!r} of stream {self._name!r}" if self.is_partitioned else f"stream {self._name!r}"

    def _known(self) -> str:
        names = [part.name for part in self.partitions]
        return f"its partitions: {', '.join(names[:10])}" + (" and more" if len(names) > 10 else "")

    def _split(self, ordinal: int) -> tuple[int, int]:
        if len(self.partitions) == 1:
            return 0, ordinal
        return ordinal >> SHARD_BITS, ordinal & ((1 << SHARD_BITS) - 1)

    def _ordinal(self, number: int, shard: int) -> int:
        return number << SHARD_BITS | shard if number else shard

    # --- as JSON

    def snapshot(self) -> dict[str, Any]:
        """Of a stream with partitions: where each stands."""
        parts = [
            {
                "name": part.name,
                "position": part.position(self._size),
                "end": part.end,
                "closed": part.closed,
                "finished_records": part.finished,
            }
            for part in self.partitions
        ]
        return {"partitions": parts, "turn": self.turn}

    def restore(self, state: Mapping[str, Any]) -> None:
        """From ``snapshot``. ``ValueError``: it is of other partitions, or no such state."""
        saved: Sequence[Mapping[str, Any]] = state["partitions"]
        if [part["name"] for part in saved] != [part.name for part in self.partitions]:
            raise ValueError(f"partitions {[part['name'] for part in saved]} in another stream")
        for part, entry in zip(self.partitions, saved, strict=True):
            part.end, part.closed, part.finished = entry["end"], entry["closed"], entry["finished_records"]
            part.cursor = -(-(entry["position"] - part.start) // self._size)
            if part.position(self._size) != entry["position"]:
                raise ValueError(f"partition {part.name!r} cannot stand at {entry['position']}")
        self.turn = state["turn"]
        self._add_up()

    def restore_plain(self, *, length: int, closed: bool, cursor: int, finished: int) -> None:
        """Of a stream without partitions, whose queue says all there is to say."""
        [part] = self.partitions
        part.end, part.closed, part.cursor, part.finished = length, closed, cursor, finished
        self._add_up()

    def problems(self) -> list[str]:
        """What no history leads to, such as in a checkpoint that was edited."""
        counts = [n for part in self.partitions for n in (part.end, part.cursor, part.finished)]
        if any(type(count) is not int for count in [*counts, self.turn]):
            return ["partitions"]
        holds = all(
            part.start <= part.end <= MAX_RECORDS
            and type(part.closed) is bool
            and 0 <= part.cursor <= part.shards(self._size)
            and 0 <= part.finished <= part.end - part.start
            for part in self.partitions
        )
        found = [] if holds and self.records <= MAX_RECORDS else ["partitions"]
        return found if 0 <= self.turn < len(self.partitions) else [*found, "turn"]
