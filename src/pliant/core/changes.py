"""Requests to change a running job, and the desired state that they lead to.

Whoever wants something of a running job says it by a ``ChangeRequest``: a person at the command line, an edit of the
ElasticJob (``kubectl scale``, ``kubectl edit``), a person's ScalePlan, or a ``ResourceGenerator`` by its ``ResourcePlan``.
A request is a list of typed *changes*, or (an edit) the whole of what is *desired* now; of that only what differs from
the edit before is a change, so what the master decided meanwhile stays unless somebody touched just that. All changes are
absolute (a number, an amount, a name).

``core/change_resolver.py`` checks a request on a copy of the job's state; ``master/components/changes.py`` carries it out.
``DesiredState`` is the journaled part: the version, what the last edit desired, and the answer to each request that has an
id: a request that is sent again gets its first answer and has no second effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from pliant.core import errors
from pliant.core.errors import Conflict, InvalidRequest, PermanentError, PliantError
from pliant.core.planning.plan import ResourcePlan
from pliant.core.plurals import counted
from pliant.core.resources import Resources, RolloutMode
from pliant.core.state_machine import StateMachine

MAX_ANSWERS = 500  # that are remembered


class RequestSource(StrEnum):
    """Who asks."""

    PERSON = "person"  # by the command line or the API
    EDIT = "edit"  # of the ElasticJob: kubectl scale, kubectl edit, kubectl apply
    SCALE_PLAN = "scale-plan"  # that a person wrote
    GENERATOR = "generator"


# --- changes


@dataclass(frozen=True, slots=True)
class SetLimits:
    role: str
    min_replicas: int
    max_replicas: int

    def __str__(self) -> str:
        return f"{self.role}: {self.min_replicas} to {counted(self.max_replicas, 'node')}"


@dataclass(frozen=True, slots=True)
class SetResources:
    """Of nodes launched from now on, and as ``rollout`` says of those that run already."""

    role: str
    resources: Resources
    rollout: RolloutMode = RolloutMode.NEW_NODES

    def __str__(self) -> str:
        which = "new node" if self.rollout is RolloutMode.NEW_NODES else "node"
        how = f", {self.rollout.value}" if self.rollout in (RolloutMode.IN_PLACE, RolloutMode.ROLLING) else ""
        return f"{self.role}: {self.resources} for each {which}{how}"


@dataclass(frozen=True, slots=True)
class Scale:
    role: str
    replicas: int

    def __str__(self) -> str:
        return f"{self.role}: {counted(self.replicas, 'node')}"


@dataclass(frozen=True, slots=True)
class ReplaceNode:
    node: str
    resources: Resources | None = None  # of the new node; None: as the old one

    def __str__(self) -> str:
        return f"replace {self.node}"


@dataclass(frozen=True, slots=True)
class RemoveNode:
    """The role has one node less."""

    node: str

    def __str__(self) -> str:
        return f"remove {self.node}"


@dataclass(frozen=True, slots=True)
class Suspend:
    def __str__(self) -> str:
        return "suspend the job"


@dataclass(frozen=True, slots=True)
class Resume:
    def __str__(self) -> str:
        return "resume the job"


@dataclass(frozen=True, slots=True)
class Stop:
    at_once: bool = False  # without grace for its programs
    failed: bool = False  # the job ends as Failed, not as Stopped

    def __str__(self) -> str:
        return "stop the job immediately" if self.at_once else "stop the job"


@dataclass(frozen=True, slots=True)
class MovePartitions:
    """This share of what a parameter server has moves to the others."""

    node: str
    share: float

    def __str__(self) -> str:
        return f"move {self.share:.0%} of the parameters of {self.node} to other servers"


@dataclass(frozen=True, slots=True)
class AssignSeats:
    """Virtual workers that each worker of an allreduce job hosts, by name; the sum stays N. Empty: evenly."""

    seats: Mapping[str, int]

    def __str__(self) -> str:
        if not self.seats:
            return "host virtual workers evenly"
        shown = sorted(self.seats.items(), key=lambda item: (len(item[0]), item[0]))  # worker-10 after worker-9
        return f"host virtual workers: {', '.join(f'{count} on {node}' for node, count in shown)}"


Change: TypeAlias = (
    SetLimits | SetResources | Scale | ReplaceNode | RemoveNode | Suspend | Resume | Stop | MovePartitions | AssignSeats
)


# --- requests


@dataclass(frozen=True, slots=True)
class DesiredRole:
    min_replicas: int
    max_replicas: int
    replicas: int
    resources: Resources

    def to_json(self) -> dict[str, Any]:
        return {
            "min_replicas": self.min_replicas,
            "max_replicas": self.max_replicas,
            "replicas": self.replicas,
            "resources": self.resources.to_json(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> DesiredRole:
        return cls(**{**value, "resources": Resources.from_json(value["resources"])})


@dataclass(frozen=True, slots=True)
class DesiredJob:
    """Of a job's description, all that may change while it runs."""

    roles: Mapping[str, DesiredRole] = field(default_factory=dict)
    suspend: bool = False

    def changes_from(self, before: DesiredJob) -> tuple[Change, ...]:
        """Limits come before numbers, so that both may move at once."""
        changes: list[Change] = []
        for name, role in self.roles.items():
            old = before.roles.get(name)
            if old is None or (role.min_replicas, role.max_replicas) != (old.min_replicas, old.max_replicas):
                changes.append(SetLimits(name, role.min_replicas, role.max_replicas))
            if old is None or role.resources != old.resources:
                changes.append(SetResources(name, role.resources, RolloutMode.AUTO))
            if old is None or role.replicas != old.replicas:
                changes.append(Scale(name, role.replicas))
        if self.suspend != before.suspend:
            changes.append(Suspend() if self.suspend else Resume())
        return tuple(changes)

    def to_json(self) -> dict[str, Any]:
        return {"roles": {name: role.to_json() for name, role in self.roles.items()}, "suspend": self.suspend}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> DesiredJob:
        return cls({name: DesiredRole.from_json(role) for name, role in value["roles"].items()}, value["suspend"])


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    id: str  # empty: nobody will send it again
    source: RequestSource
    changes: tuple[Change, ...] = ()
    reason: str = ""  # for people
    desired: DesiredJob | None = None  # an edit: instead of changes
    base_version: int | None = None  # of the desired state that it was made for; None: of any
    problem: str = ""  # why it cannot be used; of an edit, a suspension still can
    note: str = ""  # what was made of it, for people
    by_master: bool = False  # an edit by which the master itself wrote down what it had decided


