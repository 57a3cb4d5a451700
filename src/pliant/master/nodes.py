"""The node manager: the shell around ``core.nodes.NodeBook``.

Calls of agents, events of the platform's watcher and the passing of time go in; launches and removals go to the
platform's scaler. What is still to be launched or removed is *found* in the book each time, never remembered here, so
a master that was killed between a decision and its deed finds the deed again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from pliant.core.clock import Clock
from pliant.core.errors import PliantError
from pliant.core.node_states import Decision, FailJob, Launch, NodeState, RestartProgram
from pliant.core.nodes import NodeBook
from pliant.core.relaunch import ExitReason
from pliant.core.wishes import Change
from pliant.master.journal import Journal
from pliant.platforms.base import NodeEvent, NodeLaunch, NodeRemoval, NodeWatcher, ScalePlan, Scaler

log = logging.getLogger(__name__)


class NodeManager:
    def __init__(
        self,
        book: NodeBook,
        journal: Journal,
        clock: Clock,
        scaler: Scaler,
        watcher: NodeWatcher,
        describe: Callable[[Launch], NodeLaunch],
    ) -> None:
        self.book = book
        self._journal = journal
        self._clock = clock
        self._scaler = scaler
        self._watcher = watcher
        self._describe = describe
        self._busy = asyncio.Lock()  # one plan at a time
        # node, run of its program (None: all), why it ended, in words
        self.on_program_gone: Callable[[str, int | None, ExitReason, str], None] = lambda *_: None
        self.on_change: Callable[[], None] = lambda: None

    async def resume(self) -> None:
        """Compare the book with what the platform has; needed after a restart, harmless at the start."""
        self.book.touch_all(self._clock.now())
        there = {event.node: event for event in await self._watcher.list()}
        if not self.book.started:
            await self._begin_beside(list(there))
        for node in self.book.live():
            event = there.get(node.name)
            if event is not None and event.alive:
                self._alive(event)
            if event is not None and not event.alive:
                self._ended(event)
            elif event is None and node.accepted_at is not None:
                self._ended(NodeEvent(node.name, False, ExitReason.UNKNOWN, "it was gone when the master came back"))
        for node in self.book.nodes():
            if node.ended and not node.gone and (node.name not in there or not there[node.name].alive):
                self._ended(there.get(node.name) or NodeEvent(node.name, False))
        self._apply(self._journal.do(self.book.start))

    async def _begin_beside(self, there: list[str]) -> None:
        """Nodes that this job's journal knows nothing of: an earlier master's, whose journal is lost. They end."""
        strangers = [name for name in there if name.rpartition("-")[0] in self.book.roles()]
        if not strangers:
            return
        known = ", ".join(strangers[:5]) + (", …" if len(strangers) > 5 else "")
        self._journal.event("master", f"the journal of an earlier master is lost: the job starts over, {known} end")
        for name in strangers:
            role, _, number = name.rpartition("-")
            self._journal.do(self.book.reserve, role=role, number=int(number))
        await self._scaler.scale(
            ScalePlan(remove=tuple(NodeRemoval(n, 0.0) for n in strangers), reason="the job starts over")
        )

    async def follow_platform(self) -> None:
        """Take the watcher's events, for ever."""
        async for event in self._watcher.watch():
            if event.alive:
                self._alive(event)
            else:
                self._ended(event)

    async def tick(self) -> None:
        """Carry out what is due, and give up who is silent."""
        now = self._clock.now()
        for late in self.book.overdue(now):
            self.give_up(late.node, late.exit_reason, late.message)
        for node in self.book.cramped(now):
            self._apply(self._journal.do(self.book.shrink, node=node))
        async with self._busy:
            await self._carry_out()

    def give_up(self, node: str, exit_reason: ExitReason, message: str) -> None:
        """Without having seen its end: removed at once, and replaced."""
        self._journal.event("hang", message, node)
        self.on_program_gone(node, None, exit_reason, message)
        self._apply(self._journal.do(self.book.lost, node=node, exit_reason=exit_reason.value, message=message))

    async def _carry_out(self) -> None:
        now = self._clock.now()
        launches = self.book.due(now)
        removals = self.book.removals(now)
        if not launches and not removals:
            return
        await self._journal.durable()  # nothing is done that a successor would not know of
        reasons = [*(launch.reason for launch in launches), *(removal.reason for removal in removals)]
        plan = ScalePlan(
            tuple(self._describe(launch) for launch in launches),
            tuple(NodeRemoval(r.node, r.grace) for r in removals),
            "; ".join(list(dict.fromkeys(reasons))[:3]),
        )
        refused = {refusal.node: refusal for refusal in await self._scaler.scale(plan)}
        for launch in launches:
            refusal = refused.get(launch.node)
            if refusal is None:
                self._apply(self._journal.do(self.book.accepted, node=launch.node))
                continue
            self._journal.event("refused", refusal.message, launch.node)
            answer = self.book.refused if refusal.unschedulable else self.book.launch_failed
            self._apply(self._journal.do(answer, node=launch.node, message=refusal.message))

    # --- what agents say

    def register(
        self, node: str, agent_pid: int, host: str, incarnation: int, pid: int, address: str = ""
    ) -> tuple[bool, str, int]:
        """(welcome, why not, the run its program should be)."""
        record = self.book.get(node)
        if record.ended:
            return False, f"{node} was given up: {record.message or record.state.value}", record.incarnation
        first = record.started_at is None
        self._apply(self._journal.do(self.book.registered, node=node, agent_pid=agent_pid, host=host, address=address))
        if first:
            self._journal.event("running", f"{node} is there", node)
        if pid and incarnation == record.incarnation and record.pid != pid:
            self._journal.do(self.book.program_started, node=node, incarnation=incarnation, pid=pid)
        self.on_change()
        return True, "", self.book.get(node).incarnation

    def program_started(self, node: str, incarnation: int, pid: int) -> None:
        self._apply(self._journal.do(self.book.program_started, node=node, incarnation=incarnation, pid=pid))

    def program_exited(
        self, node: str, incarnation: int, exit_reason: ExitReason, message: str
    ) -> RestartProgram | None:
        """Decide after the end of a program; the agent restarts it as told, or leaves."""
        before = self.book.get(node)
        if incarnation == before.incarnation and not before.ended:
            self._journal.event("exit", f"{exit_reason.value}: {message}", node)
            self.on_program_gone(node, incarnation, exit_reason, message)
        decisions = self._journal.do(
            self.book.program_exited,
            node=node,
            incarnation=incarnation,
            exit_reason=exit_reason.value,
            message=message,
        )
        self._apply(decisions)
        return next((d for d in decisions if isinstance(d, RestartProgram)), None)

    def program_recalled(
        self, node: str, incarnation: int, message: str, *, alone: bool = False
    ) -> RestartProgram | None:
        """Its program ended because its group starts anew, or because the master had it killed; nothing is counted."""
        self._journal.event("exit", f"{'killed as the master told' if alone else 'with its group'}: {message}", node)
        self.on_program_gone(node, incarnation, ExitReason.KILLED, message)
        shown = {"exit_reason": ExitReason.KILLED.value} if alone else {}
        decisions = self._journal.do(
            self.book.program_recalled, node=node, incarnation=incarnation, message=message, **shown
        )
        self._apply(decisions)
        return next((d for d in decisions if isinstance(d, RestartProgram)), None)

    def heartbeat(self, node: str) -> tuple[bool, float, str]:
        """(shall stop, with what grace, why)."""
        record = self.book.get(node)
        self.book.heartbeat(node, self._clock.now())
        if record.ended:
            return True, 0.0, f"{node} was given up: {record.message or record.state.value}"
        return record.removal is not None, record.removal_grace, record.removal or ""

    # --- what people want

    def scale(self, role: str, replicas: int, reason: str, first: Sequence[str] = ()) -> tuple[int, int]:
        before = self.book.role(role).spec.replicas
        chosen = {"first": list(first)} if first else {}
        decisions = self._journal.do(self.book.scale, role=role, replicas=replicas, reason=reason, **chosen)
        self._journal.event("scale", f"{role}: {before} -> {replicas} ({reason})")
        self._apply(decisions)
        return before, replicas

    def try_changes(self, changes: Iterable[Change]) -> None:
        """Raise what would be wrong with them, all together; nothing is changed."""
        trial = self.book.copy()
        for change in changes:
            getattr(trial, change.method)(self._clock.now(), **change.arguments)

    def change(self, change: Change) -> None:
        self._apply(self._journal.do(getattr(self.book, change.method), **change.arguments))

    def stop(self, reason: str, grace: float | None = None) -> None:
        self._apply(self._journal.do(self.book.stop, reason=reason, grace=grace))

    # --- inside

    def _alive(self, event: NodeEvent) -> None:
        """The platform keeps a launch until there is room, or found room for it."""
        try:
            record = self.book.get(event.node)
        except PliantError:
            return
        waits = record.waiting_since is not None
        if event.no_room and not record.ended and not (waits and record.message == event.no_room):
            if not waits:
                self._journal.event("no room", event.no_room, event.node)
            self._apply(self._journal.do(self.book.no_room, node=event.node, message=event.no_room))
        elif not event.no_room and waits and record.state is NodeState.CREATING:
            self._journal.event("room", "there is room for it", event.node)
            self._apply(self._journal.do(self.book.room_found, node=event.node))

    def _ended(self, event: NodeEvent) -> None:
        try:
            record = self.book.get(event.node)
        except PliantError:
            log.warning("the platform tells of %s, which this job never had", event.node)
            return
        if record.gone:
            return
        if not record.ended:
            self._journal.event("ended", f"{event.exit_reason.value}: {event.message}", event.node)
            self.on_program_gone(event.node, None, event.exit_reason, event.message)
        self._apply(
            self._journal.do(
                self.book.node_ended,
                node=event.node,
                exit_reason=event.exit_reason.value,
                message=event.message,
                host=event.host,
            )
        )

    def _apply(self, decisions: Iterable[Decision]) -> None:
        """Launches and removals are found in the book by ``tick``; here they are only told."""
        for decision in decisions:
            match decision:
                case Launch(node=node, reason=reason):
                    self._journal.event("launch", reason, node)
                case RestartProgram(node=node, reason=reason):
                    self._journal.event("restart", reason, node)
                case FailJob(node=node, reason=reason):
                    self._journal.event("give up", reason, node)
                case _:
                    self._journal.event("remove", decision.reason, decision.node)
        self.on_change()
