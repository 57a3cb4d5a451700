"""The coordinator of parameter servers: the shell around ``core.parameters.book.ParameterBook``.

Calls of servers and workers go in as journaled operations; orders go out to the servers that wait for them. A contribution and
the acknowledgement of its records are journaled without an ``await`` in between, so they reach the disk together or not at all.

Its parts: ``observations`` (what is not journaled), ``dumps``, ``rebalancer`` (moves). ``master/services/parameters.py`` is its
gRPC service. The counts of contributions that were refused are not journaled either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pliant.core.clock import Clock
from pliant.core.errors import SessionExpired
from pliant.core.events import (
    ParametersDefined,
    ParametersMoved,
    ScheduleDefined,
    SeatReady,
    SeatsLeaving,
    SeatTaken,
    ServerReported,
)
from pliant.core.parameters.book import ParameterBook
from pliant.core.parameters.contributions import PushDecision, PushOutcome, PushWithRecords
from pliant.core.parameters.orders import Order
from pliant.core.parameters.seats import Seat
from pliant.core.status import ServerStats
from pliant.core.status_builder import LiveFigures, ParameterFigures, ServerFigures
from pliant.master.components.base import Component
from pliant.master.components.parameters.batches import ContributionBatch
from pliant.master.components.parameters.changes import ChangeSignal
from pliant.master.components.parameters.dumps import DumpCoordinator
from pliant.master.components.parameters.observations import ServerObservations
from pliant.master.components.parameters.rebalancer import Rebalancer
from pliant.master.components.shards import DataShardManager
from pliant.master.components.signals import (
    MasterPaused,
    ProgramGone,
    SeatVacated,
    ServerMeasured,
    ServersSilent,
    SessionEnded,
    Signal,
    SignalBus,
    WorkersBlocked,
)
from pliant.master.journal.journal import Journal

MAX_ORDERS = 500  # in one answer
MAX_MESSAGES = 20  # of a server in one call
MAX_SILENT_S = 15.0  # of a server, before workers may be waiting for it; it reports every five seconds


class ParameterCoordinator(Component):
    name = "parameters"
    title = "coordinator of parameter servers"
    enabled_by = "strategy ps-sync or ps-async"

    def __init__(
        self,
        book: ParameterBook,
        journal: Journal,
        clock: Clock,
        signals: SignalBus,
        shards: DataShardManager,
        folder: Path,
        *,
        restore: str | None = None,
    ) -> None:
        """``restore``: a dump of another job to begin from."""
        self._signals = signals
        self._restore = restore
        self.book = book
        self._journal = journal
        self._shards = shards
        self._changes = ChangeSignal()
        self._observations = ServerObservations(clock)
        self.dumps = DumpCoordinator(book, journal, clock, self._observations, self._changes, signals, folder)
        self._rebalancer = Rebalancer(book, journal, signals, self._observations, self.dumps, self._changes)
        self._refused = {PushOutcome.STALE: 0, PushOutcome.MOVED: 0}
        self.may_join: Callable[[str], bool] = lambda node: True
        """Whether a node may take a seat; set by who knows the nodes."""

    def prepare(self) -> None:
        """Begin from a dump of another job, if the job says so and has not begun yet."""
        if self._restore is not None and not self.book.restored_from and not self.book.last:
            self.dumps.restore(Path(self._restore))

    async def tick(self) -> None:
        silences = self.silences()
        self._signals.publish(ServersSilent(silences))
        if any(seat.active and not seat.address for seat in self.book.seats()) or _is_stalled(silences):
            self._signals.publish(WorkersBlocked())
        self._flush()
        self.dumps.tick()
        self._rebalancer.retire_empty()
        self._rebalancer.rebalance()

    def on_event(self, signal: Signal) -> None:
        match signal:
            case SessionEnded(session=session):
                self.end_session(session)
            case ProgramGone(node=node, incarnation=incarnation):
                self.program_gone(node, for_good=incarnation is None)
            case MasterPaused():
                self.forgive_absence()
            case _:
                return

    def is_settled(self) -> bool:
        """Whether a dump has the newest model; if not, one is begun. A job that is done waits for this, for a while."""
        return self.dumps.is_settled()

    # --- servers

    async def join(self, node: str, incarnation: int) -> Seat:
        """Waits for a seat."""
        while True:
            vacant = self.may_join(node) and any(seat.node in ("", node) for seat in self.book.seats())
            seat = self._journal.do(self.book.join, node=node, incarnation=incarnation) if vacant else None
            if seat is not None:
                self._observations.joined(seat.number)
                self._journal.event(SeatTaken(node=node, seat=seat.number))
                self._changes.notify()
                return seat
            await self._changes.wait()

    def ready(self, seat: int, fencing_token: int, address: str) -> None:
        found = self._journal.do(self.book.ready, seat=seat, fencing_token=fencing_token, address=address)
        self._journal.event(SeatReady(node=found.node, seat=seat, address=address))
        self._changes.notify()

    async def next_orders(
        self,
        seat: int,
        fencing_token: int,
        after: int,
        stats: ServerStats,
        messages: Sequence[str],
        partition_load: Mapping[int, float] | None = None,
    ) -> list[Order]:
        """Waits for orders after the last one that the server executed. ``partition_load``: shares of what the server does."""
        self.book.check_holder(seat, fencing_token)
        if self._observations.reported(seat, after, stats):
            self._signals.publish(ServerMeasured(self.book.seat(seat).node, stats, partition_load or {}))
        for text in messages[:MAX_MESSAGES]:
            self._journal.event(ServerReported(node=self.book.seat(seat).node, message=text))
        self._rebalancer.rebalance()
        while not (orders := self.book.orders(after, MAX_ORDERS)):
            await self._changes.wait()
            self.book.check_holder(seat, fencing_token)
        return orders

    def alive(self, seat: int, fencing_token: int) -> None:
        """The server makes progress, though it does not ask for orders now."""
        self.book.check_holder(seat, fencing_token)
        self._observations.heard(seat)

    def silences(self) -> dict[str, float]:
        """Finder: for how many seconds each server was not heard of, by node."""
        held = [seat for seat in self.book.seats() if seat.node and seat.fencing_token]
        return {seat.node: self._observations.silence(seat) for seat in held}

    def forgive_absence(self) -> None:
        """This master did not run: nobody was silent meanwhile."""
        self._observations.forgive_absence()

    def program_gone(self, node: str, *, for_good: bool) -> None:
        if any(seat.node == node and (seat.fencing_token or for_good) for seat in self.book.seats()):
            for seat in self._journal.do(self.book.lost, node=node, for_good=for_good):
                self._observations.lost(seat)
            self._changes.notify()

    # --- workers

    def define(self, tables: list[dict[str, Any]], variables: list[dict[str, Any]]) -> None:
        if self._journal.do(self.book.define, tables=tables, variables=variables) is not None:
            self._journal.event(
                ParametersDefined(
                    tables=tuple(str(table["name"]) for table in tables),
                    variables=tuple(str(variable["name"]) for variable in variables),
                )
            )
            self._changes.notify()

    def schedule(self, first: int, factors: list[list[float]]) -> None:
        """Learning rates of the updates from ``first`` on, by group."""
        if first + len(factors) > self.book.scheduled:
            begins = not self.book.scheduled
            self._journal.do(self.book.schedule, first=first, factors=factors)
            if begins:
                self._journal.event(ScheduleDefined(groups=len(factors[0])))

    def assign(
        self, session: str, sequence: int, names: list[str], holders: Sequence[tuple[int, int]], map_version: int
    ) -> PushDecision:
        """The first values of variables."""
        self._check_session(session)
        decision = self._journal.do(
            self.book.assign,
            session=session,
            sequence=sequence,
            names=names,
            holders=[list(holder) for holder in holders],
            map_version=map_version,
        )
        self._changes.notify()
        return decision

    def contribute(self, session: str, contributions: Sequence[PushWithRecords]) -> list[PushDecision]:
        """Decide on these of one session, in their order. What is accepted is journaled in one transaction.

        1. A gradient and the records that it was computed from are accepted together, or neither is.
        2. Of a shard, records are accepted without a gap: a contribution that names what it comes ``after`` is refused unless
           exactly that was accepted. So when one in the middle of a window is refused, those after it of the same shard are.
        """
        self._check_session(session)
        batch = ContributionBatch(self.book, self._shards.book, session)
        try:
            decisions = [batch.decide(one) for one in contributions]
        finally:  # also if one of them is invalid: those before it count
            if batch.pushes:
                self._journal.record(
                    self.book.contribute_batch, session=session, pushes=batch.pushes, staged=batch.staged
                )
            if batch.progress:
                self._shards.acknowledge(session, [list(pair) for pair in batch.progress.items()])
            if batch.pushes:
                self._flush()
                self._rebalancer.rebalance()  # between two iterations, which may be the only time when nothing is pending
                self._changes.notify()
            for outcome in batch.refused:
                if outcome in self._refused:
                    self._refused[outcome] += 1
            self._end_training()
        return decisions

    def end_session(self, session: str) -> None:
        self._journal.do(self.book.end_session, session=session)
        self._changes.notify()

    async def wait_for_map(self, version: int, seats_version: int) -> None:
        """Until the map or the seats are newer than these versions."""
        while self.book.map.version <= version and self.book.seats_version <= seats_version:
            await self._changes.wait()

    # --- changes of the running job

    def resize(self, seats: int, leaving: Sequence[int] = ()) -> None:
        """``leaving``: these do not stay; else the newest leave, or others are added."""
        named = {"leaving": list(leaving)} if leaving else {}
        surplus = self._journal.do(self.book.resize, seats=seats, **named)
        known = {seat.number for seat in self.book.seats()}
        if surplus and known.issuperset(surplus):
            self._journal.event(SeatsLeaving(seats=tuple(surplus)))
        for number in sorted(set(surplus) - known):
            self._signals.publish(SeatVacated("", number, "no server had joined"))
        self._changes.notify()

    def move_off(self, node: str, share: float, reason: str) -> Seat:
        seat = self.book.seat_of(node)
        found = self._journal.do(self.book.set_share, seat=seat.number, share=share)
        self._journal.event(ParametersMoved(node=node, share=share, reason=reason))
        self._changes.notify()
        return found

    # --- status

    def status(self, live: LiveFigures) -> LiveFigures:
        return replace(live, parameters=self.figures())

    def figures(self) -> ParameterFigures:
        """What is known of the servers beside what is journaled."""
        observed = self._observations
        return ParameterFigures(
            stale=self._refused[PushOutcome.STALE],
            moved=self._refused[PushOutcome.MOVED],
            moves=self._rebalancer.moves,
            servers={
                seat.number: ServerFigures(observed.stats(seat.number), observed.executed(seat.number))
                for seat in self.book.seats()
            },
        )

    # --- inside

    def _check_session(self, session: str) -> None:
        """The call also counts as a sign of life of the worker."""
        if not self._shards.book.has_session(session):
            raise SessionExpired("the master closed the session of this program", hint="open a new session")
        self._shards.beat(session)

    def _end_training(self) -> None:
        """Once the last iteration is reached, records that workers have in progress are returned undone."""
        if not self.book.over:
            return
        for queue in self._shards.book.queues():
            if queue.is_training:
                self._shards.end_dataset(queue.spec.name)

    def _flush(self) -> None:
        """A last, smaller batch, if no more records can come."""
        if not self.book.pending:
            return
        training = [queue for queue in self._shards.book.queues() if queue.is_training]
        if training and all(queue.complete for queue in training):
            self._journal.do(self.book.flush)
            self._changes.notify()


def _is_stalled(silences: Mapping[str, float]) -> bool:
    return any(seconds > MAX_SILENT_S for seconds in silences.values())
