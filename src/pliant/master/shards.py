"""The data shard manager: the shell around ``core.shards.ShardBook``.

It turns calls of programs into journaled events, wakes those who wait for shards, and gives up sessions and leases that
have been silent for too long. Without fault tolerance (a sharding service alone) nothing is ever taken back by time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

from pliant.core.clock import Clock
from pliant.core.datasets import DatasetSpec
from pliant.core.errors import SessionExpired
from pliant.core.leases import Accepted, Answer, Supply
from pliant.core.shards import ShardBook
from pliant.master.journal import Journal
from pliant.master.journal_store import AuditRow
from pliant.master.notes import NoteStore

log = logging.getLogger(__name__)


class DataShardManager:
    def __init__(
        self,
        book: ShardBook,
        journal: Journal,
        clock: Clock,
        *,
        fault_tolerance: bool = True,
        session_timeout: float = 30.0,
        audit: bool = False,
        notes: NoteStore | None = None,
    ) -> None:
        self.book = book
        self.notes = notes
        self._journal = journal
        self._clock = clock
        self._fault_tolerance = fault_tolerance
        self._session_timeout = session_timeout
        self._audit = audit
        self._heard: dict[str, float] = {}  # session -> when; not journaled
        self._changed = asyncio.Event()
        self._waiting: Counter[str] = Counter()  # calls that wait for shards, by session
        self.on_progress: Callable[[str, int], None] = lambda node, records: None
        self.on_complete: Callable[[], None] = lambda: None
        self.on_session_end: Callable[[str], None] = lambda session: None

    def resume(self) -> None:
        """After a restart or a pause of the master nobody is late: silence is counted from now on."""
        now = self._clock.now()
        self._heard = dict.fromkeys(self.book.sessions(), now)
        if self._heard:
            self._journal.do(self.book.forgive)

    # --- datasets

    def create_shards(self, spec: DatasetSpec) -> bool:
        created = self._journal.do(self.book.create, dataset=spec.to_json())
        if created:
            queue = self.book.queue(spec.name)
            size = "a stream" if spec.stream else f"{queue.layout.records:,} records, {queue.layout.shards:,} shards"
            self._journal.event("dataset", f"dataset {spec.name}: {size}, {spec.epochs} epoch(s), {spec.type.value}")
            self._notify()
        return created

    def grow_stream(self, dataset: str, records: int, close: bool, producer: str, number: int) -> int:
        """Each numbered call of a producer counts once, however often it is sent."""
        length = self._journal.do(
            self.book.grow, dataset=dataset, records=records, close=close, producer=producer, number=number
        )
        self._notify()
        return length

    def commit_plan(self, dataset: str, shards: int, node: str, *, end: bool = False) -> None:
        """So many steps of a plan are done; ``end``: and no more of them come."""
        accepted: tuple[Accepted, ...] = ()
        if shards > self.book.queue(dataset).finished_shards:
            accepted = self._journal.do(self.book.commit, dataset=dataset, shards=shards)
        if accepted:
            self._note_accepted(accepted, node, "plan")
        if end:
            self.end_dataset(dataset)
        if accepted:
            self._notify()

    def end_dataset(self, dataset: str) -> None:
        """Nothing more of it is handed out."""
        queue = self.book.queue(dataset)
        if not (queue.ended or queue.complete) and self._journal.do(self.book.end, dataset=dataset):
            total = queue.records_per_epoch * queue.spec.epochs
            told = f"dataset {dataset} ends after {queue.finished_records:,} of {total:,} records"
            self._journal.event("dataset", told)
            self._notify()

    def drop(self, dataset: str) -> None:
        self._journal.do(self.book.drop, dataset=dataset)
        self.forget_notes(dataset)

    def forget_notes(self, dataset: str) -> None:
        if self.notes is not None:
            self.notes.drop(dataset)

    # --- sessions

    def open_session(self, session: str, node: str, incarnation: int) -> None:
        if not self.book.has_session(session):
            self._journal.do(self.book.open_session, session=session, node=node, incarnation=incarnation)
        self._heard[session] = self._clock.now()

    def beat(self, session: str) -> None:
        if not self.book.has_session(session):
            raise SessionExpired("the master gave this program up", hint="open a new session")
        self._heard[session] = self._clock.now()

    def close_session(self, session: str) -> None:
        if self.book.has_session(session):
            self._journal.do(self.book.close_session, session=session, blame="")
            self._heard.pop(session, None)
            self.on_session_end(session)
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
    ) -> Answer:
        """Lease shards and take the reports that ride along."""
        reports: dict[str, Any] = {"done": done, "progress": progress, "failed": failed, "released": released}
        reports["notes"] = notes
        answer = self._journal.do(
            self.book.exchange,
            session=session,
            request=request,
            dataset=dataset,
            want=want,
            **{key: value for key, value in reports.items() if value},
        )
        self._heard[session] = self._clock.now()
        if answer.accepted:
            self._note_progress(session, answer)
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
        if not self._fault_tolerance:
            return
        sessions = [s for s in self.book.sessions() if self.book.node_of(s) == node]
        if not sessions:
            return
        gone = self._journal.do(self.book.close_node, node=node, incarnation=incarnation, blame=blame)
        for session in gone:
            self._heard.pop(session, None)
            self.on_session_end(session)
        if gone:
            self._notify()

    def checkpoint(self) -> dict[str, Any]:
        return self.book.checkpoint()

    def restore_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        names = self._journal.do(self.book.restore_checkpoint, checkpoint=checkpoint)
        self._journal.event("dataset", f"continued from a checkpoint: {', '.join(names)}")
        self._notify()

    async def wait_for_shards(self, dataset: str, session: str = "") -> Supply:
        """Wait while a dataset has nothing to give but may have something later."""
        self._waiting[session] += 1
        try:
            while (supply := self.book.supply(dataset)) is Supply.WAIT:
                await self._changed.wait()
        finally:
            self._waiting[session] -= 1
            if not self._waiting[session]:
                del self._waiting[session]
        return supply

    def idle_nodes(self) -> list[str]:
        """Those whose programs wait for shards and hold none: no progress can be expected of them."""
        book = self.book
        return [book.node_of(s) for s in self._waiting if book.has_session(s) and not book.is_holding(s)]

    def tick(self) -> None:
        """Act on silence."""
        if not self._fault_tolerance:
            return
        now = self._clock.now()
        for session, heard in list(self._heard.items()):
            if now - heard > self._session_timeout and self.book.has_session(session):
                node = self.book.node_of(session)
                text = f"the program of {node} was silent for {now - heard:.0f} s; its shards go to others"
                self._journal.event("session", text, node)
                self.close_session(session)
        for late in self.book.overdue(now):
            node = self.book.node_of(late.session)
            text = (
                f"no report on a shard of {late.dataset} from {node} for {late.silent:.0f} s; its shards go to others"
            )
            self._journal.event("lease", text, node)
            self._journal.do(self.book.expire, session=late.session, dataset=late.dataset)
            self._notify()

    def parked(self) -> list[str]:
        """The shards that kept failing and may not be skipped, each as a sentence."""
        return [
            f"dataset {queue.spec.name}, epoch {p.piece.epoch}, records [{p.extent.start}, {p.extent.end})"
            + (f" of {p.extent.name}" if p.extent.name != queue.spec.name else "")
            + f": failed {p.piece.failures + p.piece.timeouts} times, last: {p.message}"
            for queue in self.book.queues()
            if not queue.spec.skip_parked
            for p in queue.parked
        ]

    def _note_progress(self, session: str, answer: Answer) -> None:
        self._note_accepted(answer.accepted, self.book.node_of(session), session)

    def _note_accepted(self, accepted: tuple[Accepted, ...], node: str, session: str) -> None:
        self.on_progress(node, sum(a.end - a.begin for a in accepted))
        if self._audit:
            self._journal.audit(
                [
                    AuditRow(
                        a.lease.dataset,
                        a.lease.piece.epoch,
                        a.lease.piece.ordinal,
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
        if self.book.queues() and self.book.complete():
            self.on_complete()
