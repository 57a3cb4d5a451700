"""The one path for requests to change the running job: of people, of the platform, of a generator.

The shell around ``core.changes.DesiredState``. ``core.change_resolver`` decides by a copy of the job's state, so a request is
carried out as a whole or refused as a whole; the operations, the answer and the events are noted without an ``await`` in
between and reach the disk together. An answer leaves once it is on disk.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from pliant.core.change_resolver import Decision, Resolved, decide
from pliant.core.changes import Answer, ChangeRequest, DesiredState, MovePartitions, Resume, SetResources, Stop, Suspend
from pliant.core.clock import Clock
from pliant.core.errors import PliantError
from pliant.core.events import ChangeAccepted, ChangeNoted, ChangeRefused, ChangesUnavailable
from pliant.core.job_state import JobState, Operation
from pliant.core.resources import RolloutMode
from pliant.core.status_builder import LiveFigures
from pliant.master.components.base import BackgroundComponent
from pliant.master.components.nodes import NodeManager
from pliant.master.components.parameters.coordinator import ParameterCoordinator
from pliant.master.components.rendezvous import RendezvousServer
from pliant.master.components.signals import ChangeApplied, EndRequested, NodesChanged, SignalBus
from pliant.master.journal.journal import Journal
from pliant.platforms.base import ControlChannel

log = logging.getLogger(__name__)

ABOUT_THE_JOB = (Stop, Suspend, Resume)  # changes that leave its configuration as it is
RECONNECT_S = 30.0  # before another try to read requests from the platform


class ChangeHandler(BackgroundComponent):
    name = "changes"
    title = "handler of change requests"

    def __init__(
        self,
        state: JobState,
        desired: DesiredState,
        journal: Journal,
        clock: Clock,
        signals: SignalBus,
        *,
        nodes: NodeManager | None,
        parameters: ParameterCoordinator | None,
        rendezvous: RendezvousServer | None = None,
        channel: ControlChannel | None = None,
    ) -> None:
        """``channel``: where people on the platform ask for changes; others call the master."""
        super().__init__()
        self.desired = desired
        self._state = state
        self._journal = journal
        self._clock = clock
        self._signals = signals
        self._nodes = nodes
        self._parameters = parameters
        self._rendezvous = rendezvous
        self._channel = channel
        self.refusal = ""  # of the last edit, or what was made of it, until another is handled

    async def start(self) -> None:
        if self._channel is not None:
            self.run_beside(self._follow(self._channel))

    def status(self, live: LiveFigures) -> LiveFigures:
        return replace(live, refusal=self.refusal)

    def handle(self, request: ChangeRequest) -> Answer:
        """Carry it out or refuse it; wait for ``Journal.durable`` before the answer is sent."""
        can_resize = self._nodes is not None and self._nodes.can_resize
        if can_resize and (problem := self._resize_problem(request)):
            request = replace(request, problem=problem)
        decision = decide(self._state, request, self._clock.now(), can_resize=can_resize)
        if decision.record is None or decision.is_repeated:
            return decision.answer
        self._note(request, decision)
        for found in decision.changes:
            self._execute(found, request.reason)
        if decision.has_effect and self._nodes is not None:
            self._signals.publish(NodesChanged(self._nodes.book))
        self._journal.do(self.desired.answered, **decision.record.arguments)
        if any(found.operations and not isinstance(found.change, ABOUT_THE_JOB) for found in decision.changes):
            self._signals.publish(ChangeApplied(request.source, request.reason))
        return decision.answer

    async def _follow(self, channel: ControlChannel) -> None:
        """Handle what comes by the platform, for ever. A platform that does not answer is no reason to stop training."""
        while True:
            try:
                async for request in channel.requests():
                    await self._handle_of_platform(request, channel)
            except PliantError as error:
                log.error("cannot read change requests: %s", error)
                self._journal.event(ChangesUnavailable(reason=error.message))
            await asyncio.sleep(RECONNECT_S)

    async def _handle_of_platform(self, request: ChangeRequest, channel: ControlChannel) -> None:
        is_new = self.desired.answer_to(request.id) is None
        answer = self.handle(request)
        if is_new and request.desired is not None:
            self.refusal = answer.refusal or request.note
        await self._journal.durable()
        if is_new and not answer.refusal:
            await channel.applied(request)
        await channel.answer(request, answer.refusal)

    # --- inside

    def _note(self, request: ChangeRequest, decision: Decision) -> None:
        """For people."""
        name, source = request.id, request.source
        if decision.has_effect:
            changes = tuple(str(found.change) for found in decision.changes)
            self._journal.event(ChangeAccepted(request=name, source=source, reason=request.reason, changes=changes))
        if decision.answer.refusal:
            self._journal.event(ChangeRefused(request=name, source=source, reason=decision.answer.refusal))
        if request.note:
            self._journal.event(ChangeNoted(request=name, note=request.note))

    def _resize_problem(self, request: ChangeRequest) -> str:
        """What the platform says against resources that running nodes are to get in place, as it is now."""
        assert self._nodes is not None
        in_place = (RolloutMode.AUTO, RolloutMode.IN_PLACE)
        try:
            asked = [
                c for c in self.desired.changes_of(request) if isinstance(c, SetResources) and c.rollout in in_place
            ]
            problems = [self._nodes.resize_problem(change.role, change.resources) for change in asked]
        except PliantError:
            return ""  # it is refused for another reason
        problem = next(filter(None, problems), "")
        return f"{problem}; use --rolling (rollout: rolling) to replace the nodes one by one" if problem else ""

    def _execute(self, found: Resolved, reason: str) -> None:
        match found.change:
            case Stop(at_once, failed):
                self._signals.publish(EndRequested(reason or "stopped by the user", at_once, failed))
            case MovePartitions(node, share):
                assert self._parameters is not None
                self._parameters.move_off(node, share, reason)
            case _:
                for operation in found.operations:
                    self._execute_operation(operation)

    def _execute_operation(self, operation: Operation) -> None:
        match operation.machine, operation.method:
            case "parameters", "resize":
                assert self._parameters is not None
                self._parameters.resize(**operation.arguments)
            case "rendezvous", "assign_seats":
                assert self._rendezvous is not None
                self._rendezvous.assign_seats(**operation.arguments)
            case "nodes", "scale":
                assert self._nodes is not None
                self._nodes.scale(**operation.arguments)
            case "nodes", "set_resources":
                assert self._nodes is not None
                self._nodes.set_resources(**operation.arguments)
            case "nodes", method:
                assert self._nodes is not None
                self._nodes.change(method, operation.arguments)
            case other:
                raise AssertionError(f"no component handles {other}")
