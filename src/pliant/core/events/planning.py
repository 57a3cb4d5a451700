"""Plans of the resource planner, and what came of them."""

from __future__ import annotations

from dataclasses import dataclass

from pliant.core.events.base import Event
from pliant.core.events.kinds import EventKind


@dataclass(frozen=True, kw_only=True)
class PlanMade(Event, kind=EventKind.PLAN):
    plan: str
    algorithm: str
    reason: str
    advice: bool

    def _sentence(self) -> str:
        what = "advice" if self.advice else "plan"
        return f"{what} {self.plan} by {self.algorithm}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class PlanEnded(Event, kind=EventKind.PLAN_ENDED):
    plan: str
    outcome: str
    judgement: str

    def _sentence(self) -> str:
        why = f" ({self.judgement})" if self.judgement else ""
        return f"plan {self.plan} {self.outcome}{why}"


@dataclass(frozen=True, kw_only=True)
class PlannerPaused(Event, kind=EventKind.PLANNER_PAUSED):
    seconds: float
    reason: str

    def _sentence(self) -> str:
        return f"no plans are made for {self.seconds:.0f} s: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class AlgorithmFailed(Event, kind=EventKind.ALGORITHM_FAILED):
    algorithm: str
    reason: str

    def _sentence(self) -> str:
        return f"algorithm {self.algorithm} failed, others are asked: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class BrainFound(Event, kind=EventKind.BRAIN_FOUND):
    def _sentence(self) -> str:
        return "the Brain plans for this job"


@dataclass(frozen=True, kw_only=True)
class BrainLost(Event, kind=EventKind.BRAIN_LOST):
    seconds: float

    def _sentence(self) -> str:
        return f"the Brain was silent for {self.seconds:.0f} s: the job plans by itself until it is back"


@dataclass(frozen=True, kw_only=True)
class QuotaGranted(Event, kind=EventKind.QUOTA_GRANTED):
    number: int
    limit: str  # empty: none
    reason: str

    def _sentence(self) -> str:
        return f"the quota grants {self.limit or 'nothing'}: {self.reason}" if self.reason else f"granted: {self.limit}"
