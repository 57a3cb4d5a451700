"""Nodes and their programs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pliant.core.events.base import Event
from pliant.core.events.kinds import EventKind
from pliant.core.nodes.fault_policy import ExitReason


@dataclass(frozen=True, kw_only=True)
class NodeLaunched(Event, kind=EventKind.LAUNCH):
    node: str
    reason: str
    replaces: str = ""  # the node before it in its line; empty: it is the first

    def _sentence(self) -> str:
        return f"launched {self.node}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class LaunchRefused(Event, kind=EventKind.REFUSED):
    node: str
    reason: str
    unschedulable: bool  # it is tried again; else it counts as a failure

    def _sentence(self) -> str:
        return f"the platform refused to launch {self.node}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class NodeUnschedulable(Event, kind=EventKind.UNSCHEDULABLE):
    node: str
    reason: str

    def _sentence(self) -> str:
        return f"{self.node} is unschedulable: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class NodeTooLarge(Event, kind=EventKind.TOO_LARGE):
    node: str
    reason: str  # what was asked for, and what the largest machine has

    def _sentence(self) -> str:
        return f"{self.node} can never be scheduled: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class NodeScheduled(Event, kind=EventKind.SCHEDULED):
    node: str

    def _sentence(self) -> str:
        return f"{self.node} was scheduled"


@dataclass(frozen=True, kw_only=True)
class NodeRunning(Event, kind=EventKind.RUNNING):
    node: str
    host: str

    def _sentence(self) -> str:
        return f"{self.node} is running on {self.host}" if self.host else f"{self.node} is running"


class ExitCause(StrEnum):
    OWN = "own"  # it ended by itself, or was killed by somebody else
    GROUP = "group"  # the master restarts its group
    MASTER = "master"  # the master had it killed
    REMOVAL = "removal"  # its node is removed


@dataclass(frozen=True, kw_only=True)
class ProgramExited(Event, kind=EventKind.EXIT):
    node: str
    incarnation: int
    exit_reason: ExitReason
    cause: ExitCause = ExitCause.OWN
    message: str

    def _sentence(self) -> str:
        what = {
            ExitCause.OWN: f"exited ({self.exit_reason.value})",
            ExitCause.GROUP: "ended with its group",
            ExitCause.MASTER: "was killed at the master's request",
            ExitCause.REMOVAL: "ended",
        }
        return f"the program of {self.node} {what[self.cause]}: {self.message}"


@dataclass(frozen=True, kw_only=True)
class ProgramRestarted(Event, kind=EventKind.RESTART):
    node: str
    incarnation: int
    delay_s: float
    reason: str

    def _sentence(self) -> str:
        return f"the program of {self.node} will restart in {self.delay_s:g} s: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class NodeEnded(Event, kind=EventKind.ENDED):
    node: str
    exit_reason: ExitReason
    message: str

    def _sentence(self) -> str:
        return f"{self.node} ended ({self.exit_reason.value}): {self.message}"


@dataclass(frozen=True, kw_only=True)
class NodeHung(Event, kind=EventKind.HANG):
    node: str
    reason: str
    killed: bool = False  # its program, by its agent; else the node is removed

    def _sentence(self) -> str:
        then = "; killing its program and replacing the node" if self.killed else ""
        return f"{self.node} is hanging: {self.reason}{then}"


@dataclass(frozen=True, kw_only=True)
class ProgramFrozen(Event, kind=EventKind.FROZEN):
    node: str
    reason: str
    killed: bool  # and started again in place; else its peers continue without it

    def _sentence(self) -> str:
        then = "killing and restarting it" if self.killed else "its peers continue without it"
        return f"{self.node} is frozen: {self.reason}; {then}"


@dataclass(frozen=True, kw_only=True)
class NodeGivenUp(Event, kind=EventKind.GIVE_UP):
    node: str
    exit_reason: ExitReason
    reason: str

    def _sentence(self) -> str:
        return f"gave up on {self.node} ({self.exit_reason.value}), failing the job: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class NodeRemoved(Event, kind=EventKind.REMOVE):
    node: str
    grace_s: float
    reason: str

    def _sentence(self) -> str:
        return f"removing {self.node}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class RoleScaled(Event, kind=EventKind.SCALE):
    role: str
    before: int
    replicas: int
    reason: str

    def _sentence(self) -> str:
        return f"{self.role}: {self.before} -> {self.replicas} ({self.reason})"
