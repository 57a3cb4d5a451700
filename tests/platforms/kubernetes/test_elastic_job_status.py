"""The status of an ElasticJob, from and to a job's status."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pliant.core.job import Phase
from pliant.core.planning.planner_state import PlannerState
from pliant.core.status import (
    BRAIN_AWAY,
    CheckpointStatus,
    Condition,
    GrantStatus,
    JobStatus,
    PlannerStatus,
    PlanStatus,
    Progress,
    RoleStatus,
)
from pliant.platforms.kubernetes.elastic_job_status import PHASES, duration, status_of_resource, status_patch
from pliant.platforms.kubernetes.timestamps import rfc3339, seconds_of

PLAN = PlanStatus("digits-7", "more data", "2026-01-01T00:00:00Z")
STATUS = JobStatus(
    "digits",
    Phase.RUNNING,
    message="0/3 nodes",
    started_at=1_800_000_000.0,
    roles=(RoleStatus("worker", 1, 4, 3, ready=2, pending=1), RoleStatus("ps", 1, 1, 1, ready=1)),
    progress=Progress(50, 200, step=7, epoch=1, total_steps=28, metrics={"loss": 0.25}),
    records_per_second=12.34,
    eta=270.0,
    goodput=87.56,
)
SPEC = {"roles": {"worker": {"replicas": {"min": 1, "max": 4}}, "ps": {"replicas": {"min": 1, "max": 1}}}}


def test_a_status_becomes_what_kubectl_shows() -> None:
    patch = status_patch(STATUS, generation=3, last_plan=PLAN)
    assert (patch["phase"], patch["message"], patch["observed_generation"]) == ("Running", "0/3 nodes", 3)
    assert (patch["workers"], patch["ps"], patch["replicas"]) == ("2/3", "1/1", 3)
    assert patch["roles"]["worker"] == {"wanted": 3, "ready": 2, "pending": 1, "succeeded": 0, "failed": 0}
    records = {"records": 50, "total": 200, "records_per_second": 12.3}
    progress = {"percent": 25.0, "step": 7, "total_steps": 28, "loss": 0.25, "epoch": 1, "eta": "4m30s", **records}
    assert (patch["progress"], patch["goodput"]) == (progress, 87.6)
    assert (patch["started"], patch["suspended"]) == ("2027-01-15T08:00:00Z", None)
    plan = {"name": "digits-7", "reason": "more data", "time": "2026-01-01T00:00:00Z"}
    assert patch["last_plan"] == {**plan, "algorithm": None, "outcome": None, "judgement": None}
    assert "planner" not in patch


def test_the_planner_and_its_last_plan_are_read_back_and_what_no_longer_holds_is_taken_away() -> None:
    grant = GrantStatus(4, 8.0, 4096, "two jobs share 8 CPU")
    planner = PlannerStatus(PlannerState.PAUSED, 1_800_000_050.0, "scaled by hand", dry_run=True)
    led = replace(planner, brain=BRAIN_AWAY, grant=grant)
    plan = PlanStatus("auto-2", "8 workers", "2026-01-01T00:00:00Z", "plan_job", "kept", "better")
    patch = status_patch(replace(STATUS, planner=planner), generation=1, last_plan=plan)
    assert patch["planner"] == {
        "state": "paused",
        "reason": "scaled by hand",
        "until": "2027-01-15T08:00:50Z",
        "plan": None,
        "dry_run": True,
        "brain": None,
        "grant": None,
    }
    assert status_patch(replace(STATUS, planner=led), generation=1, last_plan=plan)["planner"] == {
        **patch["planner"],
        "brain": "away",
        "grant": {"nodes": 4, "cpu": 8.0, "memory_mb": 4096, "reason": "two jobs share 8 CPU"},
    }
    found = status_of_resource({"metadata": {"name": "digits"}, "spec": SPEC, "status": patch}, 5.0)
    assert (found.planner, found.last_plan) == (planner, plan)
    patch = status_patch(replace(STATUS, planner=led), generation=1, last_plan=plan)
    found = status_of_resource({"metadata": {"name": "digits"}, "spec": SPEC, "status": patch}, 5.0)
    assert (found.planner, found.optimize) == (led, "cluster")


def test_workers_that_are_done_count_as_there() -> None:
    status = replace(STATUS, roles=(RoleStatus("worker", 1, 3, 3, succeeded=3),))
    assert status_patch(status, generation=1, last_plan=None)["workers"] == "3/3"


def test_what_no_longer_holds_is_taken_away() -> None:
    patch = status_patch(JobStatus("digits", Phase.SUCCEEDED), generation=0, last_plan=None)
    assert (patch["progress"]["eta"], patch["progress"]["loss"]) == (None, None)
    assert patch["suspended"] is None
    assert "last_plan" not in patch


def test_a_status_is_read_back_as_far_as_the_resource_holds_it() -> None:
    job = {
        "metadata": {"name": "digits"},
        "spec": SPEC,
        "status": status_patch(STATUS, generation=1, last_plan=PLAN),
    }
    found = status_of_resource(job, 1_800_000_100.0)
    assert (found.name, found.phase, found.message) == (STATUS.name, STATUS.phase, STATUS.message)
    assert (found.roles, found.progress, found.last_plan) == (STATUS.roles, STATUS.progress, PLAN)
    assert (found.started_at, found.seconds, found.goodput) == (STATUS.started_at, 100.0, 87.6)


def test_a_job_that_nobody_took_up_is_pending() -> None:
    found = status_of_resource({"metadata": {"name": "digits"}, "spec": SPEC}, 5.0)
    assert (found.phase, found.datasets, found.seconds) == (Phase.PENDING, (), 0.0)
    assert [(role.name, role.wanted, role.ready) for role in found.roles] == [("worker", 4, 0), ("ps", 1, 0)]


def test_conditions_are_those_of_the_operator() -> None:
    condition = {
        "type": "MasterReady",
        "status": "False",
        "reason": "NoPod",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    job = {"metadata": {"name": "digits"}, "spec": SPEC, "status": {"phase": "Creating", "conditions": [condition]}}
    (found,) = status_of_resource(job, 5.0).conditions
    assert (found.type, found.status, found.reason, found.since) == (
        "MasterReady",
        "False",
        "NoPod",
        "2026-01-01T00:00:00Z",
    )


def test_an_elastic_job_is_never_interrupted() -> None:
    assert set(PHASES) == {phase.value for phase in Phase} - {"Interrupted"}


@pytest.mark.parametrize(("seconds", "text"), [(5, "5s"), (270, "4m30s"), (7260, "2h1m"), (90000, "1d1h")])
def test_a_duration_has_two_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_time_that_cannot_be_read_is_the_default() -> None:
    assert seconds_of(rfc3339(1_800_000_000.0)) == 1_800_000_000.0
    assert (seconds_of(None), seconds_of("yesterday", 3.0)) == (0.0, 3.0)


def test_a_role_that_is_scaled_to_zero_wants_no_node() -> None:
    spec = {"roles": {"worker": {"replicas": {"min": 0, "max": 4, "wanted": 0}}}}
    (asked,) = status_of_resource({"metadata": {"name": "digits"}, "spec": spec}, 5.0).roles
    assert asked.wanted == 0
    status = {"roles": {"worker": {"wanted": 0}}}
    (told,) = status_of_resource({"metadata": {"name": "digits"}, "spec": SPEC, "status": status}, 5.0).roles[:1]
    assert told.wanted == 0


def test_what_a_job_waits_for_is_told_and_taken_away_again() -> None:
    waiting = Condition("WaitingForNodes", "True", "ScaledToZero", "worker scaled to 0", "2026-01-01T00:00:00Z")
    patch = status_patch(replace(STATUS, conditions=(waiting,)), generation=1, last_plan=None)
    assert patch["waiting"] == {"reason": "ScaledToZero", "message": "worker scaled to 0"}
    assert "conditions" not in patch, "those are the operator's"
    assert status_patch(STATUS, generation=1, last_plan=None)["waiting"] is None


def test_checkpoints_are_told_with_what_is_wrong_and_read_back() -> None:
    good = CheckpointStatus("/saved", written=4, last_step=400, last_time=1_800_000_000.0, failures=1, reason="past")
    bad = CheckpointStatus(
        "s3://b",
        failures=3,
        failures_in_a_row=3,
        failing_since=1_800_000_000.0,
        reason="no space left",
        hint="free some",
    )
    patch = status_patch(replace(STATUS, checkpoints=(good, bad)), generation=1, last_plan=None)
    told = {"directory": "/saved", "last_step": 400, "last_time": "2027-01-15T08:00:00Z", "failures": 1}
    first, second = patch["checkpoints"]
    assert first == {**told, "failures_in_a_row": 0}
    assert second["message"] == "no space left; what to do: free some"
    assert second["failing_since"] == "2027-01-15T08:00:00Z"
    read = status_of_resource({"metadata": {"name": "digits"}, "spec": SPEC, "status": patch}, 1_800_000_100.0)
    assert [(c.directory, c.last_step, c.failures_in_a_row) for c in read.checkpoints] == [
        ("/saved", 400, 0),
        ("s3://b", 0, 3),
    ]
    assert "checkpoints" not in status_patch(STATUS, generation=1, last_plan=None)
