"""Jobs that plan their own resources: what is given is a bound."""

from __future__ import annotations

from typing import Any

import pytest

from pliant.core.errors import SpecError
from pliant.core.planning.planner import Planner
from pliant.spec import JobSpec, initial_state
from pliant.spec.planning import MAX_OPEN, is_automatic
from pliant.spec.quantities import seconds_of, write_duration


def job(replicas: object = None, **more: Any) -> JobSpec:
    role: dict[str, Any] = {"command": ["true"]}
    if replicas is not None:
        role["replicas"] = replicas
    return JobSpec.from_dict({"name": "j", "roles": {"worker": role}, "optimize": "single-job", **more})


@pytest.mark.parametrize(
    ("given", "bounds"),
    [
        (None, (1, MAX_OPEN["worker"], None)),
        (4, (1, 4, None)),
        ("4", (1, 4, None)),
        ("2:8", (2, 8, None)),
        ({"min": 3, "max": 3}, (3, 3, None)),
        ({"min": 1, "max": 8, "wanted": 2}, (1, 8, 2)),
    ],
)
def test_a_number_of_nodes_that_is_given_is_a_bound(given: object, bounds: tuple[int, int, int | None]) -> None:
    replicas = job(given).roles["worker"].replicas
    assert (replicas.min, replicas.max, replicas.wanted) == bounds


def test_only_workers_and_servers_are_left_open_and_a_local_job_has_one_worker() -> None:
    roles = {"worker": {"command": ["true"]}, "ps": {}, "chief": {"command": ["true"]}}
    spec = JobSpec.from_dict({"name": "j", "strategy": "ps-async", "roles": roles, "optimize": {"mode": "single-job"}})
    assert {name: role.replicas.max for name, role in spec.roles.items()} == {"worker": 16, "ps": 4, "chief": 1}
    assert job(strategy="local").roles["worker"].replicas.max == 1


def test_without_planning_a_number_is_a_number() -> None:
    fixed = job(4, optimize="manual").roles["worker"].replicas
    assert (fixed.min, fixed.max) == (4, 4)
    assert initial_state(job(4, optimize="manual")).planner is None
    assert isinstance(initial_state(job(4)).planner, Planner)


@pytest.mark.parametrize("given", [None, 1, 4, "1:1", "2:8"])
def test_a_planned_job_is_the_same_after_a_round_trip_through_yaml(given: object) -> None:
    section = {"mode": "single-job", "deadline": "1h30m", "objective": "fastest", "budget": 2.5, "dry_run": True}
    spec = job(given, optimize=section)
    assert spec.optimize.deadline == 5400.0
    assert JobSpec.from_yaml(spec.to_yaml()) == spec


@pytest.mark.parametrize("optimize", ["single-job", {"mode": "single-job"}, JobSpec.model_fields["optimize"].default])
def test_the_section_is_known_in_all_of_its_forms(optimize: object) -> None:
    assert is_automatic(optimize) is (optimize != JobSpec.model_fields["optimize"].default)


@pytest.mark.parametrize("field", [{"deadline": "2h"}, {"budget": 1}, {"objective": "fastest"}, {"dry_run": True}])
def test_what_is_said_of_plans_needs_somebody_who_plans(field: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="only with mode: single-job"):
        job(optimize={"mode": "manual", **field})


def test_no_maximum_is_below_what_a_node_is_given() -> None:
    role = {"command": ["true"], "resources": {"cpu": 2}, "max_resources": {"cpu": 1}}
    with pytest.raises(SpecError, match=r"max_resources\.cpu: got 1.0; allowed: at least resources\.cpu"):
        JobSpec.from_dict({"roles": {"worker": role}, "optimize": "single-job"})


@pytest.mark.parametrize(
    ("given", "seconds", "written"),
    [
        (0, 0.0, 0),
        (90, 90.0, "90s"),
        ("90s", 90.0, "90s"),
        ("2h", 7200.0, "2h"),
        ("1h30m", 5400.0, "90m"),
        ("1d", 86400.0, "1d"),
        ("0.5s", 0.5, "0.5s"),
        (0.25, 0.25, "0.25s"),
    ],
)
def test_a_duration_is_written_with_its_largest_unit_and_read_back(
    given: object, seconds: float, written: object
) -> None:
    assert seconds_of(given) == seconds
    assert write_duration(seconds) == written
    assert seconds_of(written) == seconds


@pytest.mark.parametrize("given", ["soon", "", "2 hours", "-1s", -1, True, None, "1e9d", float("nan"), float("inf")])
def test_what_is_no_duration_is_refused(given: object) -> None:
    with pytest.raises(ValueError, match=r"allowed|such as|seconds|time"):
        seconds_of(given)


@pytest.mark.parametrize("roles", [{"chief": {"command": ["a"]}}, {"chief": {"command": ["a"]}, "worker": {}}])
def test_a_job_that_plans_has_workers_to_plan(roles: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=r"roles\.worker.*since its nodes are planned"):
        JobSpec.from_dict({"roles": roles, "optimize": "single-job"})


@pytest.mark.parametrize("seconds", [0.001, 0.0015, 1 / 3, 999_999_999.9, 123_456_789.5, 1e9])
def test_every_duration_can_be_read_again(seconds: float) -> None:
    """The job's description is written into its directory, and read by its master."""
    assert seconds_of(write_duration(seconds)) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize("seconds", [1e-9, 0.0009])
def test_a_duration_that_cannot_be_meant_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="a time such as"):
        seconds_of(seconds)
