"""The data shard manager: the shell around ``core.shards.book.ShardBook``.

It turns calls of programs into journaled operations, wakes those that wait for shards, and expires sessions and leases that
have been silent for too long. Without fault tolerance (a sharding service alone) nothing expires, and what a dead worker had is
lost: the job fails, naming it.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any

from pliant.core.clock import Clock
from pliant.core.errors import SessionExpired
from pliant.core.events import DatasetCreated, DatasetEnded, DatasetsRestored, LeaseTimedOut, SessionTimedOut
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.shards.audit import AuditRow
from pliant.core.shards.book import ShardBook
from pliant.core.shards.datasets import DatasetSpec
from pliant.core.shards.leases import Accepted, Answer, Availability
from pliant.master.components.base import Component
from pliant.master.components.signals import (
    MasterPaused,
    NodesIdle,
    ProgramGone,
    RecordsAccepted,
    SessionEnded,
    Signal,
    SignalBus,
    TrainsAlone,
)
from pliant.master.journal.journal import Journal
from pliant.master.journal.notes import NoteStore

log = logging.getLogger(__name__)


class DataShardManager(Component):
    name = "shards"
    title = "data shard manager"
    enabled_by = "--need-task-manager"

    def __init__(
        self,
        book: ShardBook,
        journal: Journal,
        clock: Clock,
        signals: SignalBus,
        *,
        datasets: Sequence[DatasetSpec] = (),
        fault_tolerance: bool = True,
        session_timeout: float = 30.0,
        drains: bool = False,
        audit: bool = False,
        notes: NoteStore,
    ) -> None:
        """``datasets``: those that exist from the start; ``drains``: the end of the job waits for programs that still ask."""
        self.book = book
        self.notes = notes
        self._datasets = datasets
        self._signals = signals
        self._journal = journal
        self._clock = clock
        self._fault_tolerance = fault_tolerance
        self._session_timeout = session_timeout
        self._drains = drains
        self._audit = audit
        self._heard: dict[str, float] = {}  # session -> when; not journaled
        self._asked: dict[str, float] = {}  # the same for its calls about data: heartbeats do not count
        self._changed = asyncio.Event()
        self._waiting: Counter[str] = Counter()  # calls that wait for shards, by session

    def prepare(self) -> None:
        self._resume()
        for dataset in self._datasets:
            self.create_shards(dataset)

    def on_event(self, signal: Signal) -> None:
        match signal:
            case ProgramGone(node=node, incarnation=incarnation, exit_reason=reason, message=message):
                if self._fault_tolerance:
                    self.recover_shard(node, incarnation, blame=message if reason is ExitReason.ERROR else "")
                else:
                    self.lose_shards(node, incarnation, message)
            case MasterPaused():
                self._resume()
            case _:
                return

    def _resume(self) -> None:
        """After a restart or a pause of the master, silence is counted from now on."""
        now = self._clock.now()
        self._heard = dict.fromkeys(self.book.sessions(), now)
        self._asked = self._heard.copy()
        if self._heard:
            self._journal.do(self.book.forgive)

    # --- datasets

    def create_shards(self, spec: DatasetSpec, node: str = "") -> bool:
        """``node``: whose program defines it; empty: the job's spec, or the master itself."""
        created = self._journal.do(self.book.create, dataset=spec.to_json(), origin=uuid.uuid4().hex, node=node)
        if created:
            layout = self.book.queue(spec.name).layout
            self._journal.event(
                DatasetCreated(
                    dataset=spec.name,
                    type=spec.type.value,
                    stream=spec.stream,
                    records=0 if spec.stream else layout.records,
                    shards=0 if spec.stream else layout.shards,
                    epochs=spec.epochs,
                    partitions=len(spec.partitions),
                )
            )
            self._notify()
        return created

    def grow_stream(
        self,
        dataset: str,
        records: int,
        close: bool,
        producer: str,
        number: int,
        *,
        partition: str | None = None,
        end: int | None = None,
    ) -> int:
        """Each numbered call of a producer counts once, however often it is sent."""
        where: dict[str, Any] = {"partition": partition, "end": end}
        length = self._journal.do(
            self.book.grow,
            dataset=dataset,
            records=records,
            close=close,
            producer=producer,
            number=number,
            **{key: value for key, value in where.items() if value is not None},
        )
        self._notify()
        return length

    def commit_plan(self, dataset: str, shards: int, node: str, *, end: bool = False) -> None:
        """The first ``shards`` steps of a plan are done; ``end``: there will be no more."""
        accepted: tuple[Accepted, ...] = ()
        if shards > self.book.queue(dataset).finished_shards:
            accepted = self._journal.do(self.book.commit, dataset=dataset, shards=shards)
        if accepted:
            self._note_accepted(accepted, node, "plan", counted=False)  # each worker of a plan reports its own records
        if end:
            self.end_dataset(dataset)
        if accepted:
            self._notify()

    def end_dataset(self, dataset: str) -> None:
        """Nothing more of it is handed out."""
        queue = self.book.queue(dataset)
        if not (queue.ended or queue.complete) and self._journal.do(self.book.end, dataset=dataset):
            total = queue.records_per_epoch * queue.spec.epochs
            self._journal.event(DatasetEnded(dataset=dataset, records_done=queue.finished_records, records_total=total))
            self._notify()

    def drop(self, dataset: str) -> None:
        self._journal.do(self.book.drop, dataset=dataset)
        self.forget_notes(dataset)

    def forget_notes(self, dataset: str) -> None:
        self.notes.drop(dataset)

    # --- sessions

    def open_session(self, session: str, node: str, incarnation: int) -> None:
        if not self.book.has_session(session):
            self._journal.do(self.book.open_session, session=session, node=node, incarnation=incarnation)
        self._heard[session] = self._asked[session] = self._clock.now()

    def beat(self, session: str) -> None:
        if not self.book.has_session(session):
            raise SessionExpired("the master closed this session", hint="open a new one")
        self._heard[session] = self._clock.now()

    def close_session(self, session: str) -> None:
        if self.book.has_session(session):
            self._journal.do(self.book.close_session, session=session, blame="")
            self._forget(session)
            self._signals.publish(SessionEnded(session))
            self._notify()

    def get_shard(
        self,
        session: str,
        request: int,
        dataset: str | None,
        want: int,
        done: list[int],
        progress: list[list[int]],
        failed: list[list[Any]],
        released: list[int],
        notes: list[list[Any]] | None = None,
        waiting: bool = False,
        trains_alone: bool = False,
    ) -> Answer:
        """Process reports and lease shards, in one call. ``waiting``: the program does nothing else until it has one.
        ``trains_alone``: it updates a model by itself (``core/combination.py``)."""
        reports: dict[str, Any] = {"done": done, "progress": progress, "failed": failed, "released": released}
        reports |= {"notes": notes, "waiting": waiting}
        answer = self._journal.do(
            self.book.exchange,
            session=session,
            request=request,
            dataset=dataset,
            want=want,
            **{key: value for key, value in reports.items() if value},
        )
        self._heard[session] = self._asked[session] = self._clock.now()
        if answer.accepted:
            self._note_progress(session, answer)
        if trains_alone and dataset is not None and self.book.queue(dataset).is_training:
            self._signals.publish(TrainsAlone(self.book.node_of(session)))
        if answer.accepted or failed or released:
            self._notify()
        return answer

    def report_shard_status(self, session: str, request: int, done: list[int]) -> Answer:
        return self.get_shard(session, request, None, 0, done, [], [], [])

    def acknowledge(self, session: str, progress: list[list[int]]) -> None:
        """Records that were done with a contribution; journaled together with it by the caller."""
        answer = self._journal.do(self.book.acknowledge, session=session, progress=progress)
        self._heard[session] = self._clock.now()
        if answer.accepted:
            self._note_progress(session, answer)
            self._notify()

    def recover_shard(self, node: str, incarnation: int | None, *, blame: str = "") -> None:
        """A node, or one run of its program, ended: queue again what it had not reported."""
        if self._has_sessions(node):
            self._ended(self._journal.do(self.book.close_node, node=node, incarnation=incarnation, blame=blame))

    def lose_shards(self, node: str, incarnation: int | None, message: str) -> None:
        """A node, or one run of its program, ended, and nobody does again what it had not reported: the job will fail by it."""
        if self._has_sessions(node):
            why = f"they were leased to {node} when it ended ({message or 'unknown reason'})"
            self._ended(self._journal.do(self.book.lose_node, node=node, incarnation=incarnation, message=why))

    def _has_sessions(self, node: str) -> bool:
        return any(self.book.node_of(session) == node for session in self.book.sessions())

    def _ended(self, gone: list[str]) -> None:
        for session in gone:
            self._forget(session)
            self._signals.publish(SessionEnded(session))
        if gone:
            self._notify()

    def checkpoint(self) -> dict[str, Any]:
        return self.book.checkpoint()

    def restore_checkpoint(self, checkpoint: dict[str, Any]) -> list[str]:
        """Returns the datasets that begin at their saved position now; the others were there, or further."""
        names = self._journal.do(self.book.restore_checkpoint, checkpoint=checkpoint)
        if names:
            self._journal.event(DatasetsRestored(datasets=tuple(names)))
            self._notify()
        return names

    async def wait_for_shards(self, dataset: str, session: str = "") -> Availability:
        """Wait while a dataset has no shards but may have some later."""
        self._waiting[session] += 1
        try:
            while (availability := self.book.availability(dataset, session)) is Availability.WAIT:
                await self._changed.wait()
        finally:
            self._waiting[session] -= 1
            if not self._waiting[session]:
                del self._waiting[session]
            if session in self._asked:
                self._asked[session] = self._clock.now()
        return availability

    def idle_nodes(self) -> list[str]:
        """Nodes whose programs wait for shards and hold none: no progress can be expected of them.

        A program that hangs in a shard that was taken from it holds none either, and its client asks for more.
        """
        book = self.book
        waiting = (s for s in self._waiting if book.has_session(s) and not book.is_stuck(s))
        return [book.node_of(s) for s in waiting if not book.is_holding(s)]

    def is_settled(self) -> bool:
        """Whether a service may go although programs are connected: those that wait have their answer, and each has closed its
        session, as a program does that heard of the end, or asked nothing for as long as a silent one is waited for."""
        if not self._drains:
            return True
        now = self._clock.now()
        return not self._waiting and all(now - asked > self._session_timeout for asked in self._asked.values())

    def _forget(self, session: str) -> None:
        self._heard.pop(session, None)
        self._asked.pop(session, None)

    async def tick(self) -> None:
        self._signals.publish(NodesIdle(tuple(self.idle_nodes())))
        self.expire_silent()

    def expire_silent(self) -> None:
        """Revoke what silent sessions hold."""
        if not self._fault_tolerance:
            return
        now = self._clock.now()
        for session, heard in list(self._heard.items()):
            if now - heard > self._session_timeout and self.book.has_session(session):
                node = self.book.node_of(session)
                self._journal.event(SessionTimedOut(node=node, seconds=now - heard))
                self.close_session(session)
        for late in self.book.overdue(now):
            node = self.book.node_of(late.session)
            self._journal.event(LeaseTimedOut(node=node, dataset=late.dataset, seconds=late.silent))
            self._journal.do(self.book.expire, session=late.session, dataset=late.dataset)
            self._notify()

    def _note_progress(self, session: str, answer: Answer) -> None:
        self._note_accepted(answer.accepted, self.book.node_of(session), session)

    def _note_accepted(self, accepted: tuple[Accepted, ...], node: str, session: str, *, counted: bool = True) -> None:
        self._signals.publish(RecordsAccepted(node, sum(a.end - a.begin for a in accepted) if counted else 0))
        if self._audit:
            self._journal.audit(
                [
                    AuditRow(
                        a.lease.dataset,
                        a.lease.shard.epoch,
                        a.lease.shard.ordinal,
                        a.lease.extent.name,
                        a.lease.extent.start,
                        a.lease.extent.end,
                        a.begin,
                        a.end,
                        node,
                        session,
                        a.lease.number,
                    )
                    for a in accepted
                ]
            )

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
