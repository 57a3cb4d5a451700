"""The life of one node as data: its states, the one table of allowed changes, its record, and what can be decided.

``core/nodes/book.py`` is the state machine over these; ``core/nodes/fault_policy.py`` is the policy it asks after an exit.
Everything here is frozen: a change is a new record, so a reader's copy never changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from pliant.core.errors import InvalidRequest
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.nodes.permanent import PermanentKind
from pliant.core.resources import Resources, RolloutMode


class NodeState(StrEnum):
    PENDING = "Pending"  # decided, not yet accepted by the platform
    CREATING = "Creating"  # the platform accepted it
    RUNNING = "Running"  # its agent registered
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    DELETED = "Deleted"  # removed by the master


ENDED = frozenset({NodeState.SUCCEEDED, NodeState.FAILED, NodeState.DELETED})

# What is not here does not happen: an event that would need it is late or contradictory, and is ignored.
TRANSITIONS: Mapping[tuple[NodeState, NodeState], str] = {
    (NodeState.PENDING, NodeState.CREATING): "the platform accepted it",
    (NodeState.PENDING, NodeState.RUNNING): "its agent registered before the acceptance was recorded",
    (NodeState.PENDING, NodeState.SUCCEEDED): "it finished before the acceptance was recorded",
    (NodeState.PENDING, NodeState.FAILED): "the platform could not create it",
    (NodeState.PENDING, NodeState.DELETED): "no longer wanted",
    (NodeState.CREATING, NodeState.RUNNING): "its agent registered",
    (NodeState.CREATING, NodeState.SUCCEEDED): "it finished without registering",
    (NodeState.CREATING, NodeState.FAILED): "it ended, or never registered",
    (NodeState.CREATING, NodeState.DELETED): "removed by the master",
    (NodeState.RUNNING, NodeState.SUCCEEDED): "its program finished",
    (NodeState.RUNNING, NodeState.FAILED): "its program or the node itself failed",
    (NodeState.RUNNING, NodeState.DELETED): "removed by the master",
}


@dataclass(frozen=True, slots=True)
class RoleSpec:
    """The desired state of one role. ``replicas`` counts nodes that are to run or have finished."""

    name: str
    min_replicas: int
    max_replicas: int
    replicas: int
    resources: Resources = field(default_factory=Resources)
    min_resources: Resources = field(default_factory=Resources)  # zero in a field: that is never reduced
    critical: bool = False  # the final failure of one node fails the job
    reports_progress: bool = False  # its programs are watched for progress, from their start on
    high_share: float = 0.0  # the part of the target, rounded up, that gets the high priority

    def check(self) -> None:
        """Raise InvalidRequest, naming the limits, if this cannot be."""
        if not 0 <= self.min_replicas <= self.max_replicas:
            limits = f"min_replicas {self.min_replicas} and max_replicas {self.max_replicas}"
            raise InvalidRequest(f"role {self.name}: {limits} allow no value")
        if not self.min_replicas <= self.replicas <= self.max_replicas:
            limits = f"{self.min_replicas} to {self.max_replicas}"
            raise InvalidRequest(f"role {self.name}: {self.replicas} replicas requested; allowed: {limits}")


@dataclass(frozen=True, slots=True)
class Node:
    """One node. Its *line* is the chain of replacements it belongs to, which shares the budgets of failures."""

    name: str
    role: str
    number: int
    lineage: str  # name of the first node of the line
    resources: Resources
    reason: str  # why it is launched
    created_at: float  # decided
    relaunch_at: float  # not handed to the platform before
    replaces: str | None = None
    state: NodeState = NodeState.PENDING
    failures: Mapping[str, int] = field(default_factory=dict)  # of the line so far, by kind
    memory_floor_mb: int = 0  # the line ran out of memory with less
    accepted_at: float | None = None
    started_at: float | None = None  # its agent registered
    ended_at: float | None = None
    exit_reason: ExitReason | None = None
    message: str = ""
    agent_pid: int | None = None
    host: str = ""
    pid: int | None = None  # of the program; None: none is known to run
    incarnation: int = 0  # number of the program's run on this node
    restarts: int = 0  # in place
    restart_delay: float = 0.0  # of the last restart in place, to answer a repeated report alike
    restart_reason: str = ""
    waiting_since: float | None = None  # unschedulable since
    refusals: int = 0
    shrunk_at: float | None = None
    removal: str | None = None  # why it is being removed; None: it is not
    removal_grace: float = 0.0
    gone: bool = False  # the platform reports that nothing of it is left
    address: str = ""  # where others reach it, reported by its agent
    high_priority: bool = False
    parked: bool = False  # removed by a suspension or a stop: its line continues when the job is resumed
    resources_version: int = 0  # of the role's resources that it has, or was launched for
    permanent: PermanentKind | None = None  # the error that it ended with, if a restart would not help
    peak_mb: int = 0  # of the memory that its programs held; 0: it was not measured, or they have not ended

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def lingers(self) -> bool:
        """It ended, and the platform has not reported yet that nothing of it is left."""
        return self.ended and self.accepted_at is not None and not self.gone

    @property
    def is_active(self) -> bool:
        """It counts towards the role's replicas: not ended, and not being removed."""
        return not self.ended and self.removal is None

    def may_become(self, state: NodeState) -> bool:
        return (self.state, state) in TRANSITIONS

    def launch(self) -> Launch:
        return Launch(
            self.name, self.role, self.resources, self.relaunch_at, self.reason, high_priority=self.high_priority
        )

    def restart(self) -> RestartProgram:
        return RestartProgram(self.name, self.incarnation, self.restart_delay, self.restart_reason)

    def to_json(self) -> dict[str, Any]:
        typed = {
            "state": self.state.value,
            "exit_reason": self.exit_reason.value if self.exit_reason else None,
            "resources": self.resources.to_json(),
            "failures": dict(self.failures),
            "permanent": self.permanent.value if self.permanent else None,
        }
        return {name: getattr(self, name) for name in self.__slots__} | typed

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Node:
        reason = value["exit_reason"]
        typed = {
            "state": NodeState(value["state"]),
            "exit_reason": ExitReason(reason) if reason else None,
            "resources": Resources.from_json(value["resources"]),
            "failures": dict(value["failures"]),
            "permanent": PermanentKind(value["permanent"]) if value["permanent"] else None,
        }
        return cls(**{**value, **typed})


