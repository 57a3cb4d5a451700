"""The job as a whole: which phase it is in, why, and what failed first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from pliant.core.errors import InvalidRequest
from pliant.core.state_machine import StateMachine
from pliant.core.takeover import RecoveryOutcome


class Phase(StrEnum):
    """All phases of a job, wherever it is shown. ``JobBook`` itself knows Running and how a job ends; a platform adds what
    comes before there is a master, and a suspension is a matter of the nodes."""

    PENDING = "Pending"  # nobody has taken it up yet
    INVALID = "Invalid"  # it cannot run as it is described
    CREATING = "Creating"  # its master is being started
    RUNNING = "Running"
    SUSPENDING = "Suspending"  # its nodes are on their way out
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"
    INTERRUPTED = "Interrupted"  # no master, and nobody who would start one

    @property
    def is_final(self) -> bool:
        """No other phase follows."""
        return self in FINAL_PHASES


FINAL_PHASES = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED})


@dataclass(frozen=True, slots=True)
class Failure:
    node: str
    kind: str
    message: str
    traceback: str
    time: float
    log: str  # where the node's whole output is


@dataclass(frozen=True, slots=True)
class Recovery:
    """The journal of an earlier master was lost, and this is what became of the job (``core/takeover.py``)."""

    outcome: RecoveryOutcome
    message: str
    time: float


class JobBook(StateMachine):
    """A job ends once; what ended it stays."""

    def __init__(self, *, keeps_serving: bool = False) -> None:
        """``keeps_serving``: a sharding service alone does not end with its shards."""
        self.keeps_serving = keeps_serving
        self.phase = Phase.RUNNING
        self.reason = ""
        self.started_at = 0.0
        self.ended_at = 0.0
        self.master_starts = 0
        self.first_failure: Failure | None = None
        self.recovery: Recovery | None = None

    def journal_lost(self, now: float, *, outcome: str, message: str) -> None:
        self.recovery = Recovery(RecoveryOutcome(outcome), message, now)

    def master_started(self, now: float) -> int:
        if self.master_starts == 0:
            self.started_at = now
        self.master_starts += 1
        return self.master_starts

    def failed(self, now: float, *, node: str, kind: str, message: str, traceback: str, log: str) -> bool:
        """Note the failure of a program; True if it is the job's first."""
        if self.first_failure is not None:
            return False
        self.first_failure = Failure(node, kind, message, traceback, now, log)
        return True

    def end(self, now: float, *, phase: str, reason: str) -> bool:
        if phase not in FINAL_PHASES:
            raise InvalidRequest(f"a job cannot end in phase {phase}")
        if self.phase is not Phase.RUNNING:
            return False
        self.phase, self.reason, self.ended_at = Phase(phase), reason, now
        return True

    @property
    def over(self) -> bool:
        return self.phase is not Phase.RUNNING

    def snapshot(self) -> dict[str, Any]:
        return {
            "phase": self.phase.value,
            "reason": self.reason,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "master_starts": self.master_starts,
            "first_failure": asdict(self.first_failure) if self.first_failure else None,
            "recovery": asdict(self.recovery) if self.recovery else None,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.phase, self.reason = Phase(state["phase"]), state["reason"]
        self.started_at, self.ended_at = state["started_at"], state["ended_at"]
        self.master_starts = state["master_starts"]
        self.first_failure = Failure(**state["first_failure"]) if state["first_failure"] else None
        recovery = state.get("recovery")  # absent: written before there was one
        self.recovery = (
            Recovery(RecoveryOutcome(recovery["outcome"]), recovery["message"], recovery["time"]) if recovery else None
        )
