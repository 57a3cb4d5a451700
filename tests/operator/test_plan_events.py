"""Events of a job's plans, and what the operator leaves to its planner."""

from __future__ import annotations

from dataclasses import replace

from tests.operator.builders import job, observed

from pliant.core.job import Phase
from pliant.core.planning.planner_state import PlannerState
from pliant.core.status import JobStatus, PlannerStatus, PlanStatus
from pliant.operator.job_decisions import Memory, decide
from pliant.operator.job_spec import missing_replicas, spec_of
from pliant.operator.plan_events import SeenPlan, plan_events
from pliant.platforms.kubernetes.elastic_job_status import status_patch
from pliant.platforms.kubernetes.timestamps import seconds_of

MADE = "2026-01-01T00:00:00Z"
NOW = seconds_of(MADE) + 5
PLAN = PlanStatus("auto-2", "8 workers", MADE, "plan_job", "under way")
KEPT = replace(PLAN, outcome="kept", judgement="better")
PLANNER = PlannerStatus(PlannerState.OBSERVING)


def status(plan: PlanStatus | None, planner: PlannerStatus = PLANNER) -> JobStatus:
    return JobStatus("digits", Phase.RUNNING, planner=planner, last_plan=plan)


def events(plan: PlanStatus | None, seen: SeenPlan | None, now: float = NOW) -> list[tuple[str, str]]:
    return [(event.reason, event.message) for event in plan_events(status(plan), seen, now)]


def test_a_plan_is_reported_when_it_is_made_and_when_it_has_ended() -> None:
    made = ("Plan", "auto-2 by plan_job: 8 workers")
    assert events(PLAN, SeenPlan()) == [made]
    assert events(PLAN, SeenPlan(PLAN)) == []
    assert events(KEPT, SeenPlan(PLAN)) == [("PlanEnded", "auto-2 kept: better")]
    assert events(KEPT, SeenPlan(KEPT)) == []
    assert events(KEPT, SeenPlan(replace(PLAN, name="auto-1"))) == [made, ("PlanEnded", "auto-2 kept: better")]


def test_an_operator_that_has_just_started_reports_only_what_is_new() -> None:
    assert events(PLAN, None) == [("Plan", "auto-2 by plan_job: 8 workers")]
    assert events(PLAN, None, NOW + 3600) == []
    assert events(KEPT, None, NOW + 3600) == []


def test_the_change_of_a_person_is_no_plan() -> None:
    assert events(PlanStatus("3f2a", "more data", MADE), SeenPlan()) == []
    assert events(None, SeenPlan()) == []


def test_a_pause_is_reported_with_its_reason() -> None:
    paused = PlannerStatus(PlannerState.PAUSED, NOW + 60, "scaled by hand")
    [event] = plan_events(status(None, paused), SeenPlan(None, PLANNER), NOW)
    assert (event.reason, event.message) == ("PlannerPaused", "paused for another 60 s: scaled by hand")
    assert plan_events(status(None, paused), SeenPlan(None, paused), NOW) == []
    led = replace(paused, brain="leads")
    assert plan_events(status(None, led), SeenPlan(None, paused), NOW) == [], "the same pause"


def test_a_reconciler_reports_what_the_master_wrote_into_the_status_once() -> None:
    owner = job(status=status_patch(status(PLAN), generation=1, last_plan=PLAN))
    memory = Memory()
    found = [decide(observed(owner), memory, NOW).actions for _ in range(2)]
    assert [[a for a in actions if getattr(a, "reason", "") == "Plan"] != [] for actions in found] == [True, False]


def test_a_job_that_plans_itself_is_given_a_range_and_no_number_to_begin_with() -> None:
    command = {"command": ["true"]}
    owner = job(optimize={"mode": "single-job"}, roles={"worker": command, "chief": command})
    assert missing_replicas(owner) == {
        "spec": {
            "roles": {
                "worker": {"replicas": {"min": 1, "max": 16}},
                "chief": {"replicas": {"min": 1, "max": 1, "wanted": 1}},
            }
        }
    }
    owner["spec"]["roles"]["worker"] = {**command, "replicas": {"min": 1, "max": 8}}
    owner["spec"]["roles"]["chief"] = {**command, "replicas": {"min": 1, "max": 1, "wanted": 1}}
    assert missing_replicas(owner) is None
    assert spec_of(owner).roles["worker"].replicas.wanted is None
