"""The job as a whole: which phase it is in, why, and what failed first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from pliant.core.errors import Conflict, InvalidRequest
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


MAX_TRAINING_ALONE = 1000  # nodes; two are enough to say so
FINAL_PHASES = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED})


@dataclass(frozen=True, slots=True)
class Failure:
    node: str
    kind: str
    message: str
    traceback: str
    time: float
    log: str  # where the node's whole output is
    hint: str = ""  # what to do; empty: what the kind suggests


@dataclass(frozen=True, slots=True)
class Recovery:
    """The journal of an earlier master was lost, and this is what became of the job (``core/takeover.py``)."""

    outcome: RecoveryOutcome
    message: str
    time: float


@dataclass(frozen=True, slots=True)
class JobWarning:
    """What people should know of a job that goes on all the same."""

    message: str
    time: float


class JobBook(StateMachine):
    """A job ends once, and what ended it stays; unless somebody resumes a job that was stopped or has failed."""

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
        self.resumes = 0
        self.training_alone: set[str] = set()  # nodes that said so (``core/combination.py``)
        self.warnings: dict[str, JobWarning] = {}  # by type of condition

    def trains_alone(self, now: float, *, node: str) -> None:
        """The program of this node updates a model that it shares with nobody."""
        if len(self.training_alone) < MAX_TRAINING_ALONE:
            self.training_alone.add(node)

    def warn(self, now: float, *, kind: str, message: str) -> bool:
        """Tell people something about the job, once; True if it is new."""
        if kind in self.warnings:
            return False
        self.warnings[kind] = JobWarning(message, now)
        return True

    def journal_lost(self, now: float, *, outcome: str, message: str) -> None:
        self.recovery = Recovery(RecoveryOutcome(outcome), message, now)

    def master_started(self, now: float) -> int:
        if self.master_starts == 0:
            self.started_at = now
        self.master_starts += 1
        return self.master_starts

    def failed(
        self, now: float, *, node: str, kind: str, message: str, traceback: str, log: str, hint: str = ""
    ) -> bool:
        """Note the failure of a program; True if it is the job's first."""
        if self.first_failure is not None:
            return False
        self.first_failure = Failure(node, kind, message, traceback, now, log, hint)
        return True

    def end(self, now: float, *, phase: str, reason: str) -> bool:
        if phase not in FINAL_PHASES:
            raise InvalidRequest(f"{phase} is not a final phase")
        if self.phase is not Phase.RUNNING:
            return False
        self.phase, self.reason, self.ended_at = Phase(phase), reason, now
        return True

    def resume(self, now: float) -> bool:
        """Continue a job that was stopped or has failed. False: it is running."""
        if self.phase is Phase.SUCCEEDED:
            raise Conflict("the job has succeeded; there is nothing left to do")
        if self.phase is Phase.RUNNING:
            return False
        self.phase, self.reason, self.ended_at = Phase.RUNNING, "", 0.0
        self.first_failure = None
        self.resumes += 1
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
            "resumes": self.resumes,
            "training_alone": sorted(self.training_alone),
            "warnings": {kind: asdict(warning) for kind, warning in self.warnings.items()},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.phase, self.reason = Phase(state["phase"]), state["reason"]
        self.started_at, self.ended_at = state["started_at"], state["ended_at"]
        self.master_starts, self.resumes = state["master_starts"], state["resumes"]
        self.first_failure = Failure(**state["first_failure"]) if state["first_failure"] else None
        self.training_alone = set(state["training_alone"])
        self.warnings = {kind: JobWarning(**warning) for kind, warning in state["warnings"].items()}
        recovery = state.get("recovery")  # absent: written before there was one
        self.recovery = (
            Recovery(RecoveryOutcome(recovery["outcome"]), recovery["message"], recovery["time"]) if recovery else None
        )
