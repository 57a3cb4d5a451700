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
