"""The queue of one dataset: a cursor over computed epochs, what came back, what is parked, what is done.

An ``EpochShard`` is a shard of one epoch with its history: how many of its records are done, how often it failed. Shards
are handed out from two sources: first those that were returned, then the cursor. The state is the cursor and what is out
of order, so its size depends on what is in flight, never on the dataset.

Invariants: each (epoch, ordinal) is in exactly one of: ahead of the cursor, returned, out (leased), parked, lost, finished.
``finished_records`` counts each record of an epoch once; ``coverage`` is what proves it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pliant.core.errors import InvalidRequest
from pliant.core.shards.coverage import Coverage
from pliant.core.shards.datasets import MAX_RECORDS, DatasetSpec, Extent, Layout, ShardType
from pliant.core.shards.permutation import Permutation
from pliant.core.shards.streams import Stream

MAX_PRODUCERS = 1024  # of a stream, whose retried calls are recognised
MAX_RETURNED = 1 << 21  # shards; thousands of workers with a thousand each
LEASE_TIMEOUT_FACTOR = 3.0  # times the slowest shard so far


@dataclass(frozen=True, slots=True)
class EpochShard:
    epoch: int
    ordinal: int  # position in the epoch's order
    offset: int = 0  # records done, in the shard's own order
    failures: int = 0
    timeouts: int = 0

    def to_json(self) -> list[int]:
        return [self.epoch, self.ordinal, self.offset, self.failures, self.timeouts]


@dataclass(frozen=True, slots=True)
class ParkedShard:
    shard: EpochShard
    extent: Extent
    message: str  # its last failure, or how it was lost


@dataclass(frozen=True, slots=True)
class RestoredPosition:
    """The saved position that a dataset began with instead of its first shard."""

    digest: str  # tells two positions apart
    position: dict[str, Any]

    @property
    def records(self) -> int:
        return int(self.position["finished_records"])


class ShardQueue:
    def __init__(self, spec: DatasetSpec, origin: str = "", defined_by: str = "") -> None:
        self.spec = spec
        self.defined_by = defined_by  # the node, or empty: the job's spec
        self.origin = origin  # of which its own saved positions are recognised; empty: none is
        self.restored: RestoredPosition | None = None
        self.coverage = Coverage()  # of all records that are done
        self.layout = Layout(spec)
        self.stream = Stream(spec) if spec.stream else None
        self.length = 0  # of a stream, in records
        self.growths: dict[str, tuple[int, int]] = {}  # producer -> its last call and the answer, least recent first
        self.closed = not spec.stream
        self.epoch = 0
        self.cursor = 0
        self.returned: deque[EpochShard] = deque()
        self.parked: list[ParkedShard] = []
        self.lost: list[ParkedShard] = []  # with the programs that had them; nobody does them again
        self.out = 0  # shards that are leased
        self.finished_shards = 0
        self.finished_records = 0
        self.open_epochs: dict[int, int] = {}  # epoch -> records finished, of incomplete epochs
        self.epochs_done = 0
        self.slowest_s = 0.0  # longest time that a shard took
        self.ended = False  # before its last shard
        self.notes: dict[tuple[int, int], str] = {}  # (epoch, ordinal) -> note of the acknowledgement
        self._orders: dict[int, Permutation] = {}

    # --- reading

    @property
    def records_per_epoch(self) -> int:
        return self.length if self.spec.stream else self.layout.records

    @property
    def shards_per_epoch(self) -> int:
        return self.layout.shards if self.stream is None else self.stream.shards

    @property
    def exhausted(self) -> bool:
        """Nothing is left to hand out, now or later, unless what is out is returned."""
        if self.ended:
            return True
        last = self.epoch == self.spec.epochs - 1 or self.shards_per_epoch == 0
        return self.closed and last and self._epoch_cut() and not self.returned

    @property
    def complete(self) -> bool:
        return self.exhausted and self.out == 0

    @cached_property
    def layout_fields(self) -> dict[str, str]:
        """See ``DatasetSpec``; a list of indices may be long."""
        return self.spec.layout_fields()

    @property
    def has_begun(self) -> bool:
        """Whether shards were handed out, a stream grew, or it was ended or restored: it has a position of its own."""
        return bool(self.epoch or self.cursor or self.length or self.ended or self.restored)

    @property
    def is_exact(self) -> bool:
        """Whether each record was accepted exactly once, here or before the position that was restored."""
        if not self.complete or self.ended:
            return False
        size, repeated = self.spec.shard_size, self.spec.epochs  # a stream has one epoch
        return self.coverage.is_once(*((part.start * size, repeated * part.stop * size) for part in self.ordinals()))

    def lease_timeout(self) -> float:
        return max(self.spec.lease_floor, LEASE_TIMEOUT_FACTOR * self.slowest_s)

    def extent(self, shard: EpochShard) -> Extent:
        if self.stream is not None:
            return self.stream.extent(shard.ordinal)
        number = shard.ordinal
        if self.spec.shuffle:
            number = self._order(shard.epoch)[number]
        return self.layout.extent(number)

    def has_shard(self, epoch: int, ordinal: int) -> bool:
        if not 0 <= epoch < self.spec.epochs:
            return False
        return self.stream.has_shard(ordinal) if self.stream is not None else 0 <= ordinal < self.layout.shards

    def ordinals(self) -> list[range]:
        """Of the shards of an epoch, in ranges that ascend; of a stream, those so far."""
        return list(self.stream.ordinals()) if self.stream is not None else [range(self.layout.shards)]

    def is_handed_out(self, epoch: int, ordinal: int) -> bool:
        """Whether this shard is behind the cursor."""
        if self.stream is not None:
            return self.stream.is_handed_out(ordinal)
        return epoch < self.epoch or (epoch == self.epoch and ordinal < self.cursor)

    def handed_out(self, epoch: int) -> list[range]:
        """Of each range of ``ordinals``, those that are behind the cursor."""
        if self.stream is not None:
            return list(self.stream.handed_out())
        return [range(self.cursor if epoch == self.epoch else self.layout.shards if epoch < self.epoch else 0)]

    # --- changing

    def take(self) -> EpochShard | None:
        """The next shard to work on; None if there is none at present."""
        if self.ended:
            return None
        if self.returned:
            self.out += 1
            return self.returned.popleft()
        ordinal: int | None
        if self.stream is not None:
            ordinal = self.stream.take()
        elif self._epoch_cut() and (self.shards_per_epoch == 0 or not self._open_next_epoch()):
            ordinal = None
        else:
            ordinal = self.cursor
        if ordinal is None:
            return None
        self.cursor += 1
        self.out += 1
        return EpochShard(self.epoch, ordinal)

    def advance(self, shard: EpochShard, offset: int) -> EpochShard:
        """Count records ``[shard.offset, offset)`` of a shard that is out as finished."""
        start = self._start(shard)
        self.coverage.add(start + shard.offset, start + offset)
        self._count(shard, offset - shard.offset)
        return replace(shard, offset=offset)

    def finish(self, shard: EpochShard, size: int) -> None:
        self.out -= 1
        self.finished_shards += 1
        start = self._start(shard)
        self.coverage.add(start + shard.offset, start + self.spec.shard_size)
        self._count(shard, size - shard.offset)

    def give_back(self, shard: EpochShard, *, first: bool = True) -> None:
        self.out -= 1
        if self.ended:
            return  # it stays undone
        self.returned.appendleft(shard) if first else self.returned.append(shard)

    def end(self) -> None:
        """Hand out no more: what is out may still be finished, what is returned stays undone."""
        self.ended = True
        self.returned.clear()

    def lose(self, shard: EpochShard, message: str) -> None:
        """The program that had it is gone, and nobody is to do it again."""
        self.out -= 1
        self.lost.append(ParkedShard(shard, self.extent(shard), message))

    def retry_parked(self) -> int:
        """Queue again what was given up; returns how many shards."""
        if self.ended or self.spec.skip_parked:
            return 0
        shards = [replace(parked.shard, failures=0, timeouts=0) for parked in self.parked]
        self.parked.clear()
        self.returned.extend(shards)
        return len(shards)

    def fail(self, shard: EpochShard, message: str) -> None:
        """The program failed on it: retry it later, or park it."""
        self._blame(replace(shard, failures=shard.failures + 1), message)

    def time_out(self, shard: EpochShard, message: str) -> None:
        self._blame(replace(shard, timeouts=shard.timeouts + 1), message)

    def grow(
        self,
        records: int,
        *,
        close: bool,
        producer: str = "",
        number: int = 0,
        partition: str | None = None,
        end: int | None = None,
    ) -> int:
        """Append records to a stream, or to a partition of it, up to an end if that is given, and close it if asked; returns the
        length of the stream, or the end of the partition. Calls without a producer are never retries."""
        if self.stream is None:
            raise InvalidRequest(f"dataset {self.spec.name!r} is not a stream; its size is fixed")
        last, answered = self.growths.get(producer, (0, 0))
        if producer and (number < max(1, last) or len(producer) > 200):
            raise InvalidRequest(f"call {number} of producer {producer:.200} is out of order: its last one was {last}")
        if producer and number == last:
            return answered
        answer = self.stream.grow(records, partition=partition, end=end, close=close)
        self.length, self.closed = self.stream.records, self.stream.closed
        if producer:
            self.growths.pop(producer, None)
            self.growths[producer] = (number, answer)
            if len(self.growths) > MAX_PRODUCERS:
                del self.growths[next(iter(self.growths))]
        return answer

    # --- inside

    def _start(self, shard: EpochShard) -> int:
        """Where it starts on the line of all shards of all epochs; a short shard takes as much of it as any other."""
        return (shard.epoch * self.shards_per_epoch + shard.ordinal) * self.spec.shard_size

    def _epoch_cut(self) -> bool:
        return self.cursor >= self.shards_per_epoch

    def _open_next_epoch(self) -> bool:
        waits = self.spec.epoch_barrier and (self.out > 0 or self.returned)
        if self.spec.stream or self.epoch + 1 >= self.spec.epochs or waits:
            return False
        self.epoch += 1
        self.cursor = 0
        return True

    def _blame(self, shard: EpochShard, message: str) -> None:
        if shard.failures < self.spec.max_failures and shard.timeouts < self.spec.max_timeouts:
            self.give_back(shard, first=False)  # last, so that a failing shard does not hold up the others
            return
        self.out -= 1
        self.parked.append(ParkedShard(shard, self.extent(shard), message))

    def _count(self, shard: EpochShard, records: int) -> None:
        epoch = shard.epoch
        self.finished_records += records
        if self.stream is not None:
            self.stream.finish(shard.ordinal, records)
        done = self.open_epochs.get(epoch, 0) + records
        self.open_epochs[epoch] = done
        if not self.spec.stream and done == self.layout.records:
            del self.open_epochs[epoch]
            self.epochs_done += 1

    def _order(self, epoch: int) -> Permutation:
        order = self._orders.get(epoch)
        if order is None:
            order = Permutation(self.layout.shards, self.spec.seed, "shards", epoch)
            if len(self._orders) >= 4:  # epochs overlap a little; others are recomputed
                self._orders.pop(min(self._orders))
            self._orders[epoch] = order
        return order

    # --- as JSON

    def position(self, in_work: Sequence[EpochShard] = ()) -> dict[str, Any]:
        """How far it is, for another job to continue from. Shards in work count as not done, and so do lost ones."""
        undone = sorted([*in_work, *(p.shard for p in self.lost)], key=lambda shard: (shard.epoch, shard.ordinal))
        return {
            "epoch": self.epoch,
            "cursor": self.cursor,
            "length": self.length,
            "closed": self.closed,
            "growths": [[producer, *last] for producer, last in self.growths.items()],
            "returned": pack([*undone, *self.returned]),
            "parked": [[p.shard.to_json(), p.message] for p in self.parked],
            "finished_shards": self.finished_shards,
            "finished_records": self.finished_records,
            "open_epochs": [[e, n] for e, n in self.open_epochs.items()],
            "epochs_done": self.epochs_done,
            "slowest_s": self.slowest_s,
            **(self.stream.snapshot() if self.stream is not None and self.stream.is_partitioned else {}),
            **({"ended": True} if self.ended else {}),
            **({"notes": [[*key, note] for key, note in self.notes.items()]} if self.notes else {}),
        }

    def snapshot(self) -> dict[str, Any]:
        """All but the shards that are out: those are in the snapshots of the sessions."""
        restored = self.restored
        return {
            **self.position(),
            "returned": pack(list(self.returned)),
            "lost": [[p.shard.to_json(), p.message] for p in self.lost],
            "origin": self.origin,
            "defined_by": self.defined_by,
            "coverage": self.coverage.fingerprint,
            "restored": [restored.digest, restored.position] if restored is not None else None,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.set_position(state)
        self.lost = self._parked(state["lost"])
        self.origin = state["origin"]
        self.defined_by = state["defined_by"]
        self.coverage = Coverage(state["coverage"])
        self.restored = RestoredPosition(*state["restored"]) if state["restored"] else None

    def begin_at(self, restored: RestoredPosition) -> None:
        """Start from a saved position instead of the first shard."""
        self.set_position(restored.position)
        self.restored = restored
        self.coverage = Coverage()
        for part in self.handed_out(self.epoch):
            before = self.epoch * self.shards_per_epoch
            self.coverage.add(part.start * self.spec.shard_size, (before + part.stop) * self.spec.shard_size)
        for shard in [*self.returned, *(p.shard for p in self.parked)]:
            start = self._start(shard)
            self.coverage.add(start + self.spec.shard_size, start + shard.offset)

    def set_position(self, state: Mapping[str, Any]) -> None:
        self.epoch, self.cursor = state["epoch"], state["cursor"]
        self.length, self.closed = state["length"], state["closed"]
        self.growths = {producer: (number, length) for producer, number, length in state["growths"]}
        if self.stream is not None:
            self._restore_stream(self.stream, state)
        self.returned = deque(unpack(state["returned"]))
        self.parked = self._parked(state["parked"])
        self.out = 0
        self.finished_shards = state["finished_shards"]
        self.finished_records = state["finished_records"]
        self.open_epochs = dict(state["open_epochs"])
        self.epochs_done = state["epochs_done"]
        self.slowest_s = state["slowest_s"]
        self.ended = bool(state.get("ended", False))
        self.notes = {(epoch, ordinal): note for epoch, ordinal, note in state.get("notes", ())}

    def _restore_stream(self, stream: Stream, state: Mapping[str, Any]) -> None:
        if stream.is_partitioned:
            stream.restore(state)
            return
        stream.restore_plain(
            length=self.length, closed=self.closed, cursor=self.cursor, finished=state["finished_records"]
        )

    def _parked(self, state: Sequence[Sequence[Any]]) -> list[ParkedShard]:
        shards = ((EpochShard(*fields), message) for fields, message in state)
        return [ParkedShard(shard, self.extent(shard), message) for shard, message in shards]

    def check(self) -> None:
        """Refuse a state that no history leads to, such as that of a truncated or edited checkpoint."""
        known = [*self.returned, *(p.shard for p in self.parked)]
        counts = [self.epoch, self.cursor, self.length, self.finished_shards, self.finished_records, self.epochs_done]
        counts += [number for entry in self.open_epochs.items() for number in entry]
        counts += [number for shard in known for number in shard.to_json()]
        if any(type(count) is not int for count in counts):
            raise InvalidRequest(f"dataset {self.spec.name!r} has an invalid saved state: counts must be integers")
        shards, handed_out = self.shards_per_epoch, self.epoch * self.shards_per_epoch + self.cursor
        facts = {
            "cursor": 0 <= self.epoch < self.spec.epochs and 0 <= self.cursor <= shards,
            "length": 0 <= self.length <= (MAX_RECORDS if self.spec.stream else 0)
            and (self.spec.stream or self.closed),
            "finished_shards": self.finished_shards >= 0
            and (self.ended or handed_out == self.finished_shards + len(known) + self.out),
            "finished_records": 0 <= self.finished_records <= self.spec.epochs * self.records_per_epoch,
            "closed": type(self.closed) is bool,
            "slowest_s": isinstance(self.slowest_s, int | float) and 0 <= self.slowest_s < float("inf"),
            "parked": all(isinstance(p.message, str) for p in self.parked),
            "growths": all(isinstance(p, str) and type(n) is type(m) is int for p, (n, m) in self.growths.items()),
            "returned": len({(s.epoch, s.ordinal) for s in known}) == len(known) and all(map(self._cut, known)),
        }
        if self.stream is not None:
            facts |= dict.fromkeys(self.stream.problems(), False)
            found = (self.stream.records, self.stream.closed, self.stream.cursor)
            facts["partitions"] = facts.get("partitions", True) and found == (self.length, self.closed, self.cursor)
        if wrong := [name for name, holds in facts.items() if not holds]:
            raise InvalidRequest(f"dataset {self.spec.name!r} has an invalid saved state: check {', '.join(wrong)}")

    def _cut(self, shard: EpochShard) -> bool:
        """Whether this shard was handed out and is not finished."""
        if not (0 <= shard.epoch <= self.epoch and self.has_shard(shard.epoch, shard.ordinal)):
            return False
        extent, behind = self.extent(shard), self.is_handed_out(shard.epoch, shard.ordinal)
        return behind and 0 <= shard.offset < extent.end - extent.start and min(shard.failures, shard.timeouts) >= 0

    @property
    def never_requested(self) -> bool:
        """The train-end shard of a job that trains nothing, and so never asked for it."""
        return self.spec.type is ShardType.TRAIN_END and self.is_untouched

    @property
    def is_untouched(self) -> bool:
        """Nothing of it was ever handed out."""
        return self.epoch == self.cursor == 0

    @property
    def is_training(self) -> bool:
        return self.spec.type is ShardType.TRAIN


def pack(shards: list[EpochShard]) -> list[list[int]]:
    """Runs of adjacent untouched shards as ``[epoch, first, count]``, any other shard with all of its fields."""
    packed: list[list[int]] = []
    run: list[int] | None = None
    for shard in shards:
        fresh = shard.offset == shard.failures == shard.timeouts == 0
        if fresh and run is not None and run[0] == shard.epoch and run[1] + run[2] == shard.ordinal:
            run[2] += 1
            continue
        run = [shard.epoch, shard.ordinal, 1] if fresh else None
        packed.append(run if run is not None else shard.to_json())
    return packed


def unpack(packed: list[list[int]]) -> list[EpochShard]:
    shards: list[EpochShard] = []
    for fields in packed:
        if len(fields) == 3:
            epoch, first, count = fields
            if len(shards) + count > MAX_RETURNED:
                raise ValueError(f"more than {MAX_RETURNED} returned shards")
            shards.extend(EpochShard(epoch, ordinal) for ordinal in range(first, first + count))
        else:
            shards.append(EpochShard(*fields))
    return shards
