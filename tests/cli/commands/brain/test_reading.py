"""``pliant brain jobs``, ``show`` and ``plans`` say what masters reported."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.brain.store.reporting import DESCRIPTION, HISTORY, TWO, identity, node, period, plan, proposal, report
from tests.cli.commands.brain.conftest import BrainCommands, invoke

from pliant.brain.store.database import Database
from pliant.brain.store.events import AlgorithmRun, StoredEvent, store_event, store_run
from pliant.brain.store.plans import store_offer
from pliant.brain.store.quotas import store_grant
from pliant.brain.store.reports import write_reports
from pliant.core.planning.cluster.offer import Grant, Offer
from pliant.core.planning.plan_record import Outcome

pytestmark = pytest.mark.databases

NOW = time.time()
DAY, HOUR = 86400.0, 3600.0
OLD = identity("old", "u2")
JUDGED: dict[str, Any] = {"achieved_rate": 25.0, "achieved_error": 0.5, "ended_at": NOW - 50, "judgement": "faster"}


def fill(database: Database) -> None:
    """One job that runs, with two plans and an offer; one that ended ten days ago, and an earlier one of its name."""
    kept = plan("p1", time=NOW - 4 * HOUR, outcome=Outcome.KEPT, **JUDGED)
    undone = plan("p2", time=NOW - HOUR, outcome=Outcome.ROLLED_BACK, **{**JUDGED, "achieved_rate": 20.0})
    running = report(
        1, 4200, nodes=(node("worker-0"), node("worker-1")), periods=(period(1),), plans=(kept, undone), history=HISTORY
    )
    lost = replace(report(4, 5000), description=None)
    other = replace(DESCRIPTION, owner="bob", quota="speech", mode="single-job")
    write_reports(database, [running, lost], NOW - 5)
    write_reports(database, [report(1, 5, job=identity("old", "u0"), description=other)], NOW - 11 * DAY)
    write_reports(database, [report(1, 10, job=OLD, description=other, phase="Succeeded")], NOW - 10 * DAY)
    store_offer(database, identity(), Offer("o1", proposal("even more"), 4, 60.0), NOW - 10, NOW + 50)
    store_grant(database, identity(), Grant("resnet-1", 1, TWO, "two jobs share 8 CPU", 5.0), NOW - 20)
    store_event(database, StoredEvent("e1", identity(), "measured", "10 records per second", NOW - 30))
    for algorithm, outcome in (("plan_job", "proposed"), ("off_peak", "raised"), ("probe", "nothing")):
        run = AlgorithmRun(identity(), "e1", algorithm, NOW - 30, 0.2, outcome, "KeyError: 'night' (off_peak.py:7)")
        store_run(database, run)


def names(rows: list[dict[str, object]]) -> list[object]:
    return [row["name"] for row in rows]


def test_jobs_that_run_are_listed_with_their_last_plan_and_what_was_lost(brain: BrainCommands) -> None:
    fill(brain.database)
    [found] = brain.json("jobs")
    assert (found["namespace"], found["name"], found["phase"]) == ("team", "resnet-1", "Running")
    assert (found["quota"], found["priority"], found["mode"], found["owner"]) == ("vision", 5, "cluster", "ann")
    assert (found["records"], found["records_per_second"], found["nodes_running"]) == (5000, 12.5, 2)
    assert (found["reports_lost"], found["last_heard_at"]) == (2, NOW - 5)
    assert (found["last_plan"]["outcome"], found["last_plan"]["reason"]) == ("offered", "even more")
    table = brain("jobs").stdout
    assert "team/resnet-1" in table
    assert "plan_job, offered" in table


def test_ended_jobs_are_listed_on_request_by_time_quota_and_owner(brain: BrainCommands) -> None:
    fill(brain.database)
    assert names(brain.json("jobs", "--all")) == ["resnet-1", "old", "old"]
    assert names(brain.json("jobs", "--since", "10d12h")) == ["resnet-1", "old"]
    assert names(brain.json("jobs", "--since", "1d")) == ["resnet-1"]
    assert names(brain.json("jobs", "--all", "--quota", "speech")) == ["old", "old"]
    assert names(brain.json("jobs", "--all", "--owner", "ann")) == ["resnet-1"]
    assert brain.json("jobs", "--owner", "bob") == []
    assert "--all" in brain("jobs", "--owner", "bob").stdout


def test_a_job_is_shown_with_everything_that_is_known_of_it(brain: BrainCommands) -> None:
    fill(brain.database)
    found = brain.json("show", "resnet-1")
    assert found["description"]["fingerprint"]["program"] == "train.py"
    assert [each["name"] for each in found["nodes"]] == ["worker-0", "worker-1"]
    assert found["periods"][0]["rate"] == 10.0
    assert [(each["kind"], each["reason"]) for each in found["events"]] == [("measured", "10 records per second")]
    assert [each["outcome"] for each in found["plans"]] == ["offered", "rolled back", "kept"]
    assert [each["algorithm"] for each in found["failed_runs"]] == ["off_peak"], "those that saw nothing did not fail"
    assert [each["reason"] for each in found["grants"]] == ["two jobs share 8 CPU"]
    view = brain("show", "team/resnet-1").stdout
    for part in (
        "workers 2 x (1 CPU, 1024 MB): two jobs share 8 CPU",
        "has not confirmed",
        "KeyError",
        "2 reports lost",
    ):
        assert part in view


def test_the_newest_job_of_a_name_is_shown(brain: BrainCommands) -> None:
    fill(brain.database)
    found = brain.json("show", "old")
    assert (found["uid"], found["earlier_jobs"], found["plans"]) == ("u2", 1, [])


def test_a_name_in_two_namespaces_has_to_be_said_in_whole(brain: BrainCommands) -> None:
    fill(brain.database)
    write_reports(brain.database, [report(1, job=replace(identity(), namespace="other"))], NOW)
    result = brain("show", "resnet-1")
    assert result.exit_code == 2
    assert "other/resnet-1, team/resnet-1" in result.stderr
    assert brain.json("show", "other/resnet-1")["namespace"] == "other"


def test_unknown_jobs_and_times_are_usage_errors_that_say_what_to_do(brain: BrainCommands) -> None:
    for args, hint in (
        (("show", "nothing"), "pliant brain jobs --all"),
        (("plans", "nothing"), "pliant brain jobs --all"),
        (("plans", "--since", "yesterday"), "--since 7d"),
    ):
        result = brain(*args)
        assert (result.exit_code, hint in result.stderr) == (2, True), result.output


def test_plans_are_shown_with_what_came_of_them_and_algorithms_are_summed_up(brain: BrainCommands) -> None:
    fill(brain.database)
    found = brain.json("plans")
    offered, undone, kept = found["plans"]
    assert (offered["plan"], offered["offer"], offered["outcome"]) == ("", "o1", "offered")
    assert (undone["plan"], undone["error"], undone["is_inside"], undone["outcome"]) == ("p2", 0.0, True, "rolled back")
    assert (kept["error"], kept["is_inside"], kept["judgement"]) == (0.2, False, "faster")
    assert found["algorithms"] == [
        {
            "algorithm": "plan_job",
            "plans": 2,
            "kept": 1,
            "rolled_back": 1,
            "compared": 2,
            "median_error": 0.1,
            "coverage": 0.5,
        }
    ]
    assert "18 to 22, outside" in brain("plans").stdout
    assert [each["plan"] for each in brain.json("plans", "team/resnet-1", "--since", "2h")["plans"]] == ["", "p2"]
    assert brain.json("plans", "old")["plans"] == []
    assert brain.json("plans", "--algorithm", "probe") == {"plans": [], "algorithms": []}


def test_the_same_is_read_from_postgresql(brain_on_postgresql: BrainCommands) -> None:
    brain = brain_on_postgresql
    fill(brain.database)
    assert names(brain.json("jobs", "--all")) == ["resnet-1", "old", "old"]
    assert brain.json("jobs")[0]["last_plan"]["outcome"] == "offered"
    assert len(brain.json("show", "resnet-1")["plans"]) == 3
    assert [each["plan"] for each in brain.json("plans", "--algorithm", "plan_job")["plans"]] == ["", "p2", "p1"]
    assert brain("quota", "set", "vision", "--cpu", "8").exit_code == 0
    assert brain("quota", "set", "vision", "--memory", "16Gi").exit_code == 0
    [row] = brain.json("quota")
    assert (row["limit"]["cpu"], row["limit"]["memory_mb"], row["jobs"]) == (8.0, 16384.0, 1)
    assert brain("migrate", "--check").exit_code == 0


def test_without_a_database_nothing_is_created_and_the_error_says_how_to_start_a_brain(tmp_path: Path) -> None:
    for args in (("jobs",), ("show", "digits"), ("plans",), ("quota",), ("evaluate", "--algorithm", "probe")):
        result = invoke(tmp_path / "home", *args)
        assert (result.exit_code, "pliant brain serve" in result.stderr) == (2, True), result.output
    assert not (tmp_path / "home").exists()