def plan_request(plan: ResourcePlan, source: RequestSource = RequestSource.GENERATOR) -> ChangeRequest:
    """Resources come before nodes, so that new ones have them."""
    changes: list[Change] = []
    for role, wanted in plan.roles.items():
        if wanted.resources is not None:
            changes.append(SetResources(role, wanted.resources, wanted.rollout))
        if wanted.replicas is not None:
            changes.append(Scale(role, wanted.replicas))
    for replacement in plan.replace:
        changes.append(ReplaceNode(replacement.node, replacement.resources or _of_role(plan, replacement.node)))
    changes += [MovePartitions(node, share) for node, share in plan.moves.items()]
    if plan.seats:
        changes.append(AssignSeats(dict(plan.seats)))
    problem = (
        "the micro-batch of a running job cannot be changed: it is part of its training" if plan.micro_batch else ""
    )
    return ChangeRequest(plan.id, source, tuple(changes), plan.reason, base_version=plan.base_version, problem=problem)


def _of_role(plan: ResourcePlan, node: str) -> Resources | None:
    role = plan.roles.get(node.rpartition("-")[0])
    return role.resources if role is not None else None


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request: carried out as a whole, or refused as a whole."""

    refusal: str = ""  # empty: it was carried out
    hint: str = ""
    error: str = ""  # the name of the error that a caller gets
    results: Mapping[str, float] = field(default_factory=dict)  # numbers for the caller, by name
    version: int = 0  # of the desired state, after it

    @classmethod
    def refused(cls, error: PliantError, version: int) -> Answer:
        return cls(error.message, error.hint, type(error).__name__, version=version)

    def check(self) -> None:
        """Raise the refusal, if it is one."""
        if self.refusal:
            kind = getattr(errors, self.error, PermanentError)
            raise kind(self.refusal, hint=self.hint)

    def to_json(self) -> dict[str, Any]:
        return {
            "refusal": self.refusal,
            "hint": self.hint,
            "error": self.error,
            "results": dict(self.results),
            "version": self.version,
        }


@dataclass(frozen=True, slots=True)
class AppliedPlan:
    """A plan that changed the job: of a generator, of a person by command, or a person's ScalePlan."""

    name: str
    reason: str
    time: float


# --- the journaled state


class DesiredState(StateMachine):
    def __init__(self, desired: DesiredJob) -> None:
        """``desired``: as the job was described when it began."""
        self.version = 1
        self._desired = desired
        self._answers: dict[str, Answer] = {}
        self.last_plan: AppliedPlan | None = None

    def answer_to(self, request: str) -> Answer | None:
        """The answer that a request got; None: it is new."""
        return self._answers.get(request)

    def changes_of(self, request: ChangeRequest) -> tuple[Change, ...]:
        """What a request asks for. Only reads; raises if it cannot be used or was made for another state."""
        if request.base_version is not None and request.base_version != self.version:
            raise Conflict(
                f"the request is based on version {request.base_version} of the job, but the job is at version {self.version}",
                hint="read the job's status and send the request again",
            )
        if request.desired is None:
            if request.problem:
                raise InvalidRequest(request.problem)
            return request.changes
        if request.by_master:
            return ()
        return self.desired_by(request).changes_from(self._desired)

    def desired_by(self, request: ChangeRequest) -> DesiredJob:
        """What later edits are compared with, once this request is carried out."""
        if request.desired is None:
            return self._desired
        if request.problem:  # a mistake elsewhere must not keep anybody from suspending the job
            return DesiredJob(self._desired.roles, request.desired.suspend)
        return request.desired

    # --- operations

    def answered(
        self,
        now: float,
        *,
        request: str,
        answer: dict[str, Any],
        desired: dict[str, Any] | None = None,
        plan: dict[str, str] | None = None,
    ) -> None:
        """A request was carried out (``desired``: and is what later edits are compared with), or refused.

        ``plan``: the name and the reason of a plan that changed the job.
        """
        found = Answer(**answer)
        if request:
            self._answers = dict([*self._answers.items(), (request, found)][-MAX_ANSWERS:])
        if desired is not None:
            self._desired = DesiredJob.from_json(desired)
        if plan is not None:
            self.last_plan = AppliedPlan(plan["name"], plan["reason"], now)
        self.version = found.version

    # --- as JSON

    def snapshot(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "desired": self._desired.to_json(),
            "answers": {request: answer.to_json() for request, answer in self._answers.items()},
            "last_plan": asdict(self.last_plan) if self.last_plan is not None else None,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.version = state["version"]
        self._desired = DesiredJob.from_json(state["desired"])
        self._answers = {request: Answer(**answer) for request, answer in state["answers"].items()}
        self.last_plan = AppliedPlan(**state["last_plan"]) if state["last_plan"] is not None else None
