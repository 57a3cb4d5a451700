"""Who makes plans."""

from __future__ import annotations

from pliant.core.planning.plan import JobStage, RolePlan
from pliant.master.components.scaling import ManualGenerator, ManualPlan, PlanningConfig


def test_a_person_is_a_generator_of_plans() -> None:
    asked = ManualPlan({"worker": RolePlan(3)}, reason="night")
    plan = ManualGenerator().generate_plan(JobStage.RUNNING, PlanningConfig(manual=asked))
    assert plan is not None
    assert (plan.roles["worker"].replicas, plan.reason) == (3, "night")
    assert ManualGenerator().generate_plan(JobStage.RUNNING, PlanningConfig()) is None
