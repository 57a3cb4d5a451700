"""What people are shown of a job's planning: its plans (``pliant plans``) and an explanation (``pliant explain``).

Plain values, the same of a living master, of a replayed journal and of a summary. A job that plans nothing
(``optimize: manual``) has no ``planner``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pliant.core.planning.explanation import Explanation
from pliant.core.planning.history import StepParts
from pliant.core.planning.plan_record import PlanRecord
from pliant.core.status import PlannerStatus, mode_of
from pliant.core.status_json import part_to_json

MAX_RECENT = 5  # plans of an explanation


@dataclass(frozen=True, slots=True)
class JobPlans:
    name: str
    planner: PlannerStatus | None = None
    plans: tuple[PlanRecord, ...] = ()  # oldest first
    note: str = ""  # for people: where this comes from, if not from a living master

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            **_planner_json(self.planner),
            "note": self.note,
            "plans": [record.to_json() for record in self.plans],
        }


@dataclass(frozen=True, slots=True)
class JobExplanation:
    name: str
    planner: PlannerStatus | None = None
    time: StepParts | None = None  # where the time of workers goes now; None: they do not say
    explanation: Explanation | None = None
    plans: tuple[PlanRecord, ...] = ()  # the last ones
    note: str = ""  # for people: why there is no explanation

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            **_planner_json(self.planner),
            "note": self.note,
            "time": asdict(self.time) if self.time is not None else None,
            "explanation": self.explanation.to_json() if self.explanation is not None else None,
            "plans": [record.to_json() for record in self.plans],
        }


def _planner_json(planner: PlannerStatus | None) -> dict[str, Any]:
    return {"optimize": mode_of(planner), "planner": part_to_json(planner) if planner is not None else None}
