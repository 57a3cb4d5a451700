"""Plans and explanations on the wire."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.core.planning.records import EXPLANATION, RECORDS

from pliant.core.planning.history import Objective, StepParts
from pliant.core.planning.plan_record import Outcome, PlanRecord
from pliant.core.planning.planner_state import PlannerState
from pliant.core.planning.reports import JobExplanation, JobPlans
from pliant.core.status import BRAIN_LEADS, GrantStatus, PlannerStatus
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.planning import (
    explain_from,
    explain_message,
    plans_from,
    plans_message,
    record_from,
    record_message,
)

GRANT = GrantStatus(4, 8.0, 4096, "two jobs share 8 CPU")
PLANNER = PlannerStatus(PlannerState.PAUSED, 12.5, "a person changed the job", "auto-3", True, BRAIN_LEADS, GRANT)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.id)
def test_a_plan_arrives_as_it_was_sent(record: PlanRecord) -> None:
    sent = record_message(record).SerializeToString()
    assert record_from(pb.PlanRecord.FromString(sent)) == record


def test_every_outcome_and_objective_has_a_number() -> None:
    for outcome in Outcome:
        assert record_from(record_message(replace(RECORDS[0], outcome=outcome))).outcome is outcome
    for objective in Objective:
        assert record_from(record_message(replace(RECORDS[0], objective=objective))).objective is objective


def test_the_fields_of_a_plan_on_the_wire_are_those_of_the_record() -> None:
    assert {field.name for field in pb.PlanRecord.DESCRIPTOR.fields} == set(PlanRecord.__slots__)


@pytest.mark.parametrize("planner", [None, PLANNER])
def test_the_plans_of_a_job_arrive_as_they_were_sent(planner: PlannerStatus | None) -> None:
    found = JobPlans("digits", planner, RECORDS)
    assert plans_from(pb.PlansReply.FromString(plans_message(found).SerializeToString())) == found


@pytest.mark.parametrize(
    "found",
    [
        JobExplanation("digits"),
        JobExplanation("digits", PLANNER, StepParts(0.2, 0.5, 0.3), EXPLANATION, RECORDS),
        JobExplanation("digits", PLANNER, None, replace(EXPLANATION, rate=None, next_plan=None, curve=())),
    ],
)
def test_an_explanation_arrives_as_it_was_sent(found: JobExplanation) -> None:
    assert explain_from(pb.ExplainReply.FromString(explain_message(found).SerializeToString())) == found
