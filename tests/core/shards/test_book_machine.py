"""Random histories of the shard book, against a model that is a plain table of every shard.

The model knows no cursor, no permutation and no arithmetic of shards: it lists all records, cuts them, and keeps for
each shard of each epoch where it is. Two drivers run the same steps: hypothesis, which shrinks what it finds, and plain
dice, which are an order of magnitude cheaper. ``PLIANT_HYPOTHESIS=long`` runs twenty times as many histories of both.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from random import Random
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pliant.core.errors import Conflict, InvalidRequest, NotFound, PliantError, SessionExpired
from pliant.core.shards.book import MAX_LEASES_PER_CALL, ShardBook
from pliant.core.shards.datasets import DatasetSpec, ShardType
from pliant.core.shards.leases import Answer, Availability, Lease
from pliant.core.shards.streams import Stream

MORE_HISTORIES = 20 if os.environ.get("PLIANT_HYPOTHESIS") == "long" else 1
pytestmark = pytest.mark.timeout(300 * MORE_HISTORIES)

Json = dict[str, Any]
Record = tuple[str, int]  # file or dataset, position
T = TypeVar("T")


class Place(Enum):
    AHEAD = auto()
    RETURNED = auto()
    OUT = auto()
    PARKED = auto()
    LOST = auto()
    FINISHED = auto()


UNLEASABLE = (Place.FINISHED, Place.PARKED, Place.LOST)


@dataclass
class ModelShard:
    epoch: int
    name: str
    start: int
    end: int
    place: Place = Place.AHEAD
    offset: int = 0
    failures: int = 0
    timeouts: int = 0

    @property
    def size(self) -> int:
        return self.end - self.start


class ModelDataset:
    def __init__(self, definition: Json) -> None:
        self.definition = definition
        self.spec = DatasetSpec.from_json(definition)
        self.starts = {p.name: p.start for p in self.spec.partitions} or {self.spec.name: 0}
        self.ends = dict(self.starts)  # of a stream, by partition
        self.closed_parts: set[str] = set() if self.spec.stream else set(self.starts)
        self.shards: dict[tuple[int, str, int], ModelShard] = {}
        self.accepted: Counter[tuple[int, Record]] = Counter()
        if not self.spec.stream:
            for epoch in range(self.spec.epochs):
                for name, start, stop in self._sources():
                    self._cut(epoch, name, range(start, stop))

    def _sources(self) -> Iterator[tuple[str, int, int]]:
        if self.spec.files:
            yield from ((f.name, f.start, f.end) for f in self.spec.files)
        else:
            yield self.spec.name, 0, len(self.spec.indices) or self.spec.size or 0

    def _cut(self, epoch: int, name: str, positions: Sequence[int]) -> None:
        size = self.spec.shard_size
        for chunk in (positions[i : i + size] for i in range(0, len(positions), size)):
            self.shards[epoch, name, chunk[0]] = ModelShard(epoch, name, chunk[0], chunk[-1] + 1)

    @property
    def length(self) -> int:
        return sum(self.ends[name] - start for name, start in self.starts.items())

    @property
    def closed(self) -> bool:
        return len(self.closed_parts) == len(self.starts)

    def grow(self, records: int, close: bool, name: str) -> None:
        size, start = self.spec.shard_size, self.starts[name]
        cut = (self.ends[name] - start) // size * size
        self.ends[name] += records
        if close:
            self.closed_parts.add(name)
        length = self.ends[name] - start
        whole = length if name in self.closed_parts else length // size * size
        self._cut(0, name, range(start + cut, start + whole))

    def at(self, place: Place) -> list[ModelShard]:
        return [p for p in self.shards.values() if p.place is place]

    @property
    def complete(self) -> bool:
        return self.closed and all(p.place in UNLEASABLE for p in self.shards.values())

    @property
    def exact(self) -> bool:
        return self.complete and all(p.place is Place.FINISHED for p in self.shards.values())

    def leasable(self) -> int:
        ahead, returned = self.at(Place.AHEAD), self.at(Place.RETURNED)
        if not (ahead and self.spec.epoch_barrier):
            return len(returned) + len(ahead)
        epoch = min(p.epoch for p in ahead)
        of_epoch = [p for p in self.shards.values() if p.epoch == epoch]
        untouched = epoch > 0 and all(p.place is Place.AHEAD for p in of_epoch)
        if untouched and (returned or self.at(Place.OUT)):
            return len(returned)
        return len(returned) + sum(p.epoch == epoch for p in ahead)

    def accept(self, shard: ModelShard, end: int) -> tuple[int, int]:
        begin, shard.offset = shard.offset, end
        for position in range(shard.start + begin, shard.start + end):
            self.accepted[shard.epoch, (shard.name, position)] += 1
        return begin, end

    def blame(self, shard: ModelShard, *, failures: int = 0, timeouts: int = 0) -> None:
        shard.failures += failures
        shard.timeouts += timeouts
        too_often = shard.failures >= self.spec.max_failures or shard.timeouts >= self.spec.max_timeouts
        shard.place = Place.PARKED if too_often else Place.RETURNED


@dataclass
class ModelSession:
    name: str
    node: str
    incarnation: int
    granted: int = 0
    held: dict[int, tuple[ModelDataset, ModelShard]] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    timed_out: bool = False
    waiting: set[str] = field(default_factory=set)
    last_call: Json = field(default_factory=dict)
    last_answer: Answer | None = None

    @property
    def request(self) -> int:
        return int(self.last_call.get("request", 0))

    def heads(self) -> list[int]:
        first: dict[str, int] = {}
        for number, (dataset, _) in sorted(self.held.items()):
            first.setdefault(dataset.spec.name, number)
        return list(first.values())


sizes = st.integers(0, 14)
shard_sizes = st.sampled_from([1, 2, 3, 5, 20])
limits = {"max_failures": st.integers(1, 3), "max_timeouts": st.integers(1, 3), "skip_parked": st.booleans()}
order = {
    "epochs": st.integers(1, 3),
    "shuffle": st.booleans(),
    "shuffle_records": st.booleans(),
    "epoch_barrier": st.booleans(),
    "seed": st.integers(0, 3),
    "lease_floor": st.sampled_from([1, 10.0, 300.0]),
}


def _definition(name: str, type_: ShardType, **parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    fixed = {"name": st.just(name), "type": st.just(type_.value), "shard_size": shard_sizes}
    return st.fixed_dictionaries({**fixed, **limits, **parts})


def _parts(counts: list[tuple[int, int]]) -> list[list[str | int]]:
    return [[f"file-{i}", start, start + count] for i, (start, count) in enumerate(counts)]


range_datasets = _definition("range", ShardType.TRAIN, size=sizes, **order)
file_datasets = _definition(
    "files",
    ShardType.EVAL,
    files=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 7)), min_size=1, max_size=4).map(_parts),
    **order,
)
index_datasets = _definition(
    "list", ShardType.PREDICT, indices=st.lists(st.integers(0, 10**15), min_size=1, max_size=9), **order
)
stream_partitions = st.lists(st.integers(0, 7), max_size=3).map(lambda at: [[f"p{i}", n] for i, n in enumerate(at)])
stream_datasets = _definition(
    "stream", ShardType.TRAIN, stream=st.just(True), shuffle_records=st.booleans(), partitions=stream_partitions
)
end_datasets = _definition("end", ShardType.TRAIN_END, size=st.integers(0, 3))
jobs = st.tuples(
    range_datasets, st.none() | file_datasets, st.none() | index_datasets, st.none() | stream_datasets
).map(lambda job: [d for d in job if d is not None])

picks = st.integers(0, 40)
waits = st.sampled_from([0, 1, 7, 40, 400])
reports = st.lists(
    st.tuples(picks, st.sampled_from(["done", "done", "progress", "failed", "released"]), picks), max_size=5
)
ABSURD = (
    "want less than nothing",
    "want too many",
    "unknown dataset",
    "unknown session",
    "request 0",
    "request -1",
    "an older request",
    "lease 0",
    "lease never granted",
    "lease twice",
    "lease done and failed",
    "progress beyond the size",
    "negative progress",
    "shrink a stream",
    "grow what is no stream",
    "stream without an end",
    "drop what is not done",
    "define it otherwise",
    "expire of nobody",
    "someone else's session",
    "nameless session",
)


class ShardBookMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.book = ShardBook()
        self.journal: list[tuple[str, float, Json]] = []
        self.now = 1000.0
        self.datasets: dict[str, ModelDataset] = {}
        self.sessions: dict[str, ModelSession] = {}
        self.closed: list[tuple[str, Json]] = []
        self.opened = 0
        self.jobs = 0
        self.restored: Json | None = None  # what this job began with
        self.own_positions: list[Json] = []
        self.damaged = False

    # --- how calls are made

    def call(self, method: str, wait: int, **kwargs: Any) -> Any:
        self.now += wait
        sent = json.loads(json.dumps(kwargs))
        try:
            result = getattr(self.book, method)(self.now, **sent)
        except PliantError:
            self.damaged = True
            raise
        self.journal.append((method, self.now, sent))
        return result

    def refused(self, error: type[PliantError], call: Callable[[], object]) -> None:
        before = self.book.snapshot()
        with pytest.raises(error):
            call()
        assert self.book.snapshot() == before

    def session(self, pick: int) -> ModelSession:
        return list(self.sessions.values())[pick % len(self.sessions)]

    def dataset(self, pick: int) -> ModelDataset:
        return list(self.datasets.values())[pick % len(self.datasets)]

    def trained(self) -> bool:
        training = [d for d in self.datasets.values() if d.spec.type is ShardType.TRAIN]
        return bool(training) and all(d.complete for d in training)

    def withheld(self, holder: ModelSession, dataset: ModelDataset) -> bool:
        """A hung program is given nothing; one that waits comes after all others that want the same."""
        name = dataset.spec.name
        rivals = [
            s
            for s in self.sessions.values()
            if s is not holder
            and not s.timed_out
            and (name in s.waiting or any(d is dataset for d, _ in s.held.values()))
        ]
        return holder.timed_out and (name not in holder.waiting or bool(rivals))

    def leasable(self, dataset: ModelDataset) -> int:
        if dataset.spec.type is ShardType.TRAIN_END and not self.trained():
            return 0
        return dataset.leasable()

    def availability(self, dataset: ModelDataset) -> Availability:
        if dataset.complete:
            return Availability.END
        return Availability.MORE if self.leasable(dataset) else Availability.WAIT

    # --- what may happen

    @initialize(job=jobs, end=st.none() | end_datasets, grown=st.integers(0, 9))
    def start(self, job: list[Json], end: Json | None, grown: int) -> None:
        for definition in [*job, end] if end is not None else job:
            assert self.call("create", 0, dataset=definition, origin="job-0") is True
            self.datasets[definition["name"]] = ModelDataset(definition)
        self.grow(records=grown, close=False, wait=0)
        self.open_session(node=0, incarnation=0, wait=0)

    @rule(node=st.integers(0, 2), incarnation=st.integers(0, 2), wait=waits)
    def open_session(self, node: int, incarnation: int, wait: int) -> None:
        self.opened += 1
        name = f"session-{self.opened}"
        self.sessions[name] = ModelSession(name, f"worker-{node}", incarnation)
        for _ in ("first", "sent again"):
            self.call("open_session", wait, session=name, node=f"worker-{node}", incarnation=incarnation)

    @precondition(lambda self: self.sessions and self.datasets)
    @rule(
        session=picks,
        dataset=st.none() | picks,
        want=st.integers(0, 5),
        reported=reports,
        waiting=st.booleans(),
        wait=waits,
    )
    def exchange(
        self,
        session: int,
        dataset: int | None,
        want: int,
        reported: list[tuple[int, str, int]],
        waiting: bool,
        wait: int,
    ) -> None:
        holder = self.session(session)
        kwargs: Json = {"done": [], "progress": [], "failed": [], "released": []}
        seen: set[int] = set()
        for pick, kind, amount in reported:
            candidates = [*holder.held, *holder.held, *range(1, holder.granted + 1)]
            number = candidates[pick % len(candidates)] if candidates else 0
            if number in seen or not number:
                continue
            seen.add(number)
            if kind in ("done", "released"):
                kwargs[kind].append(number)
            if kind == "progress" or (kind in ("failed", "released") and amount % 2):
                most = holder.held[number][1].size if number in holder.held else 50
                kwargs["progress"].append([number, amount % (most + 1)])
            if kind == "failed":
                kwargs["failed"].append([number, "ValueError: no such label"])
        target = None if dataset is None else self.dataset(dataset)
        self._exchange(holder, target, want, wait, waiting=waiting, **kwargs)

    def _exchange(
        self,
        holder: ModelSession,
        target: ModelDataset | None,
        want: int,
        wait: int,
        done: Sequence[int] = (),
        progress: Sequence[tuple[int, int]] = (),
        failed: Sequence[tuple[int, str]] = (),
        released: Sequence[int] = (),
        waiting: bool = False,
    ) -> Answer:
        holder.last_call = {
            "session": holder.name,
            "request": holder.request + 1,
            "dataset": target and target.spec.name,
            "want": want,
            "done": done,
            "progress": progress,
            "failed": failed,
            "released": released,
            "waiting": waiting,
        }
        answer: Answer = self.call("exchange", wait, **holder.last_call)
        holder.last_answer = answer
        accepted: list[tuple[int, int, int]] = []
        lost: list[int] = []
        for number in done:
            self._reported(holder, number, None, accepted, lost)
        for number, records in progress:
            self._reported(holder, number, records, accepted, lost)
        for number, _ in failed:
            if number in holder.held:
                dataset, shard = holder.held.pop(number)
                dataset.blame(shard, failures=1)
                holder.lost.add(number)
            elif number in holder.lost:
                lost.append(number)
        for number in reversed(released):
            if number in holder.held:
                holder.held.pop(number)[1].place = Place.RETURNED
                holder.lost.add(number)
            elif number in holder.lost:
                lost.append(number)
        assert [(a.lease.number, a.begin, a.end) for a in answer.accepted] == accepted
        assert list(answer.refused) == lost
        assert not answer.repeated
        if done or progress or failed or released:
            holder.timed_out = False
        if target is None:
            assert answer.leases == ()
            return answer
        (holder.waiting.add if waiting else holder.waiting.discard)(target.spec.name)
        withheld = self.withheld(holder, target)
        assert len(answer.leases) == (0 if withheld else min(want, self.leasable(target)))
        for lease in answer.leases:
            self._leased(holder, target, lease)
        expected = self.availability(target)
        if withheld and expected is Availability.MORE:
            expected = Availability.WAIT
        assert answer.availability is expected
        return answer

    def _reported(
        self,
        holder: ModelSession,
        number: int,
        records: int | None,
        accepted: list[tuple[int, int, int]],
        lost: list[int],
    ) -> None:
        if number in holder.lost:
            lost.append(number)
        elif number in holder.held:
            dataset, shard = holder.held[number]
            end = shard.size if records is None else records
            if end > shard.offset:
                accepted.append((number, *dataset.accept(shard, end)))
            if end == shard.size:
                shard.place = Place.FINISHED
                del holder.held[number]

    def _leased(self, holder: ModelSession, dataset: ModelDataset, lease: Lease) -> None:
        holder.granted += 1
        assert lease.number == holder.granted
        shard = dataset.shards[lease.shard.epoch, lease.extent.name, lease.extent.start]
        assert (shard.end, shard.offset) == (lease.extent.end, lease.shard.offset)
        assert (shard.failures, shard.timeouts) == (lease.shard.failures, lease.shard.timeouts)
        assert lease.indices == dataset.spec.indices[shard.start : shard.end]
        if returned := dataset.at(Place.RETURNED):
            assert shard in returned
        else:
            assert shard.place is Place.AHEAD
            assert shard.epoch == min(p.epoch for p in dataset.at(Place.AHEAD))
        shard.place = Place.OUT
        holder.held[lease.number] = (dataset, shard)

    @precondition(lambda self: any(s.last_answer for s in self.sessions.values()))
    @rule(session=picks)
    def the_reply_is_lost_and_the_request_sent_again(self, session: int) -> None:
        asked = [s for s in self.sessions.values() if s.last_answer is not None]
        holder = asked[session % len(asked)]
        before = self.book.snapshot()
        again = self.book.exchange(self.now, **holder.last_call)
        assert self.book.snapshot() == before
        assert holder.last_answer is not None
        first = holder.last_answer
        assert again.repeated
        assert again.accepted == ()
        assert (again.refused, again.availability) == (first.refused, first.availability)
        assert again.leases == tuple(lease for lease in first.leases if lease.number in holder.held)

    @precondition(lambda self: self.sessions)
    @rule(session=picks, dataset=picks, wait=waits)
    def expire(self, session: int, dataset: int, wait: int) -> None:
        if self.datasets:
            self._expire(self.session(session), self.dataset(dataset), wait)

    def _expire(self, holder: ModelSession, dataset: ModelDataset, wait: int) -> None:
        stuck = sorted(n for n, (d, _) in holder.held.items() if d is dataset)
        assert self.call("expire", wait, session=holder.name, dataset=dataset.spec.name) == len(stuck)
        for number in stuck:
            shard = holder.held.pop(number)[1]
            holder.lost.add(number)
            holder.timed_out = True
            if number == stuck[0]:
                dataset.blame(shard, timeouts=1)
            else:
                shard.place = Place.RETURNED

    @rule(wait=waits)
    def everything_overdue_expires(self, wait: int) -> None:
        self.now += wait
        for found in self.book.overdue(self.now):
            assert found.lease in self.sessions[found.session].heads()
            assert found.silent > found.allowed
            self._expire(self.sessions[found.session], self.datasets[found.dataset], 0)
        assert self.book.overdue(self.now) == []

    @precondition(lambda self: self.sessions)
    @rule(session=picks, blame=st.sampled_from(["", "exit code 1"]), wait=waits)
    def close_session(self, session: int, blame: str, wait: int) -> None:
        holder = self.session(session)
        assert self.call("close_session", wait, session=holder.name, blame=blame) == len(holder.held)
        self._closed(holder, blame)
        assert self.call("close_session", wait, session=holder.name, blame=blame) == 0

    @rule(
        node=st.integers(0, 2),
        incarnation=st.none() | st.integers(0, 2),
        blame=st.sampled_from(["", "Segmentation fault"]),
        wait=waits,
    )
    def close_node(self, node: int, incarnation: int | None, blame: str, wait: int) -> None:
        gone = [
            s
            for s in self.sessions.values()
            if s.node == f"worker-{node}" and (incarnation is None or s.incarnation <= incarnation)
        ]
        names = self.call("close_node", wait, node=f"worker-{node}", incarnation=incarnation, blame=blame)
        assert names == [s.name for s in gone]
        for holder in gone:
            self._closed(holder, blame)

    @rule(node=st.integers(0, 2), incarnation=st.none() | st.integers(0, 2), wait=waits)
    def lose_node(self, node: int, incarnation: int | None, wait: int) -> None:
        gone = [
            s
            for s in self.sessions.values()
            if s.node == f"worker-{node}" and (incarnation is None or s.incarnation <= incarnation)
        ]
        names = self.call("lose_node", wait, node=f"worker-{node}", incarnation=incarnation, message="killed")
        assert names == [s.name for s in gone]
        for holder in gone:
            lost = [shard for _, shard in holder.held.values()]
            self._closed(holder, "")
            for shard in lost:
                shard.place = Place.LOST

    def _closed(self, holder: ModelSession, blame: str) -> None:
        heads = holder.heads() if blame else []
        for number, (dataset, shard) in holder.held.items():
            if number in heads:
                dataset.blame(shard, failures=1)
            else:
                shard.place = Place.RETURNED
        del self.sessions[holder.name]
        if holder.last_call:
            report = {**holder.last_call, "request": holder.request + 1, "done": list(holder.held), "progress": []}
            self.closed = [*self.closed[-3:], (holder.name, report)]

    @precondition(lambda self: self.closed)
    @rule(which=picks, wait=waits)
    def a_dead_session_speaks(self, which: int, wait: int) -> None:
        _, report = self.closed[which % len(self.closed)]
        self.refused(SessionExpired, lambda: self.book.exchange(self.now + wait, **report))

    @rule(records=st.integers(0, 9), close=st.sampled_from([False, False, False, True]), wait=waits, partition=picks)
    def grow(self, records: int, close: bool, wait: int, partition: int = 0) -> None:
        stream = self.datasets.get("stream")
        if stream is None or stream.closed:
            return
        name = list(stream.starts)[partition % len(stream.starts)]
        if not stream.spec.partitions:
            stream.grow(records, close, name)
            assert self.call("grow", wait, dataset="stream", records=records, close=close) == stream.length
        elif name not in stream.closed_parts:
            stream.grow(records, close, name)
            amount = {"records": records} if partition % 2 else {"records": 0, "end": stream.ends[name]}
            end = self.call("grow", wait, dataset="stream", partition=name, close=close, **amount)
            assert end == stream.ends[name]

    def close_stream(self) -> None:
        stream = self.datasets.get("stream")
        if stream is not None and not stream.closed:
            for name in stream.starts.keys() - stream.closed_parts:
                stream.grow(0, True, name)
            assert self.call("grow", 0, dataset="stream", records=0, close=True) == stream.length

    @precondition(lambda self: self.datasets)
    @rule(dataset=picks)
    def create_again(self, dataset: int) -> None:
        before = self.book.snapshot()
        assert self.call("create", 0, dataset=self.dataset(dataset).definition, origin="later") is False
        assert self.book.snapshot() == before

    @precondition(lambda self: any(d.complete for d in self.datasets.values()))
    @rule(dataset=picks, wait=waits)
    def drop(self, dataset: int, wait: int) -> None:
        gone = self.dataset(dataset)
        end = self.datasets.get("end")
        if not gone.complete:
            return
        if gone.spec.type is ShardType.TRAIN and end is not None and not end.complete:
            self.refused(Conflict, lambda: self.book.drop(self.now, dataset=gone.spec.name))
            return
        self.call("drop", wait, dataset=gone.spec.name)
        self._check_all_is_done(self.datasets.pop(gone.spec.name))

    @precondition(lambda self: self.sessions and self.datasets)
    @rule(session=picks, dataset=picks, kind=st.sampled_from(ABSURD))
    def something_absurd_is_asked(self, session: int, dataset: int, kind: str) -> None:
        holder, target = self.session(session), self.dataset(dataset)
        good: Json = {
            "session": holder.name,
            "request": holder.request + 1,
            "dataset": target.spec.name,
            "want": 2,
            "done": list(holder.held),
        }
        number = next(iter(holder.held), None)
        book, now, name = self.book, self.now, target.spec.name

        def ask(error: type[PliantError], **changes: Any) -> None:
            self.refused(error, lambda: book.exchange(now, **{**good, **changes}))

        match kind:
            case "want less than nothing":
                ask(InvalidRequest, want=-1)
            case "want too many":
                ask(InvalidRequest, want=MAX_LEASES_PER_CALL + 1)
            case "unknown dataset":
                ask(NotFound, dataset="no such")
            case "unknown session":
                ask(SessionExpired, session="no such")
            case "request 0":
                ask(InvalidRequest, request=0)
            case "request -1":
                ask(InvalidRequest, request=-1)
            case "an older request" if holder.request > 1:
                ask(InvalidRequest, request=holder.request - 1)
            case "lease 0":
                ask(InvalidRequest, done=[*good["done"], 0])
            case "lease never granted":
                ask(InvalidRequest, failed=[[holder.granted + 1, ""]])
            case "lease twice" if number is not None:
                ask(InvalidRequest, done=[number, number])
            case "lease done and failed" if number is not None:
                ask(InvalidRequest, done=[number], failed=[[number, "?"]])
            case "progress beyond the size" if number is not None:
                ask(InvalidRequest, done=[], progress=[[number, holder.held[number][1].size + 1]])
            case "negative progress" if holder.granted:
                ask(InvalidRequest, done=[], progress=[[holder.granted, -1]])
            case "shrink a stream":
                self.refused(InvalidRequest, lambda: book.grow(now, dataset=name, records=-1, close=True))
            case "grow what is no stream" if not target.spec.stream or target.closed:
                self.refused(InvalidRequest, lambda: book.grow(now, dataset=name, records=5, close=False))
            case "stream without an end":
                self.refused(InvalidRequest, lambda: book.grow(now, dataset=name, records=1 << 70, close=True))
            case "drop what is not done" if not target.complete:
                self.refused(Conflict, lambda: book.drop(now, dataset=name))
            case "define it otherwise":
                other = {**target.definition, "shard_size": target.spec.shard_size + 1}
                self.refused(Conflict, lambda: book.create(now, dataset=other))
            case "expire of nobody":
                self.refused(SessionExpired, lambda: book.expire(now, session="no such", dataset=name))
            case "someone else's session":
                self.refused(
                    Conflict, lambda: book.open_session(now, session=holder.name, node="worker-9", incarnation=0)
                )
            case "nameless session":
                self.refused(InvalidRequest, lambda: book.open_session(now, session="", node="worker-0", incarnation=0))

    # --- the master dies

    @rule()
    def restart_from_the_journal(self) -> None:
        book = ShardBook()
        for method, now, kwargs in json.loads(json.dumps(self.journal)):
            getattr(book, method)(now, **kwargs)
        self._continue_with(book)

    @rule()
    def restart_from_a_snapshot(self) -> None:
        book = ShardBook()
        book.restore_definitions(through_json(self.book.definitions()))
        book.restore(through_json(self.book.snapshot()))
        self._continue_with(book)

    def _continue_with(self, book: ShardBook) -> None:
        assert book.snapshot() == self.book.snapshot()
        assert book.checkpoint() == self.book.checkpoint()
        self.book = book

    @rule(wait=st.just(0))
    def another_job_continues_from_a_checkpoint(self, wait: int) -> None:
        saved = through_json(self.book.checkpoint())
        self.book, self.journal, self.own_positions = ShardBook(), [], []
        self.jobs += 1
        for dataset in self.datasets.values():
            self.call("create", wait, dataset=dataset.definition, origin=f"job-{self.jobs}")
        assert self.call("restore_checkpoint", wait, checkpoint=saved) == list(self.datasets)
        self.restored = saved
        for holder in list(self.sessions.values()):
            self._closed(holder, blame="")
        for dataset in self.datasets.values():
            for shard in dataset.at(Place.LOST):
                shard.place = Place.RETURNED

    @rule()
    def a_program_saves_its_position(self) -> None:
        self.own_positions = [*self.own_positions[-2:], through_json(self.book.checkpoint())]

    @rule(pick=picks, wait=waits)
    def a_restarted_program_restores_again_and_the_job_goes_on_where_it_is(self, pick: int, wait: int) -> None:
        """What the job began with, or what it saved itself."""
        known = [*self.own_positions, *([self.restored] if self.restored else [])]
        if known and (saved := known[pick % len(known)])["datasets"].keys() <= self.datasets.keys():
            before = self.book.snapshot()
            assert self.call("restore_checkpoint", wait, checkpoint=saved) == []
            assert self.book.snapshot() == before

    @rule()
    def a_position_of_another_job_is_refused_once_a_dataset_has_begun(self) -> None:
        saved = through_json(self.book.checkpoint())
        for name, entry in saved["datasets"].items():
            entry["origin"] = "elsewhere"
            dataset = self.datasets[name]
            begun = dataset.length or any(p.place is not Place.AHEAD for p in dataset.shards.values())
            if begun and not self.restored:
                one = {**saved, "datasets": {name: entry}}
                self.refused(Conflict, partial(self.book.restore_checkpoint, self.now, checkpoint=one))

    # --- what always holds

    @invariant()
    def the_book_agrees_with_the_model(self) -> None:
        for dataset in self.datasets.values():
            queue = self.book.queue(dataset.spec.name)
            places = Counter(p.place for p in dataset.shards.values())
            total = queue.shards_per_epoch * dataset.spec.epochs
            ahead = total - queue.epoch * queue.shards_per_epoch - queue.cursor
            assert total == len(dataset.shards)
            given_up = len(queue.parked) + len(queue.lost)
            assert total == ahead + len(queue.returned) + queue.out + given_up + queue.finished_shards
            assert ahead == places[Place.AHEAD]
            assert len(queue.returned) == places[Place.RETURNED]
            assert queue.out == places[Place.OUT]
            assert len(queue.parked) == places[Place.PARKED]
            assert len(queue.lost) == places[Place.LOST]
            assert queue.is_exact == dataset.exact
            assert queue.finished_records == dataset.accepted.total()
            assert queue.complete == dataset.complete
            assert len(queue.open_epochs) <= 1 + queue.epoch
            assert sum(queue.open_epochs.values()) <= queue.finished_records
            assert all(count == 1 for count in dataset.accepted.values())
            assert self.book.availability(dataset.spec.name) is self.availability(dataset)
            if queue.stream is not None:
                self._partitions_agree(queue.stream, dataset)
        assert self.book.complete() == all(d.complete for d in self.datasets.values())

    def _partitions_agree(self, stream: Stream, dataset: ModelDataset) -> None:
        for part in stream.partitions:
            shards = [p for p in dataset.shards.values() if p.name == part.name]
            ahead = [p.start for p in shards if p.place is Place.AHEAD]
            whole = dataset.ends[part.name] if part.closed else max([part.start, *(p.end for p in shards)])
            assert part.position(dataset.spec.shard_size) == min([whole, *ahead]), "a partition is handed out in order"
            assert part.finished == sum(n for (_, (name, _)), n in dataset.accepted.items() if name == part.name)
            assert (part.end, part.closed) == (dataset.ends[part.name], part.name in dataset.closed_parts)

    @invariant()
    def a_piece_is_held_by_one_session_only(self) -> None:
        state = self.book.snapshot()
        held = [(d, *shard[:2]) for s in state["sessions"].values() for _, d, shard in s["held"]]
        assert len(set(held)) == len(held)
        assert {n: [number for number, *_ in s["held"]] for n, s in state["sessions"].items()} == {
            n: sorted(s.held) for n, s in self.sessions.items()
        }

    def teardown(self) -> None:
        if self.damaged or not self.datasets:
            return
        for name in list(self.sessions):
            self.call("close_session", 0, session=name, blame="")
            self._closed(self.sessions[name], blame="")
        self.close_stream()
        self.open_session(node=0, incarnation=9, wait=0)
        worker = next(iter(self.sessions.values()))
        ended: set[str] = set()
        for _ in range(500):
            for name, dataset in self.datasets.items():
                answer = self._exchange(worker, dataset, 5, 1, done=list(worker.held))
                if answer.availability is Availability.END:
                    ended.add(name)
            if len(ended) == len(self.datasets) and not worker.held:
                break
        assert self.book.complete()
        self.the_book_agrees_with_the_model()
        for dataset in self.datasets.values():
            self._check_all_is_done(dataset)

    def _check_all_is_done(self, dataset: ModelDataset) -> None:
        missing = 0
        for shard in dataset.shards.values():
            assert shard.place in UNLEASABLE
            done = [dataset.accepted[shard.epoch, (shard.name, i)] for i in range(shard.start, shard.end)]
            assert done == [1] * shard.offset + [0] * (shard.size - shard.offset)
            assert (shard.offset == shard.size) == (shard.place is Place.FINISHED)
            missing += shard.size - shard.offset
        expected = dataset.length if dataset.spec.stream else _size(dataset.spec) * dataset.spec.epochs
        assert dataset.accepted.total() + missing == expected


def _size(spec: DatasetSpec) -> int:
    if spec.files:
        return sum(f.end - f.start for f in spec.files)
    return len(spec.indices) or spec.size or 0


def through_json(value: T) -> T:
    result: T = json.loads(json.dumps(value))
    return result


TestShardBook = ShardBookMachine.TestCase
TestShardBook.settings = settings(
    max_examples=100 * MORE_HISTORIES,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def _random_job(dice: Random) -> tuple[list[Json], Json | None]:
    def common(name: str, type_: str) -> Json:
        return {
            "name": name,
            "type": type_,
            "shard_size": dice.choice([1, 2, 3, 5, 20]),
            "max_failures": dice.randint(1, 3),
            "max_timeouts": dice.randint(1, 3),
        }

    def ordered(name: str, type_: str) -> Json:
        flags = {flag: dice.random() < 0.5 for flag in ("shuffle", "epoch_barrier", "skip_parked")}
        return {
            **common(name, type_),
            **flags,
            "epochs": dice.randint(1, 3),
            "lease_floor": dice.choice([1, 10.0, 300]),
        }

    partitions = [[f"p{i}", dice.randint(0, 7)] for i in range(dice.randint(0, 3))]
    files = _parts([(dice.randint(0, 9), dice.randint(0, 7)) for _ in range(dice.randint(1, 4))])
    job = [
        {**ordered("range", "train"), "size": dice.randint(0, 20)},
        {**ordered("files", "eval"), "files": files},
        {**ordered("list", "predict"), "indices": [dice.randint(0, 9) for _ in range(dice.randint(1, 9))]},
        {**common("stream", "train"), "stream": True, "partitions": partitions},
    ]
    end = {**common("end", "train_end"), "size": dice.randint(0, 3)} if dice.random() < 0.5 else None
    return [job[0], *(d for d in job[1:] if dice.random() < 0.4)], end


def _random_step(machine: ShardBookMachine, dice: Random) -> None:
    def pick() -> int:
        return dice.randint(0, 40)

    wait = dice.choice([0, 1, 7, 40, 400])
    blame = dice.choice(["", "exit code 1"])
    anyone, anything = bool(machine.sessions), bool(machine.datasets)
    roll = dice.random()
    if roll < 0.55 and anyone and anything:
        reported = [
            (pick(), dice.choice(["done", "done", "done", "progress", "failed", "released"]), pick())
            for _ in range(dice.randint(0, 5))
        ]
        target = pick() if dice.random() < 0.9 else None
        machine.exchange(
            session=pick(),
            dataset=target,
            want=dice.randint(0, 5),
            reported=reported,
            waiting=dice.random() < 0.5,
            wait=wait,
        )
    elif roll < 0.60:
        machine.open_session(node=dice.randint(0, 2), incarnation=dice.randint(0, 2), wait=wait)
    elif roll < 0.65 and any(s.last_answer for s in machine.sessions.values()):
        machine.the_reply_is_lost_and_the_request_sent_again(session=pick())
    elif roll < 0.69 and anyone:
        machine.expire(session=pick(), dataset=pick(), wait=wait)
    elif roll < 0.71:
        machine.everything_overdue_expires(wait=wait)
    elif roll < 0.75 and anyone:
        machine.close_session(session=pick(), blame=blame, wait=wait)
    elif roll < 0.78:
        incarnation = dice.choice([None, 0, 1, 2])
        machine.close_node(node=dice.randint(0, 2), incarnation=incarnation, blame=blame, wait=wait)
    elif roll < 0.79:
        machine.lose_node(node=dice.randint(0, 2), incarnation=dice.choice([None, 0, 1, 2]), wait=wait)
    elif roll < 0.80 and machine.closed:
        machine.a_dead_session_speaks(which=pick(), wait=wait)
    elif roll < 0.84:
        machine.grow(records=dice.randint(0, 9), close=dice.random() < 0.2, wait=wait, partition=pick())
    elif roll < 0.86 and anything:
        machine.create_again(dataset=pick())
    elif roll < 0.88 and anything:
        machine.drop(dataset=pick(), wait=wait)
    elif roll < 0.94 and anyone and anything:
        machine.something_absurd_is_asked(session=pick(), dataset=pick(), kind=dice.choice(ABSURD))
    elif roll < 0.96:
        machine.restart_from_the_journal()
    elif roll < 0.98:
        machine.restart_from_a_snapshot()
    elif roll < 0.985:
        machine.another_job_continues_from_a_checkpoint(wait=0)
    elif roll < 0.99:
        machine.a_program_saves_its_position()
    elif roll < 0.995:
        machine.a_restarted_program_restores_again_and_the_job_goes_on_where_it_is(pick=pick(), wait=wait)
    else:
        machine.a_position_of_another_job_is_refused_once_a_dataset_has_begun()


@pytest.mark.parametrize("block", range(4))
def test_long_histories_from_plain_dice_keep_the_book_and_the_model_together(block: int) -> None:
    histories = 150 * MORE_HISTORIES
    for seed in range(block * histories, (block + 1) * histories):
        dice = Random(seed)
        machine = ShardBookMachine()
        job, end = _random_job(dice)
        try:
            machine.start(job=job, end=end, grown=dice.randint(0, 9))
            for _ in range(dice.randint(1, 60)):
                _random_step(machine, dice)
                machine.the_book_agrees_with_the_model()
                machine.a_piece_is_held_by_one_session_only()
            machine.teardown()
        except (AssertionError, LookupError, PliantError) as error:
            error.add_note(f"history with seed {seed}")
            raise
