"""The real thing: the planner of ``core/planning/planner.py`` with its algorithms, one for each job.

What ``master/components`` does with a journal is done here without one: ask which operation is due, apply it, hand the plan that
it made to the job, and report the answer back.
"""

from __future__ import annotations

from pliant.core.planning.configuration import Configuration
from pliant.core.planning.history import JobHistory
from pliant.core.planning.plan import ResourcePlan
from pliant.core.planning.planner import Planner, PlannerSettings
from pliant.core.planning.registry import algorithm
from pliant.sim.policies.base import ClusterView, Policy

MAX_STEPS = 8  # of one moment: settled, judged, planned again


class Auto(Policy):
    name = "auto"
    interval_s = 10.0
    max_interval_s = 120.0

    def __init__(self, settings: PlannerSettings | None = None, *, max_interval_s: float = max_interval_s) -> None:
        self.max_interval_s = max_interval_s
        self.planners: dict[str, Planner] = {}
        self._settings = settings

    def first(self, job: str, history: JobHistory, cluster: ClusterView) -> Configuration:
        self.planners[job] = Planner(self._settings)
        proposal = algorithm("create_from_history")(history, history.started)
        return proposal.configuration if proposal is not None else history.configuration

    def plan(self, job: str, history: JobHistory, now: float, cluster: ClusterView) -> ResourcePlan | None:
        planner = self.planners[job]
        for _ in range(MAX_STEPS):
            step = planner.next_step(history, now)
            if step is None:
                return None
            made = planner.apply(step.method, now, step.arguments)
            if isinstance(made, ResourcePlan):
                return made
        return None

    def answered(self, job: str, plan: ResourcePlan, now: float, refusal: str) -> None:
        planner = self.planners[job]
        if refusal:
            planner.refused(now, plan=plan.id, reason=refusal)
        else:
            planner.accepted(now, plan=plan.id)

    def ended(self, job: str) -> None:
        del self.planners[job]