@dataclass(frozen=True, slots=True)
class Rollout:
    """Of new resources to the nodes of a role that run already; see ``core/nodes/rollout.py``."""

    mode: RolloutMode  # never AUTO
    before: Resources  # of the role
    total: int  # nodes that had something else when it began
    reason: str
    started_at: float
    seat: int | None = None  # of the parameter server whose partitions are moving to the others

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "mode": self.mode.value}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Rollout:
        typed = {"mode": RolloutMode(value["mode"]), "before": Resources.from_json(value["before"])}
        return cls(**{**value, **typed})


@dataclass(frozen=True, slots=True)
class RoleState:
    """The current state of a role: ``spec.replicas`` is its target, ``note`` says why."""

    spec: RoleSpec
    note: str = "initial state"
    next_number: int = 0
    succeeded: int = 0  # lines that finished; each still counts towards the target
    given_up: int = 0  # lines whose budget is used up
    at_zero_since: float | None = None  # somebody asked for no nodes then; the role waits to be scaled up
    resources_version: int = 0  # rises whenever the resources of the role are set
    rollout: Rollout | None = None  # None: every node has what it should
    surge: int = 0  # nodes beyond the target while one is replaced, as in a Deployment: 0 or 1

    @property
    def target(self) -> int:
        """How many nodes there should be now, finished ones included."""
        return self.spec.replicas + self.surge

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "rollout": self.rollout.to_json() if self.rollout else None}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RoleState:
        spec = dict(value["spec"])
        for key in ("resources", "min_resources"):
            spec[key] = Resources.from_json(spec[key])
        rollout = value.get("rollout")
        return cls(**{**value, "spec": RoleSpec(**spec), "rollout": Rollout.from_json(rollout) if rollout else None})


@dataclass(frozen=True, slots=True)
class Launch:
    """Hand this node to the platform, not earlier than ``not_before``."""

    node: str
    role: str
    resources: Resources
    not_before: float
    reason: str
    high_priority: bool = False
    avoid_hosts: tuple[str, ...] = ()  # machines on which nodes of this job keep failing


@dataclass(frozen=True, slots=True)
class Remove:
    """Have the platform end this node: SIGTERM, and SIGKILL after ``grace`` seconds."""

    node: str
    grace: float
    reason: str


@dataclass(frozen=True, slots=True)
class RestartProgram:
    """The agent of this node restarts the program, as run ``incarnation``, after ``delay`` seconds."""

    node: str
    incarnation: int
    delay: float
    reason: str


@dataclass(frozen=True, slots=True)
class FailJob:
    """The job fails. Nothing is launched from here on; the shell stops what is left."""

    reason: str
    node: str
    exit_reason: ExitReason

    def to_json(self) -> dict[str, Any]:
        return {"reason": self.reason, "node": self.node, "exit_reason": self.exit_reason.value}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FailJob:
        return cls(value["reason"], value["node"], ExitReason(value["exit_reason"]))


Decision = Launch | Remove | RestartProgram | FailJob


@dataclass(frozen=True, slots=True)
class Resize:
    """Have the platform give this running node other resources, in place."""

    node: str
    resources: Resources
    version: int  # of the role's resources


@dataclass(frozen=True, slots=True)
class Overdue:
    """A finding: this node missed a deadline. Acting on it is ``NodeBook.lost``."""

    node: str
    exit_reason: ExitReason
    message: str


@dataclass(frozen=True, slots=True)
class Oversized:
    """A finding: no machine of the platform is large enough for this node, as far as is known since then."""

    node: str
    problem: str
    since: float
    shrinks: bool = False  # it will be requested with less, down to what a machine has


def at_least(resources: Resources, memory_floor_mb: int) -> Resources:
    """What a node is given of this: not less memory than its line is known to need."""
    if 0 < resources.memory_mb < memory_floor_mb:
        return replace(resources, memory_mb=memory_floor_mb)
    return resources


def in_words(resources: Resources) -> str:
    return str(resources) if resources != Resources() else "nothing"


def parse_exit_reason(value: str) -> ExitReason:
    try:
        return ExitReason(value)
    except ValueError:
        raise InvalidRequest(f"unknown exit reason {value!r}; known: {', '.join(ExitReason)}") from None


def parse_permanent(value: str) -> PermanentKind | None:
    """Empty: the error may pass by itself."""
    try:
        return PermanentKind(value) if value else None
    except ValueError:
        raise InvalidRequest(f"permanent error {value!r}; known are {', '.join(PermanentKind)}") from None


def parse_resources(value: Mapping[str, Any]) -> Resources:
    try:
        resources = Resources.from_json(value)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InvalidRequest(f"resources {value!r}: cpu, memory_mb and gpu are numbers") from error
    if not math.isfinite(resources.cpu) or min(resources.cpu, resources.memory_mb, resources.gpu) < 0:
        raise InvalidRequest(f"resources {value!r}: values must be finite and not negative")
    return resources
