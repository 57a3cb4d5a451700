"""Plans and explanations as people see them."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import RenderableType
from tests.core.planning.records import EXPLANATION, KEPT, NOW, RECORDS, ROLLBACK, ROLLED_BACK, SERVERS

from pliant.cli.render.console import EscapingConsole
from pliant.cli.render.explanation import SILENT, explanation_view
from pliant.cli.render.plans import HOW_TO_PLAN, last_plan_line, plan_lines, plans_view, summed_up
from pliant.core.planning.history import StepParts
from pliant.core.planning.plan_record import Outcome
from pliant.core.planning.planner_state import PlannerState
from pliant.core.planning.reports import JobExplanation, JobPlans
from pliant.core.status import BRAIN_AWAY, BRAIN_LEADS, GrantStatus, PlannerStatus, PlanStatus

OBSERVING = PlannerStatus(PlannerState.OBSERVING, until=NOW + 12)


def shown(thing: RenderableType, width: int = 120) -> str:
    out = StringIO()
    EscapingConsole(file=out, width=width).print(thing)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def test_a_plan_has_its_reason_what_it_predicted_and_what_came_of_it() -> None:
    text = shown(plans_view(JobPlans("digits", OBSERVING, (KEPT,)), NOW))
    head, planner, _, plan, *rows = text.splitlines()
    assert head == "digits  1 plan: 1 kept"
    assert planner == "planner: observing, cool-down for another 12 s"
    assert plan.startswith("auto-1  ")
    assert plan.endswith("  plan_job  kept")
    assert [row.split(maxsplit=1) for row in rows] == [
        ["reason", "8 workers are twice as fast"],
        ["change", "8 instead of 4 workers"],
        ["predicted", "80 records/s (70 to 90), 2 s without records for the change"],
        ["before", "40 records/s"],
        ["achieved", "78 records/s, within the interval"],
        ["result", "better: 78 records per second"],
    ]


def test_every_outcome_is_named_and_a_rollback_is_not_counted_as_a_plan_of_its_own() -> None:
    assert summed_up(RECORDS) == "3 plans: 1 kept, 1 rolled back, 1 advised"
    assert summed_up(()) == "no plans"
    assert replace(KEPT, outcome=Outcome.CARRIED_OUT).standing == "carried out", "it ended before it was judged"
    names = {replace(KEPT, outcome=outcome, ended_at=None).standing for outcome in Outcome}
    assert names == {"kept", "rolled back", "refused", "expired", "superseded", "advised", "under way"}
    text = shown(plans_view(JobPlans("digits", OBSERVING, RECORDS), NOW))
    assert "50% of the partitions of ps-1" in text
    assert "at the next restart of each node" in text


def test_a_job_that_plans_nothing_says_how_to_switch_it_on() -> None:
    assert HOW_TO_PLAN in shown(plans_view(JobPlans("digits"), NOW), 200)
    text = shown(explanation_view(JobExplanation("digits", time=StepParts(0.1, 0.7, 0.2)), NOW), 200)
    assert HOW_TO_PLAN in text
    assert "bottleneck: computing" in text
    assert "waiting for peers or servers  20 %" in text
    assert SILENT in shown(explanation_view(JobExplanation("digits"), NOW), 200)


def test_an_explanation_has_the_curve_the_next_plan_and_why_it_waits() -> None:
    found = JobExplanation("digits", OBSERVING, StepParts(0.25, 0.75), EXPLANATION, (KEPT,))
    text = shown(explanation_view(found, NOW))
    for part in (
        "planner: observing, cool-down for another 12 s",
        "now: workers 4 x (1 CPU, 512 MB); 40 records/s",
        "bottleneck: computing",
        "▲ now: 4",
        "8 workers are twice as fast",
        "not made yet: cool-down for another 12 s",
        "last plans",
    ):
        assert part in text
    uncertain = [line for line in text.splitlines() if line.endswith("uncertain")]
    assert [line.split("  ")[1] for line in uncertain] == ["what workers share"]


def test_what_the_quota_grants_is_shown_with_its_reason() -> None:
    granted = replace(OBSERVING, brain=BRAIN_LEADS, grant=GrantStatus(4, 8.0, 2048, "two jobs share 8 CPU"))
    sentence = "the quota grants at most 4 nodes, 8 CPU, 2048 MB: two jobs share 8 CPU"
    assert sentence in shown(explanation_view(JobExplanation("digits", granted, None, EXPLANATION), NOW))
    assert sentence in shown(plans_view(JobPlans("digits", granted), NOW))
    nothing = replace(granted, grant=GrantStatus(0, reason="others go first"))
    assert "the quota grants nothing: others go first" in shown(plans_view(JobPlans("digits", nothing), NOW))
    assert JobPlans("digits", granted).to_json()["optimize"] == "cluster"
    found = JobExplanation("digits", granted).to_json()["planner"]
    assert (found["brain"], found["grant"]["cpu"], found["grant"]["reason"]) == ("leads", 8.0, "two jobs share 8 CPU")


def test_without_a_next_plan_it_says_why_there_is_none() -> None:
    nothing = replace(EXPLANATION, next_plan=None, not_yet="no change is expected to gain enough", curve=(), terms={})
    text = shown(explanation_view(JobExplanation("digits", OBSERVING, None, nothing), NOW))
    assert "no next plan: no change is expected to gain enough" in text
    assert "no plans yet" in text


def test_of_an_ended_job_the_last_plans_are_shown_with_a_sentence() -> None:
    text = shown(explanation_view(JobExplanation("digits", OBSERVING, plans=(KEPT,), note="the job has ended"), NOW))
    assert text.splitlines()[:2] == ["digits", "the job has ended"]
    assert "auto-1" in text


@pytest.mark.parametrize("width", [20, 40, 64, 100])
def test_narrow_terminals_are_not_exceeded(width: int) -> None:
    found = JobExplanation("digits", OBSERVING, StepParts(0.25, 0.75), EXPLANATION, RECORDS)
    for view in (explanation_view(found, NOW), plans_view(JobPlans("digits", OBSERVING, RECORDS), NOW)):
        assert max(len(line) for line in shown(view, width).splitlines()) <= width


def test_who_follows_a_job_sees_each_plan_once_when_it_is_made_and_when_it_ends() -> None:
    known: dict[str, str] = {}
    young = replace(KEPT, outcome=Outcome.CARRIED_OUT, ended_at=None, judgement="")
    made = "plan auto-1 (plan_job): 8 workers are twice as fast; expects 80 records/s (70 to 90)"
    assert plan_lines(known, [young]) == [made]
    assert plan_lines(known, [young]) == []
    assert plan_lines(known, [KEPT]) == ["plan auto-1 kept: better: 78 records per second"]
    later = plan_lines(known, [KEPT, ROLLED_BACK, ROLLBACK, SERVERS])
    assert later[1:] == [
        "plan auto-2 rolled back: worse than before",
        "plan auto-3 (judge): back to 4 workers",
        "advice auto-4 (hot_ps): ps-1 is busy",
    ]


@pytest.mark.parametrize(
    ("plan", "line"),
    [
        (PlanStatus("3f2a", "more data"), "last change: more data"),
        (PlanStatus("auto-2", "8 workers", "", "plan_job", "kept"), "last plan auto-2 by plan_job (kept): 8 workers"),
    ],
)
def test_the_last_plan_is_one_line(plan: PlanStatus, line: str) -> None:
    assert last_plan_line(plan) == line


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (PlannerStatus(PlannerState.OBSERVING, until=NOW - 1), "observing"),
        (PlannerStatus(PlannerState.PAUSED, NOW + 60, "scaled by hand"), "paused for another 60 s: scaled by hand"),
        (PlannerStatus(PlannerState.JUDGING, plan="auto-2", reason="8 workers"), "plan auto-2 is judging: 8 workers"),
        (PlannerStatus(PlannerState.OBSERVING, dry_run=True), "observing (dry run: plans are only shown)"),
        (PlannerStatus(PlannerState.OBSERVING, brain=BRAIN_LEADS), "observing; planned by the Brain"),
        (
            PlannerStatus(PlannerState.OBSERVING, brain=BRAIN_AWAY),
            "observing; the Brain is away: planned by the job's master",
        ),
    ],
)
def test_the_planners_state_is_a_sentence(status: PlannerStatus, sentence: str) -> None:
    assert status.sentence(NOW) == sentence


def test_what_is_printed_as_json_is_json() -> None:
    found: dict[str, Any] = json.loads(json.dumps(JobPlans("digits", OBSERVING, RECORDS).to_json()))
    assert (found["optimize"], found["planner"]["state"]) == ("single-job", "observing")
    assert [plan["outcome"] for plan in found["plans"]] == ["kept", "rolled back", "planned", "advised"]
    whole = JobExplanation("digits", OBSERVING, StepParts(0.25, 0.75), EXPLANATION, RECORDS).to_json()
    explained = json.loads(json.dumps(whole))["explanation"]
    assert (explained["state"], explained["next_plan"]["algorithm"]) == ("observing", "plan_job")
    assert explained["curve"][3] == {"workers": 4, "rate": 40.0, "low": 36.0, "high": 44.0, "measured": 40.0}
