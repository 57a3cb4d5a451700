"""Resource generators make plans. In manual mode a person is the generator, in single-job mode the planner
(``planning/planner.py``), step by step.

A plan is carried out like any other request for changes: ``core.changes.plan_request`` makes one of it, and
``ChangeHandler`` handles it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from pliant.core.planning.plan import JobStage, Replacement, ResourcePlan, RolePlan
from pliant.core.planning.samples import StatsQuery


@dataclass(frozen=True, slots=True)
class ManualPlan:
    """What a person asks for."""

    roles: Mapping[str, RolePlan] = field(default_factory=dict)
    replace: tuple[Replacement, ...] = ()
    reason: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class PlanningConfig:
    """What a generator may use."""

    base_version: int | None = None  # of the desired state that the plan is made for; None: of any
    stats: StatsQuery | None = None
    manual: ManualPlan | None = None


class ResourceGenerator(ABC):
    @abstractmethod
    def generate_plan(self, stage: JobStage, config: PlanningConfig) -> ResourcePlan | None:
        """A plan for a stage of the job, or None to leave things as they are."""


class ManualGenerator(ResourceGenerator):
    """Turns what a person asked for into a plan."""

    def generate_plan(self, stage: JobStage, config: PlanningConfig) -> ResourcePlan | None:
        asked = config.manual
        if asked is None:
            return None
        return ResourcePlan(
            asked.id, asked.reason or "requested manually", asked.roles, asked.replace, config.base_version
        )
