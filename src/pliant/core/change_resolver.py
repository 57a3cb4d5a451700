"""Decides on a request for changes: tries it on a copy of the job's state, and says which operations carry it out.

The state machines are functions of their operations, so what the copy accepted the job's own state accepts too: a request is
carried out as a whole or refused as a whole. Nothing is changed here; ``master/components/changes.py`` carries it out.

Parameter servers: a server that is to leave first moves what it has to the others (its seat *leaves*; the node is removed
when the seat is empty, by ``master/components/server_pool.py``), so nothing may take such a node away before.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from pliant.core.changes import (
    Answer,
    AssignSeats,
    Change,
    ChangeRequest,
    DesiredJob,
    MovePartitions,
    RemoveNode,
    ReplaceNode,
    RequestSource,
    Resume,
    Scale,
    SetLimits,
    SetResources,
    Stop,
    Suspend,
)
from pliant.core.end_policy import PARAMETER_SERVER
from pliant.core.errors import Conflict, InvalidRequest, NotAvailable, PliantError
from pliant.core.job import Phase
from pliant.core.job_state import JobState, Operation
from pliant.core.nodes.book import NodeBook
from pliant.core.parameters.book import ParameterBook
from pliant.core.plurals import counted
from pliant.core.rendezvous.book import RendezvousBook
from pliant.core.resources import RolloutMode


@dataclass(frozen=True, slots=True)
class Resolved:
    """One change that can be carried out: by these operations, in this order."""

    change: Change
    operations: tuple[Operation, ...]
    results: dict[str, float]  # numbers for whoever asked


@dataclass(frozen=True, slots=True)
class Decision:
    """On a request: its answer, and all that carries it out."""

    answer: Answer
    changes: tuple[Resolved, ...] = ()
    record: Operation | None = None  # of the answer; None: there is nothing to remember
    is_repeated: bool = False  # it was decided before

    @property
    def has_effect(self) -> bool:
        return any(change.operations for change in self.changes)


def decide(state: JobState, request: ChangeRequest, now: float, *, can_resize: bool = False) -> Decision:
    """``state`` is only read. ``can_resize``: the platform can give a running node other resources."""
    desired = state.changes
    if desired is None:
        raise NotAvailable("this master does not accept change requests")
    if request.id and (first := desired.answer_to(request.id)) is not None:
        return Decision(first, is_repeated=True)
    try:
        changes = resolve(state, desired.changes_of(request), request.reason, now, can_resize=can_resize)
    except PliantError as error:
        answer = Answer.refused(error, desired.version)
        return Decision(answer, record=_record(request, answer, now) if request.id else None)
    has_effect = any(change.operations for change in changes)
    results = {name: value for change in changes for name, value in change.results.items()}
    answer = Answer(request.problem, results=results, version=desired.version + has_effect)
    remembered = desired.desired_by(request) if request.desired is not None else None
    record = (
        _record(request, answer, now, desired=remembered, has_effect=has_effect) if request.id or has_effect else None
    )
    return Decision(answer, changes, record)


def apply_request(state: JobState, request: ChangeRequest, now: float) -> Answer:
    """Decide on a request and carry it out at once; for a state without a master, such as that of a simulation."""
    decision = decide(state, request, now)
    for change in decision.changes:
        for operation in change.operations:
            state.apply(operation)
    if decision.record is not None:
        state.apply(decision.record)
    return decision.answer


def _record(
    request: ChangeRequest,
    answer: Answer,
    now: float,
    *,
    desired: DesiredJob | None = None,
    has_effect: bool = False,
) -> Operation:
    arguments: dict[str, Any] = {"request": request.id, "answer": answer.to_json()}
    if desired is not None:
        arguments["desired"] = desired.to_json()
    if has_effect and request.source is not RequestSource.EDIT:
        arguments["plan"] = {"name": request.id, "reason": request.reason}
    return Operation("changes", "answered", now, arguments)


def resolve(
    state: JobState, changes: tuple[Change, ...], reason: str, now: float, *, can_resize: bool = False
) -> tuple[Resolved, ...]:
    """Raises what is wrong with them, all together; ``state`` is only read."""
    trial = _Trial(_copy(state), now, reason, can_resize)
    return tuple(trial.resolve(change) for change in changes)


def _results_of(role: str, **numbers: float) -> dict[str, float]:
    """One request may change several roles."""
    return {f"{role}.{name}": float(number) for name, number in numbers.items()}


def _copy(state: JobState) -> JobState:
    """Of what changes can touch."""
    return JobState(
        job=deepcopy(state.job),
        nodes=state.nodes.copy() if state.nodes is not None else None,
        parameters=state.parameters.trial() if state.parameters is not None else None,
        rendezvous=deepcopy(state.rendezvous),
    )


class _Trial:
    """A copy of the state to which each change is applied in turn."""

    def __init__(self, state: JobState, now: float, reason: str, can_resize: bool) -> None:
        self._can_resize = can_resize
        self._state = state
        self._now = now
        self._reason = reason
        self._operations: list[Operation] = []

    def resolve(self, change: Change) -> Resolved:
        self._operations = []
        results = self._apply(change)
        return Resolved(change, tuple(self._operations), results)

    def _apply(self, change: Change) -> dict[str, float]:
        reason = self._reason or f"requested: {change}"
        match change:
            case Scale():
                return self._scale(change, self._reason or "requested manually")
            case SetLimits(role, least, most):
                self._check_limits(change)
                self._nodes("set_limits", role=role, min_replicas=least, max_replicas=most)
            case SetResources():
                return self._set_resources(change)
            case ReplaceNode(node, resources):
                asked = resources.to_json() if resources is not None else None
                self._nodes("replace", node=node, resources=asked, reason=reason)
            case RemoveNode(node):
                self._check_removable(node)
                self._nodes("remove", node=node, reason=reason)
            case Suspend():
                self._nodes("suspend", reason=reason)
            case Resume():
                self._nodes("resume", reason=reason)
            case Stop():
                self._stop(change)
            case MovePartitions(node, share):
                return self._move(node, share)
            case AssignSeats(seats):
                return self._assign(seats)
        return {}

    # --- the kinds that need more than one call

    def _scale(self, change: Scale, reason: str) -> dict[str, float]:
        spec = self._book().role(change.role).spec
        parameters = self._state.parameters if change.role == PARAMETER_SERVER else None
        if parameters is None:
            self._nodes("scale", role=change.role, replicas=change.replicas, reason=reason)
            return _results_of(change.role, before=spec.replicas, now=change.replicas)
        if self._state.job.over:
            raise Conflict("the job has ended and cannot be scaled")
        replace(spec, replicas=change.replicas).check()
        role = self._book().role(change.role)
        if role.surge or (role.rollout is not None and role.rollout.seat is not None):
            raise Conflict(
                "a parameter server is being replaced to change its resources",
                hint="try again after its partitions have moved (see `pliant status`)",
            )
        staying = sum(not seat.leaving for seat in parameters.seats())
        self._do("parameters", "resize", seats=change.replicas)
        if change.replicas > spec.replicas:
            self._nodes("scale", role=change.role, replicas=change.replicas, reason=reason)
        return _results_of(change.role, before=staying, now=change.replicas)

    def _set_resources(self, change: SetResources) -> dict[str, float]:
        """Results: how many running nodes get other resources, and whether they do in place."""
        mode = change.rollout
        if mode is RolloutMode.AUTO:
            mode = RolloutMode.IN_PLACE if self._can_resize else RolloutMode.ROLLING
        if mode is RolloutMode.IN_PLACE and not self._can_resize:
            raise NotAvailable(
                "this platform cannot change the resources of a running node",
                hint="use --rolling (rollout: rolling) to replace its nodes one by one",
            )
        book = self._book()
        if mode is not RolloutMode.NEW_NODES and (self._state.job.over or book.closed):
            raise Conflict("the job is ending; its resources cannot be changed")
        role = change.role
        how = {"rollout": mode.value, "reason": self._reason} if mode is not RolloutMode.NEW_NODES else {}
        self._nodes("set_resources", role=role, resources=change.resources.to_json(), **how)
        return _results_of(role, outdated=len(book.outdated(role)), in_place=mode is RolloutMode.IN_PLACE)

    def _stop(self, change: Stop) -> None:
        reason = self._reason or "stopped by the user"
        if not self._state.job.over:
            phase = Phase.FAILED if change.failed else Phase.STOPPED
            self._do("job", "end", phase=phase.value, reason=reason)
            if self._state.nodes is not None:
                self._nodes("stop", reason=reason, grace=None)
        if change.at_once and self._state.nodes is not None:
            self._nodes("stop", reason=reason, grace=0.0)

    def _move(self, node: str, share: float) -> dict[str, float]:
        parameters = self._parameters()
        if self._state.job.over:
            raise Conflict("the job has ended; partitions cannot be moved")
        seat = self._do("parameters", "set_share", seat=parameters.seat_of(node).number, share=share)
        count = len(parameters.map.partitions_of(seat.number))
        return {"seat": seat.number, "partitions": count, "weight": seat.weight}

    def _assign(self, seats: Mapping[str, int]) -> dict[str, float]:
        """Results: N, and what each worker hosts once its world is formed."""
        rendezvous = self._rendezvous()
        if self._state.job.over:
            raise Conflict("the job has ended; virtual workers cannot be assigned")
        self._do("rendezvous", "assign_seats", seats=dict(seats))
        assigned = {f"{node}.seats": float(count) for node, count in rendezvous.assigned_seats().items()}
        return {"virtual_workers": float(rendezvous.virtual_workers), **assigned}

    # --- what would take a parameter server away before it moved what it has

    def _check_limits(self, change: SetLimits) -> None:
        if self._state.parameters is None or change.role != PARAMETER_SERVER:
            return
        count = len(self._book().active(PARAMETER_SERVER)) - self._book().role(PARAMETER_SERVER).surge
        if not change.min_replicas <= count <= change.max_replicas:
            limits = f"{change.min_replicas} to {change.max_replicas}"
            raise InvalidRequest(f"role {change.role} has {counted(count, 'node')} now, which is outside {limits}")

    def _check_removable(self, node: str) -> None:
        servers = self._book().active(PARAMETER_SERVER) if self._state.parameters is not None else []
        if any(server.name == node for server in servers):
            raise InvalidRequest(
                f"{node} holds parameters: scale down the role {PARAMETER_SERVER} instead, which removes its newest node"
            )

    # --- inside

    def _book(self) -> NodeBook:
        if self._state.nodes is None:
            raise NotAvailable("this master does not manage nodes", hint="start it with --need-pod-manager")
        return self._state.nodes

    def _parameters(self) -> ParameterBook:
        if self._state.parameters is None:
            raise NotAvailable("this job has no parameter servers", hint="start it with strategy ps-sync or ps-async")
        return self._state.parameters

    def _rendezvous(self) -> RendezvousBook:
        if self._state.rendezvous is None:
            raise NotAvailable(
                "this job has no virtual workers: its workers do not train in one world",
                hint="start it with strategy allreduce",
            )
        return self._state.rendezvous

    def _nodes(self, method: str, **arguments: Any) -> Any:
        self._book()
        return self._do("nodes", method, **arguments)

    def _do(self, machine: str, method: str, **arguments: Any) -> Any:
        operation = Operation(machine, method, self._now, arguments)
        result = self._state.apply(operation)
        self._operations.append(operation)
        return result
