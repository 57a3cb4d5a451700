"""The node manager: the shell around ``core.nodes.book.NodeBook``.

Calls of agents, events of the platform's watcher and the passing of time go in; launches and removals go to the
platform's scaler. What is still to be launched or removed is *found* in the book each time, never stored here, so a master
that was killed between a decision and its execution finds it again.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from pliant.core.clock import Clock
from pliant.core.errors import Conflict, MasterUnavailable, NotFound, PliantError
from pliant.core.events import (
    Event,
    ExitCause,
    JournalLost,
    LaunchRefused,
    NodeEnded,
    NodeGivenUp,
    NodeHung,
    NodeLaunched,
    NodeRemoved,
    NodeResized,
    NodeRunning,
    NodeScheduled,
    NodeTooLarge,
    NodeUnschedulable,
    ProgramExited,
    ProgramRestarted,
    ResizeRefused,
    RoleScaled,
    RolloutStarted,
    TakenOver,
    describe,
)
from pliant.core.job import JobBook
from pliant.core.nodes.book import NodeBook, end_of_removed
from pliant.core.nodes.capacity import Capacity
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.nodes.permanent import JobProgress, PermanentKind
from pliant.core.nodes.states import (
    Decision,
    FailJob,
    Launch,
    Node,
    NodeState,
    Remove,
    Resize,
    RestartProgram,
    at_least,
)
from pliant.core.resources import Resources
from pliant.core.takeover import RecoveryOutcome
from pliant.master.components.base import BackgroundComponent
from pliant.master.components.signals import (
    JobOver,
    MasterPaused,
    NodesAdopted,
    NodesChanged,
    NodesIdle,
    ProgramGone,
    RecordsAccepted,
    Signal,
    SignalBus,
    StepReported,
    WorkersBlocked,
    WorldInUse,
)
from pliant.master.journal.journal import Journal
from pliant.platforms.base import (
    NodeEvent,
    NodeLaunch,
    NodeRemoval,
    NodeResize,
    NodeWatcher,
    Refusal,
    ScalePlan,
    Scaler,
)

log = logging.getLogger(__name__)

RESIZE_AGAIN_S = 2.0  # after the platform refused to resize a node
CAPACITY_INTERVAL_S = 15.0  # between two questions for the machines of the platform


async def unknown_capacity() -> Capacity | None:
    """Of a platform that does not say."""
    return None


class NodeManager(BackgroundComponent):
    name = "nodes"
    title = "node manager"
    enabled_by = "--need-pod-manager"

    def __init__(
        self,
        book: NodeBook,
        job: JobBook,
        journal: Journal,
        clock: Clock,
        signals: SignalBus,
        scaler: Scaler,
        watcher: NodeWatcher,
        describe: Callable[[Launch], NodeLaunch],
        *,
        capacity: Callable[[], Awaitable[Capacity | None]] = unknown_capacity,
        peak_memory: Callable[[str], float] = lambda node: 0.0,
        progress: Callable[[], JobProgress] = lambda: JobProgress.NONE,
        is_single_machine: bool = True,
        takes_over: bool = False,
        can_resize: bool = False,
    ) -> None:
        """``capacity`` asks the platform what it could give to one node at most; ``peak_memory``: of a node, in MB, 0: unknown.
        ``progress``: how far the job has got. ``is_single_machine``: all nodes share one.
        ``takes_over``: living nodes that the journal does not know go on under this master (``core/takeover.py``).
        ``can_resize``: the platform can give a running node other resources."""
        super().__init__()
        self.book = book
        self.can_resize = can_resize
        self._job = job
        self._signals = signals
        self._journal = journal
        self._clock = clock
        self._scaler = scaler
        self._watcher = watcher
        self._describe = describe
        self._read_capacity = capacity
        self._peak_memory = peak_memory
        self._progress = progress
        self._is_single_machine = is_single_machine
        self._too_large: dict[str, str] = {}  # nodes of which that was said, and how
        self._takes_over = takes_over
        self._busy = asyncio.Lock()  # one plan at a time
        self._refused_at: dict[str, float] = {}  # when a node could not be resized

    async def start(self) -> None:
        if self._job.over:
            self.stop_nodes(self._job.reason)
        await self._update_capacity()
        await self._resume()
        self.run_beside(self._follow_capacity())
        self.run_beside(self._follow_platform(), is_vital=True)

    def on_event(self, signal: Signal) -> None:
        now = self._clock.now()
        match signal:
            case RecordsAccepted(node=node) | StepReported(node=node):
                self.book.progress(node, now)
            case NodesIdle(nodes=nodes):
                for node in nodes:
                    self.book.idle(node, now)
            case WorkersBlocked():
                self.book.all_idle(now)
            case WorldInUse(members=members):
                self.book.in_step(members)
            case MasterPaused(seconds=seconds):
                self.book.paused(now, seconds)
            case JobOver(reason=reason):
                self.stop_nodes(reason)
            case _:
                return

    async def _resume(self) -> None:
        """Compare the book with the nodes of the platform; needed after a restart, harmless at the start."""
        self.book.touch_all(self._clock.now())
        there = {event.node: event for event in await self._watcher.list()}
        if not self.book.started:
            await self._begin_beside([event for event in there.values() if self._is_ours(event.node)])
        for node in self.book.live():
            event = there.get(node.name)
            if event is not None and event.alive:
                self._alive(event)
            if event is not None and not event.alive:
                self._ended(event)
            elif event is None and node.accepted_at is not None:
                self._ended(NodeEvent(node.name, False, ExitReason.UNKNOWN, "it was gone when the master restarted"))
        for node in self.book.nodes():
            if node.ended and not node.gone and (node.name not in there or not there[node.name].alive):
                self._ended(there.get(node.name) or NodeEvent(node.name, False))
        self._apply(self._journal.do(self.book.start))

    def _is_ours(self, name: str) -> bool:
        return name.rpartition("-")[0] in self.book.roles()

    async def _begin_beside(self, strangers: list[NodeEvent]) -> None:
        """Nodes that this job's journal knows nothing of: an earlier master's, whose journal is lost."""
        if not strangers:
            return
        if self._takes_over and any(event.alive for event in strangers):
            self._adopt(strangers)
            return
        names = tuple(event.node for event in strangers)
        self._lost(RecoveryOutcome.STARTED_OVER, JournalLost(nodes=names))
        for name in names:
            role, _, number = name.rpartition("-")
            self._journal.do(self.book.reserve, role=role, number=int(number))
        await self._scaler.scale(
            ScalePlan(remove=tuple(NodeRemoval(name, 0.0) for name in names), reason="the job restarts from scratch")
        )

    def _adopt(self, strangers: list[NodeEvent]) -> None:
        """They go on. What is noted here reaches the journal together with the start of the book, or not at all."""
        living = [event.node for event in strangers if event.alive]
        finished = [e.node for e in strangers if not e.alive and e.exit_reason is ExitReason.COMPLETED]
        ended = [e.node for e in strangers if not e.alive and e.node not in finished]
        self._lost(RecoveryOutcome.TAKEN_OVER, TakenOver(nodes=tuple(living)))
        self._journal.do(self.book.adopt, living=living, succeeded=finished, ended=ended)
        self._signals.publish(NodesAdopted(tuple(living), tuple(finished)))

    def _lost(self, outcome: RecoveryOutcome, event: Event) -> None:
        """The journal of an earlier master is lost; for people."""
        self._journal.event(event)
        self._journal.do(self._job.journal_lost, outcome=outcome.value, message=describe(event))

    async def _follow_platform(self) -> None:
        """Process the watcher's events until cancelled."""
        async for event in self._watcher.watch():
            if event.alive:
                self._alive(event)
            else:
                self._ended(event)

    async def _follow_capacity(self) -> None:
        """A cluster may get larger machines, or lose them."""
        while True:
            await asyncio.sleep(CAPACITY_INTERVAL_S)
            await self._update_capacity()

    async def _update_capacity(self) -> None:
        try:
            found = await self._read_capacity()
        except PliantError as error:
            log.warning("cannot get the machine sizes of the platform: %s", error)
            return
        if found != self.book.capacity:
            machines = None if found is None else found.to_json()
            self._journal.do(self.book.set_capacity, machines=machines)

    async def tick(self) -> None:
        """Carry out what is due, and give up silent nodes."""
        now = self._clock.now()
        for late in self.book.overdue(now):
            self.give_up(late.node, late.exit_reason, late.message)
        for node in self.book.starved(now):
            self._apply(self._journal.do(self.book.shrink, node=node))
        self._check_sizes(now)
        async with self._busy:
            await self._carry_out()

    def _check_sizes(self, now: float) -> None:
        """Say which requests can never be met, and give up those that were waited for long enough."""
        found = {late.node: late.problem for late in self.book.oversized(now)}
        for node, problem in found.items():
            if self._too_large.get(node) != problem:
                self._journal.event(NodeTooLarge(node=node, reason=problem))
        self._too_large = found
        for late in self.book.hopeless(now):
            self._apply(self._journal.do(self.book.abandon, node=late.node))

    def give_up(self, node: str, exit_reason: ExitReason, message: str) -> None:
        """Without having observed its end: removed at once, and replaced."""
        self._journal.event(NodeHung(node=node, reason=message))
        self._signals.publish(ProgramGone(node, None, exit_reason, message))
        self._apply(self._journal.do(self.book.lost, node=node, exit_reason=exit_reason.value, message=message))

    async def _carry_out(self) -> None:
        now = self._clock.now()
        launches = self.book.due(now)
        removals = self.book.removals(now)
        resizes = [r for r in self.book.resizes() if now >= self._refused_at.get(r.node, -math.inf) + RESIZE_AGAIN_S]
        if not launches and not removals and not resizes:
            return
        await self._journal.durable()  # nothing is done that a successor would not know of
        reasons = [*(launch.reason for launch in launches), *(removal.reason for removal in removals)]
        plan = ScalePlan(
            tuple(self._describe(launch) for launch in launches),
            tuple(NodeRemoval(r.node, r.grace) for r in removals),
            "; ".join(list(dict.fromkeys(reasons))[:3]),
            tuple(NodeResize(r.node, r.resources) for r in resizes),
        )
        refused = {refusal.node: refusal for refusal in await self._scaler.scale(plan)}
        for launch in launches:
            refusal = refused.get(launch.node)
            if refusal is None:
                self._apply(self._journal.do(self.book.accepted, node=launch.node))
                continue
            self._journal.event(
                LaunchRefused(node=launch.node, reason=refusal.message, unschedulable=refusal.unschedulable)
            )
            answer = self.book.refused if refusal.unschedulable else self.book.launch_failed
            self._apply(self._journal.do(answer, node=launch.node, message=refusal.message))
        for resize in resizes:
            self._note_resize(resize, refused.get(resize.node))

    def _note_resize(self, resize: Resize, refusal: Refusal | None) -> None:
        node, asked = self.book.get(resize.node), resize.resources.to_json()
        if refusal is None:
            self._refused_at.pop(resize.node, None)
            rollout = self.book.role(node.role).rollout
            reason = rollout.reason if rollout is not None else ""
            self._journal.do(self.book.resized, node=resize.node, resources=asked, version=resize.version)
            before = node.resources.to_json()
            self._journal.event(NodeResized(node=resize.node, before=before, resources=asked, reason=reason))
            return
        self._refused_at[resize.node] = self._clock.now()
        if node.message != refusal.message:  # said once, tried until it works
            self._journal.event(ResizeRefused(node=resize.node, resources=asked, reason=refusal.message))
            self._journal.do(self.book.resize_refused, node=resize.node, message=refusal.message)

    # --- calls of agents

    def register(
        self, node: str, agent_pid: int, host: str, incarnation: int, pid: int, address: str = ""
    ) -> tuple[bool, str, int]:
        """(welcome, why not, the run its program should be)."""
        record = self._get(node)
        if record.ended:
            return False, f"the master gave up on {node}: {record.message or record.state.value}", record.incarnation
        first = record.started_at is None
        ahead = {"incarnation": incarnation} if incarnation > record.incarnation and first else {}
        self._apply(
            self._journal.do(self.book.registered, node=node, agent_pid=agent_pid, host=host, address=address, **ahead)
        )
        if first:
            self._journal.event(NodeRunning(node=node, host=host))
        record = self.book.get(node)
        if pid and incarnation == record.incarnation and record.pid != pid:
            self._journal.do(self.book.program_started, node=node, incarnation=incarnation, pid=pid)
        elif first and not pid and self._takes_over:  # whatever world its program was in, it is not there now
            self._signals.publish(ProgramGone(node, incarnation, ExitReason.UNKNOWN, "its program is not running"))
        self._signals.publish(NodesChanged(self.book))
        return True, "", self.book.get(node).incarnation

    def _get(self, node: str) -> Node:
        """For a call of its agent. Before the start, which finds out what is there, the agent has to come again."""
        if not self.book.started:
            raise MasterUnavailable("the master does not know its nodes yet")
        return self.book.get(node)

    def program_started(self, node: str, incarnation: int, pid: int) -> None:
        self._get(node)
        self._apply(self._journal.do(self.book.program_started, node=node, incarnation=incarnation, pid=pid))

    def program_exited(
        self,
        node: str,
        incarnation: int,
        exit_reason: ExitReason,
        message: str,
        *,
        permanent: PermanentKind | None = None,
        peak_mb: int = 0,
    ) -> RestartProgram | None:
        """Decide after the end of a program; the agent restarts it as returned, or leaves. ``peak_mb``: as the agent measured."""
        before = self._get(node)
        if before.state is NodeState.CREATING:  # taken over: first its agent registers, and says which run this was
            raise MasterUnavailable(f"{node} has not registered with this master yet")
        if incarnation == before.incarnation and not before.ended:
            self._journal.event(_exit_event(before, exit_reason, message))
            self._signals.publish(ProgramGone(node, incarnation, exit_reason, message))
        decisions = self._journal.do(
            self.book.program_exited,
            node=node,
            incarnation=incarnation,
            exit_reason=exit_reason.value,
            message=message,
            **self._peak_of(node, peak_mb),
            **(self._about(permanent) if permanent is not None else {}),
        )
        self._apply(decisions)
        return next((d for d in decisions if isinstance(d, RestartProgram)), None)

    def program_recalled(
        self, node: str, incarnation: int, message: str, *, alone: bool = False
    ) -> RestartProgram | None:
        """Its program ended because its group is restarted, or because the master had it killed; no failure is counted."""
        self._journal.event(
            ProgramExited(
                node=node,
                incarnation=incarnation,
                exit_reason=ExitReason.KILLED,
                cause=ExitCause.MASTER if alone else ExitCause.GROUP,
                message=message,
            )
        )
        self._signals.publish(ProgramGone(node, incarnation, ExitReason.KILLED, message))
        shown = {"exit_reason": ExitReason.KILLED.value} if alone else {}
        decisions = self._journal.do(
            self.book.program_recalled, node=node, incarnation=incarnation, message=message, **shown
        )
        self._apply(decisions)
        return next((d for d in decisions if isinstance(d, RestartProgram)), None)

    def must_register(self, node: str) -> bool:
        """Whether its agent, which is there, has not registered with this master: the node was taken over."""
        return self._get(node).state is NodeState.CREATING

    def heartbeat(self, node: str) -> tuple[bool, float, str]:
        """(is to stop, grace in seconds, why)."""
        record = self._get(node)
        self.book.heartbeat(node, self._clock.now())
        if record.ended:
            return True, 0.0, f"the master gave up on {node}: {record.message or record.state.value}"
        return record.removal is not None, record.removal_grace, record.removal or ""

    def check_run(self, node: str, incarnation: int) -> None:
        """Refuse a program that was given up or superseded by another run."""
        try:
            record = self.book.get(node)
        except NotFound:
            return  # a guest: a program that someone else launched
        if record.ended or incarnation < record.incarnation:
            raise Conflict(f"the master gave up on {node} (run {incarnation}); this program should exit")

    # --- changes of the running job

    def scale(self, role: str, replicas: int, reason: str, first: Sequence[str] = ()) -> None:
        before = self.book.role(role).spec.replicas
        chosen = {"first": list(first)} if first else {}
        decisions = self._journal.do(self.book.scale, role=role, replicas=replicas, reason=reason, **chosen)
        self._journal.event(RoleScaled(role=role, before=before, replicas=replicas, reason=reason))
        self._apply(decisions)

    def set_resources(self, role: str, resources: dict[str, Any], rollout: str = "", reason: str = "") -> None:
        """Of new nodes, and as ``rollout`` says of those that run already."""
        earlier = self.book.role(role)
        how = {"rollout": rollout, "reason": reason} if rollout else {}
        decisions = self._journal.do(self.book.set_resources, role=role, resources=resources, **how)
        self._refused_at.clear()
        begun = self.book.role(role).rollout
        if how and begun is not None and begun != earlier.rollout:
            self._journal.event(
                RolloutStarted(
                    role=role,
                    mode=begun.mode,
                    nodes=begun.total,
                    before=begun.before.to_json(),
                    resources=resources,
                    reason=reason,
                )
            )
        self._apply(decisions)

    def resize_problem(self, role: str, resources: Resources) -> str:
        """Why the running nodes of a role cannot be resized in place now; empty: they can."""
        wanted = [
            NodeResize(node.name, at_least(resources, node.memory_floor_mb))
            for node in self.book.active(role)
            if node.state is not NodeState.PENDING
        ]
        refused = self._scaler.check_resize(wanted)
        return f"{refused[0].node} cannot be resized in place: {refused[0].message}" if refused else ""

    def change(self, method: str, arguments: Mapping[str, Any]) -> None:
        """Carry out another operation of the book, which was tried on a copy of it."""
        self._apply(self._journal.do(getattr(self.book, method), **arguments))

    def stop_nodes(self, reason: str, grace: float | None = None) -> None:
        self._apply(self._journal.do(self.book.stop, reason=reason, grace=grace))

    # --- inside

    def _alive(self, event: NodeEvent) -> None:
        """The platform reports that a node is unschedulable, or was scheduled."""
        try:
            record = self.book.get(event.node)
        except PliantError:
            return
        waits = record.waiting_since is not None
        if event.unschedulable and not record.ended and not (waits and record.message == event.unschedulable):
            if not waits:
                self._journal.event(NodeUnschedulable(node=event.node, reason=event.unschedulable))
            self._apply(self._journal.do(self.book.unschedulable, node=event.node, message=event.unschedulable))
        elif not event.unschedulable and waits and record.state is NodeState.CREATING:
            self._journal.event(NodeScheduled(node=event.node))
            self._apply(self._journal.do(self.book.room_found, node=event.node))

    def _ended(self, event: NodeEvent) -> None:
        try:
            record = self.book.get(event.node)
        except PliantError:
            log.warning("the platform reports %s, which is not a node of this job", event.node)
            return
        if record.gone:
            return
        if not record.ended:
            kind, message = event.exit_reason, event.message
            if record.removal is not None:
                kind, message = end_of_removed(record, kind, message)
            self._journal.event(NodeEnded(node=event.node, exit_reason=kind, message=message))
            self._signals.publish(ProgramGone(event.node, None, event.exit_reason, event.message))
        self._apply(
            self._journal.do(
                self.book.node_ended,
                node=event.node,
                exit_reason=event.exit_reason.value,
                message=event.message,
                host=event.host,
                **self._peak_of(event.node),
            )
        )

    def _peak_of(self, node: str, measured_mb: int = 0) -> dict[str, Any]:
        """For the journal. An agent knows more: its samples go back to before this master started."""
        peak = max(int(self._peak_memory(node)), measured_mb)
        return {"peak_mb": peak} if peak else {}

    def _about(self, permanent: PermanentKind) -> dict[str, Any]:
        """What the decision on a permanent error depends on, for the journal."""
        return {
            "permanent": permanent.value,
            "progress": int(self._progress()),
            "single_machine": self._is_single_machine,
        }

    def _apply(self, decisions: Iterable[Decision]) -> None:
        """Launches and removals are found in the book by ``tick``; here they are only noted as events."""
        for decision in decisions:
            match decision:
                case Launch(node=node, reason=reason):
                    replaced = self.book.get(node).replaces or ""
                    self._journal.event(NodeLaunched(node=node, reason=reason, replaces=replaced))
                case RestartProgram(node=node, incarnation=incarnation, delay=delay, reason=reason):
                    self._journal.event(
                        ProgramRestarted(node=node, incarnation=incarnation, delay_s=delay, reason=reason)
                    )
                case FailJob(node=node, exit_reason=exit_reason, reason=reason):
                    self._journal.event(NodeGivenUp(node=node, exit_reason=exit_reason, reason=reason))
                case Remove(node=node, grace=grace, reason=reason):
                    self._journal.event(NodeRemoved(node=node, grace_s=grace, reason=reason))
        self._signals.publish(NodesChanged(self.book))


def _exit_event(node: Node, exit_reason: ExitReason, message: str) -> ProgramExited:
    cause = ExitCause.OWN
    if node.removal is not None:
        cause = ExitCause.REMOVAL
        exit_reason, message = end_of_removed(node, exit_reason, message)
    return ProgramExited(
        node=node.name, incarnation=node.incarnation, exit_reason=exit_reason, cause=cause, message=message
    )
