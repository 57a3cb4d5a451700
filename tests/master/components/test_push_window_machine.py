"""Random histories of workers with windows of undecided pushes: each record counts once, together with its gradient, or not at all.

The client's real pipeline and window (without their thread), the real coordinator and its two state machines. What is played is the
network (answers are lost, requests come twice and late), the death of the master before or after it committed, and the death of
workers.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pliant.client.shards import Shard
from pliant.core.errors import InvalidRequest, SessionExpired
from pliant.core.parameters.book import ParameterBook
from pliant.core.parameters.contributions import PushDecision, PushOutcome
from pliant.core.parameters.options import PsOptions
from pliant.core.parameters.orders import OrderKind
from pliant.core.shards.book import ShardBook
from pliant.core.shards.datasets import DatasetSpec
from pliant.master.components.parameters.coordinator import ParameterCoordinator
from pliant.master.components.shards import DataShardManager
from pliant.master.components.signals import SignalBus
from pliant.master.journal.notes import NoteStore
from pliant.ps.client.push_pipeline import PushPipeline, ShardBatch
from pliant.ps.client.push_staging import StagedPush
from pliant.ps.client.push_window import PendingPush, PushWindow
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.contributions import batch_from_message, batch_message, batch_reply, replies_from_message
from pliant.rpc.parameters import push_decision
from pliant.testing import ManualClock

DATASET, RECORDS, SHARD, BATCH = "d", 48, 12, 3
FAULTS = ("none", "none", "answer lost", "master dies before", "master dies after", "comes again later")

Operation = tuple[str, str, dict[str, Any]]


class Master:
    """Both books, their shells, and what of it is on disk. A call is one transaction."""

    def __init__(self, options: PsOptions) -> None:
        self.options = options
        self.committed: list[Operation] = []
        self._noted: list[Operation] = []
        self.start()
        spec = DatasetSpec(DATASET, SHARD, size=RECORDS)
        self.do(self.shards.create, dataset=spec.to_json())
        self.do(self.parameters.join, node="ps-0", incarnation=0)
        self.do(self.parameters.ready, seat=0, fencing_token=1, address="there:1")
        self.commit()

    def start(self) -> None:
        """From what was committed."""
        self.shards, self.parameters = ShardBook(), ParameterBook(self.options, 1)
        self._noted = []
        for machine, method, arguments in self.committed:
            getattr(getattr(self, machine), method)(0.0, **arguments)
        bus, clock, here = SignalBus(), ManualClock(), Path("/nowhere")
        journal: Any = self
        manager = DataShardManager(self.shards, journal, clock, bus, notes=NoteStore(here))
        self.coordinator = ParameterCoordinator(self.parameters, journal, clock, bus, manager, here)

    def do(self, method: Callable[..., Any], **arguments: Any) -> Any:
        result = method(0.0, **arguments)
        self.record(method, 1, **arguments)
        return result

    def record(self, method: Callable[..., Any], _steps: int, **arguments: Any) -> None:
        machine = "shards" if isinstance(method.__self__, ShardBook) else "parameters"  # type: ignore[attr-defined]
        self._noted.append((machine, method.__name__, arguments))

    def snapshot(self) -> tuple[Any, Any]:
        return self.shards.snapshot(), self.parameters.snapshot()

    def event(self, *_: Any) -> None:
        """Events decide nothing."""

    def commit(self) -> None:
        self.committed += self._noted
        self._noted = []

    def contribute(self, request: pb.ContributeBatchRequest) -> list[pb.ContributeReply]:
        decisions = self.coordinator.contribute(request.session, batch_from_message(request))
        return replies_from_message(batch_reply(decisions, 0))


class Worker:
    """Conversation, pusher and source of shards of one worker."""

    def __init__(self, machine: WindowMachine, number: int) -> None:
        self.machine = machine
        self.number = number
        self.lives = 0
        self.sequence = 0
        self.about: tuple[int, ...] = ()  # the records of the push that comes next
        self.born()

    @property
    def name(self) -> str:
        return f"w{self.number}-{self.lives}"

    def born(self) -> None:
        self.lives += 1
        self.requests = 0
        master = self.machine.master
        master.do(master.shards.open_session, session=self.name, node=f"worker-{self.number}", incarnation=self.lives)
        master.commit()
        self.pipeline: PushPipeline[tuple[int, ...]] = PushPipeline(PlayedWindow(self, self.machine.size))
        self.loop = self.pipeline.batches(self, self.cut)

    def dies(self) -> None:
        master = self.machine.master
        master.do(master.shards.close_session, session=self.name)
        master.do(master.parameters.end_session, session=self.name)
        master.commit()
        self.born()

    def renew(self, name: str) -> None:
        assert name != self.name, "only a death ends a session here"

    # --- shards

    def poll(self) -> Shard | None:
        answer = self._exchange(want=1)
        if not answer.leases:
            return None
        (lease,) = answer.leases
        extent, shard = lease.extent, lease.shard
        source: Any = self
        return Shard(
            source,
            lease.number,
            DATASET,
            extent.name,
            extent.start,
            extent.end,
            offset=shard.offset,
            session=self.name,
        )

    def __iter__(self) -> Iterator[Shard]:
        return self

    def __next__(self) -> Shard:
        if (shard := self.poll()) is None:
            raise StopIteration
        return shard

    def _exchange(self, *, want: int = 0, **reports: Any) -> Any:
        self.requests += 1
        master = self.machine.master
        answer = master.do(
            master.shards.exchange, session=self.name, request=self.requests, dataset=DATASET, want=want, **reports
        )
        master.commit()
        return answer

    def settled(self, shard: Shard) -> None:
        """All of it was accepted with gradients."""

    def done(self, shard: Shard, note: bytes | None = None) -> None:
        raise AssertionError("all records are in batches: no shard is done without its gradients")

    def released(self, shard: Shard) -> None:
        if shard.session == self.name:
            self._exchange(released=[shard.lease])

    @staticmethod
    def cut(shard: Shard) -> Iterator[tuple[tuple[int, ...], int]]:
        records = shard.indices()
        for at in range(0, len(records), BATCH):
            some = tuple(records[at : at + BATCH])
            yield some, at + len(some)

    # --- pushes

    def begin(self, based_on: int, examples: int, dense: Any, rows: Any) -> PlayedStaging:
        self.sequence += 1
        book = self.machine.master.parameters
        (seat,) = book.seats()
        route: Any = SimpleNamespace(map=book.map, seats=[seat.number], fencing_tokens=[seat.fencing_token])
        self.machine.staged[self.name, self.sequence] = self.about
        return PlayedStaging(self.machine, StagedPush(self.name, self.sequence, route, (0,)))

    def end(self) -> None:
        """Nothing of it goes on."""

    def withdraw(self, staged: StagedPush) -> None:
        """Its servers are not played."""

    def settle(self, staged: StagedPush, reply: pb.ContributeReply) -> PushDecision:
        decision = push_decision(reply)
        self.machine.answered(staged.session, staged.sequence, decision.outcome)
        return decision

    def step(self, behind: int) -> None:
        batch: ShardBatch[tuple[int, ...]] | None = next(self.loop, None)
        if batch is None:
            self.loop = self.pipeline.batches(self, self.cut)
            return
        self.about = batch.work
        self.pipeline.push(batch, max(0, self.machine.master.parameters.iteration - behind), examples=len(batch.work))


class PlayedStaging:
    """A push that some servers have not answered: the map and the holders that it was sent by may be old when they do."""

    def __init__(self, machine: WindowMachine, sent: StagedPush) -> None:
        self._machine = machine
        self._sent = sent
        self.staged: StagedPush | None = None if machine.servers_are_slow else sent

    def poll(self) -> StagedPush | None:
        return self.staged

    def wait(self) -> StagedPush:
        self.staged = self._sent
        return self._sent


class PlayedWindow(PushWindow):
    """Without a thread: batches go when the machine says so, or when somebody waits."""

    def __init__(self, worker: Worker, size: int) -> None:
        conversation: Any = worker
        super().__init__(conversation, worker, size)
        self._worker = worker
        self._size_wanted = size

    def _start(self) -> None:
        self.size = max(self.size, self._size_wanted)  # what is refused does not make it smaller here

    def _wait(self, reached: Callable[[], bool]) -> None:
        while not reached():
            self.deliver()

    def deliver(self) -> None:
        if self._waiting:
            self._answered.extend(self._answers(self._next_batch()))
            self._sent = []

    def _decide(self, batch: Sequence[PendingPush]) -> Sequence[pb.ContributeReply | None]:
        if batch[0].staged.session != self._worker.name:
            return [None] * len(batch)
        request = batch_message([push.request() for push in batch])
        return self._worker.machine.send(request)


class WindowMachine(RuleBasedStateMachine):
    size = 4
    max_staleness = 3
    max_iterations = 0

    def __init__(self) -> None:
        super().__init__()
        self.staged: dict[tuple[str, int], tuple[int, ...]] = {}
        self.servers_are_slow = False
        self.faults: deque[str] = deque()
        self.late: list[pb.ContributeBatchRequest] = []
        self.outcomes: dict[tuple[str, int], bool] = {}  # accepted?
        options = PsOptions(
            sync=False,
            max_staleness=self.max_staleness,
            max_iterations=self.max_iterations,
            window=self.size,
            partitions=16,
        )
        self.master = Master(options)
        self.workers = [Worker(self, number) for number in range(2)]

    def send(self, request: pb.ContributeBatchRequest) -> list[pb.ContributeReply]:
        """Until it is answered."""
        while True:
            fault = self.faults.popleft() if self.faults else "none"
            replies = self.master.contribute(request)
            if fault == "master dies before":
                self.master.start()
                continue
            self.master.commit()
            if fault == "master dies after":
                before = self.master.snapshot()
                self.master.start()
                assert self.master.snapshot() == before, "what is journaled is not what was decided"
                continue
            if fault == "answer lost":
                continue
            if fault == "comes again later":
                self.late.append(request)
            return replies

    def answered(self, session: str, sequence: int, outcome: PushOutcome) -> None:
        accepted = outcome in (PushOutcome.ACCEPTED, PushOutcome.REPEATED)
        assert self.outcomes.setdefault((session, sequence), accepted) == accepted

    # --- what happens

    @rule(worker=st.integers(0, 1), count=st.integers(1, 6), behind=st.integers(0, 4))
    def a_worker_computes(self, worker: int, count: int, behind: int) -> None:
        for _ in range(count):
            self.workers[worker].step(behind)

    @rule(worker=st.integers(0, 1))
    def its_pushes_are_decided(self, worker: int) -> None:
        window = self.workers[worker].pipeline.window
        assert isinstance(window, PlayedWindow)
        window.deliver()

    @rule(slow=st.booleans())
    def servers_answer_late(self, slow: bool) -> None:
        self.servers_are_slow = slow

    @rule(faults=st.lists(st.sampled_from(FAULTS), max_size=4))
    def the_network_is_bad(self, faults: list[str]) -> None:
        self.faults.extend(faults)

    @rule()
    def a_late_request_comes(self) -> None:
        if self.late:
            with suppress(SessionExpired, InvalidRequest):
                self.master.contribute(self.late.pop(0))
            self.master.commit()

    @rule(worker=st.integers(0, 1))
    def a_worker_dies(self, worker: int) -> None:
        self.workers[worker].dies()

    @rule(worker=st.integers(0, 1))
    def its_leases_time_out(self, worker: int) -> None:
        self.master.do(self.master.shards.expire, session=self.workers[worker].name, dataset=DATASET)
        self.master.commit()

    @rule()
    def the_server_is_replaced(self) -> None:
        book = self.master.parameters
        self.master.do(book.lost, node="ps-0", for_good=False)
        seat = self.master.do(book.join, node="ps-0", incarnation=0)
        self.master.do(book.ready, seat=0, fencing_token=seat.fencing_token, address="there:1")
        self.master.commit()

    @rule()
    def a_stranger_makes_an_iteration(self) -> None:
        """What is computed meanwhile gets older."""
        book, sequence = self.master.parameters, self.master.parameters.contributions + 1
        if not book.over:
            token = book.seat(0).fencing_token
            self.master.do(
                book.contribute,
                session="stranger",
                sequence=sequence,
                based_on=book.iteration,
                examples=1,
                holders=[[0, token]],
                map_version=book.map.version,
            )
            self.staged["stranger", sequence] = ()
            self.master.commit()

    # --- what holds

    def applied(self) -> list[tuple[str, int]]:
        orders = [order for order in self.master.parameters.orders(0, 1 << 30) if order.kind is OrderKind.APPLY]
        return [(one.session, one.sequence) for order in orders for one in order.contributions]

    @invariant()
    def each_contribution_is_applied_once(self) -> None:
        assert not [one for one, count in Counter(self.applied()).items() if count > 1]

    @invariant()
    def records_are_accepted_with_their_gradients(self) -> None:
        trained = Counter(record for one in self.applied() for record in self.staged[one])
        assert not [record for record, count in trained.items() if count > 1], "a record counted twice"
        assert trained.total() == self.master.shards.queue(DATASET).finished_records

    @invariant()
    def workers_are_told_the_truth(self) -> None:
        applied = set(self.applied())
        assert all((one in applied) == accepted for one, accepted in self.outcomes.items())

    def teardown(self) -> None:
        self.faults.clear()
        if self.max_iterations:
            return
        for _ in range(40 * RECORDS):
            if self.master.shards.complete():
                break
            for worker in self.workers:
                worker.step(0)
        assert self.master.shards.complete(), "somebody waits for ever"
        trained = Counter(record for one in self.applied() for record in self.staged[one])
        assert trained == Counter(range(RECORDS))


class OneByOneMachine(WindowMachine):
    size = 1


class BoundedMachine(WindowMachine):
    max_iterations = 9


class WideMachine(WindowMachine):
    size = 16
    max_staleness = 0


TestWindow = WindowMachine.TestCase
TestOneByOne = OneByOneMachine.TestCase
TestBounded = BoundedMachine.TestCase
TestWide = WideMachine.TestCase
for case in (TestWindow, TestOneByOne, TestBounded, TestWide):
    case.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
del case  # pytest would collect it once more

pytestmark = pytest.mark.timeout(300)
