"""An explanation of a job's speed and of what its planner would do, as plain values.

``explain.py`` makes it, which takes numpy; whoever shows it needs none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pliant.core.planning.configuration import Configuration
from pliant.core.planning.planner_state import PlannerState
from pliant.core.planning.proposal import Proposal


@dataclass(frozen=True, slots=True)
class CurvePoint:
    workers: int
    rate: float
    low: float
    high: float
    measured: float | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    state: PlannerState
    rate: float | None  # records per second, settled
    parts: Mapping[str, float]  # shares of a worker's time, measured
    terms: Mapping[str, float]  # shares of a step's time, by the fit
    bottleneck: str  # for people; empty: not known yet
    curve: tuple[CurvePoint, ...]  # over the number of workers, all else as it is
    identified: Mapping[str, float]  # by term: 1 if it is known, 0 if it may be anything
    next_plan: Proposal | None
    not_yet: str  # why it is not made, or why there is none
    configuration: Configuration  # the present one

    def to_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "state": self.state.value,
            "curve": [asdict(point) for point in self.curve],
            "next_plan": self.next_plan.to_json() if self.next_plan is not None else None,
            "configuration": self.configuration.to_json(),
        }
