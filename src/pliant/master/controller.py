"""The controller of one job: its components, ticked in order, until the job is over and nothing of it is left.

Which components there are depends on the job (``assembly``); the controller knows only the list and what every component
can do. What one learns reaches the others as signals, delivered in the order of the list. How a job ends is decided by
``core.end_policy``; here it is journaled and carried out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from pliant.core.clock import Clock
from pliant.core.end_policy import end_of_job, is_gone, lost_records, worker_roles
from pliant.core.errors import Conflict, NotAvailable
from pliant.core.events import EventRecord, JobEnded, JobResumed, NodeLaunched
from pliant.core.job import Phase
from pliant.core.job_state import JobState
from pliant.core.nodes.states import Launch
from pliant.core.shards.audit import JobAudit
from pliant.core.status import JobStatus
from pliant.core.status_builder import LiveFigures, build_status
from pliant.master.components.base import Component
from pliant.master.components.nodes import NodeManager
from pliant.master.components.signals import EndRequested, HeartbeatsPaced, JobOver, NodesChanged, Signal, SignalBus
from pliant.master.journal.journal import Journal

C = TypeVar("C", bound=Component)
MAX_HEARTBEATS_PER_S = 160  # of all agents together, as long as the time-out allows; each costs about 0.25 ms


class JobController:
    def __init__(
        self,
        name: str,
        state: JobState,
        journal: Journal,
        clock: Clock,
        signals: SignalBus,
        *,
        read_events: Callable[[int, int], list[EventRecord]],
        read_audit: Callable[[], JobAudit] | None = None,
        heartbeat_timeout: float = 15.0,
        session_timeout: float = 30.0,
    ) -> None:
        self.name = name
        self.state = state
        self.journal = journal
        self.clock = clock
        self.signals = signals
        self.components: list[Component] = []
        self.read_events = read_events
        self.read_audit = read_audit
        self._heartbeat_timeout = heartbeat_timeout
        self.heartbeat_seconds = min(1.0, heartbeat_timeout / 5)  # between two of an agent
        # Who waits at the master is silent meanwhile: no wait, and no pause between two beats, may come near the time-out.
        self.beat_seconds = min(2.0, session_timeout / 5)
        self.max_wait_s = min(30.0, session_timeout / 3)
        self.ended = asyncio.Event()  # the job is over (its nodes may still be on their way out)
        self.gone = asyncio.Event()  # and nothing of it is left
        self.woken = asyncio.Event()  # something is to be done before the next tick
        self._by_type: dict[type[Component], Component] = {}
        signals.connect(self._on_event)

    def add(self, *components: Component) -> None:
        """In the order in which they are ticked and receive signals."""
        for component in components:
            self.components.append(component)
            self._by_type[type(component)] = component
            self.signals.connect(component.on_event)

    def find(self, kind: type[C]) -> C | None:
        """The component of this type, if the master runs it."""
        found = self._by_type.get(kind)
        return found if isinstance(found, kind) else None

    def require(self, kind: type[C]) -> C:
        found = self.find(kind)
        if found is None:
            raise NotAvailable(f"this master runs without its {kind.title}", hint=f"start it with {kind.enabled_by}")
        return found

    def status(self) -> JobStatus:
        """The job's state, and the figures that only its components know."""
        live = LiveFigures()
        for component in self.components:
            live = component.status(live)
        return build_status(self.name, self.state, self.clock.now(), live)

    # --- life

    def prepare(self) -> None:
        for component in self.components:
            component.prepare()

    async def start(self) -> None:
        for component in self.components:
            await component.start()

    async def tick(self) -> None:
        for component in self.components:
            component.check()
            await component.tick()
        self._pace_heartbeats()
        self._check_end()

    async def stop(self) -> None:
        """This master ends, whatever becomes of the job."""
        for component in reversed(self.components):
            await component.stop()

    def _on_event(self, signal: Signal) -> None:
        match signal:
            case NodesChanged():
                self.woken.set()
            case EndRequested(reason, at_once, failed):
                self.end_job(reason, at_once=at_once, failed=failed)

    def _pace_heartbeats(self) -> None:
        """Many agents send fewer each: what they cost this master is bounded. One that is lost still fits into the time-out."""
        nodes = self.find(NodeManager)
        wanted = len(nodes.book.live()) / MAX_HEARTBEATS_PER_S if nodes is not None else 0.0
        least, most = min(1.0, self._heartbeat_timeout / 5), self._heartbeat_timeout * 0.4
        seconds = min(max(least, wanted), most)
        if seconds != self.heartbeat_seconds:
            self.heartbeat_seconds = seconds
            self.signals.publish(HeartbeatsPaced(seconds))

    # --- what concerns the job as a whole

    def check_run(self, node: str, incarnation: int) -> None:
        """Refuse a program that was given up, or followed by another run; without nodes of our own all are guests."""
        if (nodes := self.find(NodeManager)) is not None:
            nodes.check_run(node, incarnation)

    def end_job(self, reason: str, *, at_once: bool = False, failed: bool = False) -> None:
        """As somebody asked for; ``at_once``: without grace for its programs."""
        if self.state.job.over and not at_once:
            return
        self._end(Phase.FAILED if failed else Phase.STOPPED, reason)
        if at_once and (nodes := self.find(NodeManager)) is not None:
            nodes.stop_nodes(reason, grace=0.0)

    def resume_job(self) -> bool:
        """Before this master serves: continue a job that was stopped or has failed; False: it is not over, or succeeded.

        Leases, worlds, parameters and parts of the data are as they were; budgets of failures begin anew.
        """
        state, journal = self.state, self.journal
        phase, reason = state.job.phase, state.job.reason
        if phase not in (Phase.STOPPED, Phase.FAILED):
            return False
        if state.shards is not None and (records := lost_records(state.shards)):
            raise Conflict(
                f"records were lost with their worker, and task_fault_tolerance is off: {records}",
                hint="a job without fault tolerance cannot be resumed after that; start it again with --overwrite",
            )
        journal.do(state.job.resume)
        journal.event(JobResumed(phase=phase, reason=reason))
        journal.do(state.checkpoints.reopen)
        if state.shards is not None:
            journal.do(state.shards.retry_parked)
        if state.nodes is not None:
            workers = worker_roles(state.nodes)
            for decision in journal.do(state.nodes.reopen, reason="the job is resumed", work_roles=workers):
                if isinstance(decision, Launch):
                    replaced = state.nodes.get(decision.node).replaces or ""
                    journal.event(NodeLaunched(node=decision.node, reason=decision.reason, replaces=replaced))
            is_trained = any(
                state.nodes.role(role).succeeded for role in workers
            )  # then no late worker may start it over
            if state.rendezvous is not None and not is_trained:
                journal.do(state.rendezvous.reopen)
        return True

    def _check_end(self) -> None:
        end = end_of_job(self.state)
        if end is not None and end.after_settling:  # what is settled may change it: the last dump fails, or succeeds
            end = end_of_job(self.state) if self._is_settled() else None
        if end is not None:
            self._end(end.phase, end.reason)
        if self.state.job.over:
            self.ended.set()
        if is_gone(self.state):
            self.gone.set()

    def _is_settled(self) -> bool:
        settled = [component.is_settled() for component in self.components]  # each is asked: it begins what is missing
        return all(settled)

    def _end(self, phase: Phase, reason: str) -> None:
        if self.journal.do(self.state.job.end, phase=phase.value, reason=reason):
            self.journal.event(JobEnded(phase=phase, reason=reason))
        self.signals.publish(JobOver(reason))
        self.ended.set()
