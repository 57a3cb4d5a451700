"""Nobody says how many: real jobs that find a configuration by themselves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.e2e.auto.planned_job import PLANNING_TIMEOUT_S, PlannedJob
from typer.testing import CliRunner

from pliant.cli.app import app
from pliant.core.events import EventKind
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.planning.plan_record import Outcome
from pliant.core.planning.planner import PlannerState
from pliant.core.status import JobStatus, RoleStatus
from pliant.platforms.cgroup import why_not
from pliant.testing.load import SLOTS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def test_records_that_wait_scale_to_the_maximum(tmp_path: Path) -> None:
    with PlannedJob(tmp_path, "wait", "--seconds", "0.05", workers="1:6") as job:
        job.wait_for_replicas("worker", 6)
        job.until(lambda: [p for p in job.plans() if p.achieved_rate and p.outcome is Outcome.KEPT], "a judgement", 240)
        job.finish()
        plans = job.plans()
    assert plans[0].proposal.algorithm == "create_from_history"
    assert max(plan.proposal.configuration.worker.replicas for plan in plans) == 6


def test_records_that_share_what_is_scarce_stop_where_it_runs_out(tmp_path: Path) -> None:
    load = ("--seconds", "0.05", "--slots", str(tmp_path / "slot"))
    with PlannedJob(tmp_path, "share", *load, workers="1:8", records=100_000) as job:
        job.wait_for_plan("probe", Outcome.ROLLED_BACK)

        def is_found(status: JobStatus) -> bool:
            worker = status.role("worker")
            return worker is not None and worker.wanted <= 3 * SLOTS and job.planner().under_way is None

        job.wait_for(
            lambda status: is_found(status) or None, "no more workers than can have a slot", PLANNING_TIMEOUT_S
        )
        job.finish()


def test_records_that_compute_stop_near_the_cores(tmp_path: Path) -> None:
    """Only on a machine that does nothing else do workers beyond the cores bring nothing."""
    cores = os.cpu_count() or 1
    is_idle = os.getloadavg()[0] < cores
    with PlannedJob(tmp_path, "compute", "--seconds", "0.02", workers=f"1:{8 * cores}", records=2000 * cores) as job:
        assert job.wait(400) == 0, job.report()
        scaled = [event.facts["replicas"] for event in job.events(EventKind.SCALE)]
        plans = [plan.proposal.reason for plan in job.plans()]
    if is_idle and os.getloadavg()[0] < 2 * scaled[-1]:
        assert scaled[-1] <= 3 * cores, plans


@pytest.mark.skipif(bool(why_not()), reason=f"no limits here: {why_not()}")
def test_servers_with_little_cpu_get_more_instead_of_more_workers(tmp_path: Path) -> None:
    is_idle = os.getloadavg()[0] < (os.cpu_count() or 1)
    servers = {"replicas": "1:3", "resources": {"cpu": 0.1}, "max_resources": {"cpu": 1}}
    load = ("--seconds", "0.005")
    with PlannedJob(tmp_path, "servers", *load, workers="1:8", servers=servers, strategy="ps-async") as job:
        first = job.plans()[0].proposal.configuration
        assert first.server is not None
        servers_before = first.server

        def changed(status: JobStatus) -> RoleStatus | None:
            """On a busy machine nobody has enough CPU, and servers are not what is slow."""
            ps, worker = status.role("ps"), status.role("worker")
            if ps is not None and (ps.cpu > servers_before.cpu or ps.wanted > servers_before.replicas):
                return ps
            return worker if not is_idle and worker is not None and worker.wanted != first.worker.replicas else None

        job.wait_for(changed, "more CPU or more servers", PLANNING_TIMEOUT_S)
        job.interrupt()
        job.wait()


def test_a_master_that_is_killed_in_the_middle_of_a_plan_ends_it_once(tmp_path: Path) -> None:
    with PlannedJob(tmp_path, "wait", "--seconds", "0.05", workers="1:6") as job:
        under_way = job.wait_for_plan("probe", Outcome.CARRIED_OUT)
        job.kill_master()
        job.until(lambda: job.plan(under_way.id).ended_at, "the end of the plan", PLANNING_TIMEOUT_S)
        job.wait_for_replicas("worker", 6)
        job.finish()
        made = [event.facts["plan"] for event in job.events(EventKind.PLAN)]
        ended = [event.facts["plan"] for event in job.events(EventKind.PLAN_ENDED)]
        launched = [event.facts["node"] for event in job.events(EventKind.LAUNCH)]
        first, *scaled = [(event.facts["before"], event.facts["replicas"]) for event in job.events(EventKind.SCALE)]
        replaced = sum(len(plan.proposal.replace) for plan in job.plans())
    assert len(made) == len(set(made))
    assert len(ended) == len(set(ended))
    # A busy machine may have given it a reason to take a plan back, and to try again later.
    wanted = first[1] + sum(max(0, after - before) for before, after in scaled) + replaced
    assert len(launched) == len(set(launched)) == wanted, "a node was launched twice, or not for a plan"


def test_a_worker_that_is_killed_in_the_middle_of_a_plan_comes_back_and_the_plan_ends_once(tmp_path: Path) -> None:
    with PlannedJob(tmp_path, "wait", "--seconds", "0.05", workers="1:6") as job:
        under_way = job.wait_for_plan("probe", Outcome.CARRIED_OUT)
        job.kill_program("worker-0")
        job.until(lambda: job.plan(under_way.id).ended_at, "the end of the plan", PLANNING_TIMEOUT_S)
        job.finish()
        ended = [event.facts["plan"] for event in job.events(EventKind.PLAN_ENDED)]
    assert len(ended) == len(set(ended))
    assert job.summary()["restarts"] >= 1


def test_a_job_that_ends_in_the_middle_of_a_plan_leaves_none_under_way(tmp_path: Path) -> None:
    with PlannedJob(tmp_path, "wait", "--seconds", "0.05", workers="1:6") as job:
        under_way = job.wait_for_plan("probe", Outcome.CARRIED_OUT)
        job.finish()
        assert job.plan(under_way.id).ended_at
        assert job.planner().under_way is None
        shown = CliRunner().invoke(app, ["plans", "--job-dir", str(job.home.path)])
    assert shown.exit_code == 0, shown.output
    assert "under way" not in shown.output


HANGS = """import time
class Hanging:
    def __call__(self, history, now):
        time.sleep(1e6)
"""


def test_an_algorithm_that_hangs_keeps_no_job_from_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "an_algorithm_that_hangs.py").write_text(HANGS)
    path = (str(tmp_path), os.environ.get("PYTHONPATH"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
    optimize = {"algorithms": ["an_algorithm_that_hangs:Hanging"]}
    with PlannedJob(tmp_path, "wait", "--seconds", "0.05", workers="1:2", records=50, optimize=optimize) as job:
        job.finish()


def test_a_person_who_scales_in_the_middle_wins(tmp_path: Path) -> None:
    with PlannedJob(tmp_path, "wait", "--seconds", "0.05", workers="1:6") as job:
        under_way = job.wait_for_plan("probe", Outcome.CARRIED_OUT)
        done = CliRunner().invoke(app, ["scale", "--job-dir", str(job.home.path), "worker=2", "--reason", "mine"])
        assert done.exit_code == 0, done.output
        job.wait_for_replicas("worker", 2)
        [paused] = job.events(EventKind.PLANNER_PAUSED)
        assert paused.facts["reason"] == "mine"
        assert job.plan(under_way.id).outcome is Outcome.SUPERSEDED
        assert job.planner().state is PlannerState.PAUSED
        job.finish()
        last = job.events(EventKind.SCALE)[-1]
    assert last.facts["replicas"] == 2


def test_plans_of_a_dry_run_are_only_shown(tmp_path: Path) -> None:
    with PlannedJob(tmp_path, "wait", "--seconds", "0.05", workers="1:6", optimize={"dry_run": True}) as job:
        job.wait_for_plan("probe", Outcome.ADVISED)
        job.finish()
        assert [plan for plan in job.plans() if plan.outcome is not Outcome.ADVISED] == []
        assert job.events(EventKind.SCALE) == []


@pytest.mark.skipif(bool(why_not()), reason=f"no limits here: {why_not()}")
def test_memory_that_grows_is_given_before_it_runs_out(tmp_path: Path) -> None:
    role = {"resources": {"memory": "250Mi"}}
    load = ("--seconds", "0.02", "--megabytes", "0.2")
    with PlannedJob(tmp_path, "hold", *load, workers="1", role=role, records=4000) as job:
        grown = job.wait_for_plan("memory_forecast", Outcome.KEPT, Outcome.CARRIED_OUT)
        assert grown.proposal.configuration.worker.memory_mb > 250
        job.wait_for(lambda s: s.progress.records_done > 1200 or None, "more memory than the first limit", 120)
        job.finish()
        exits = job.events(EventKind.EXIT)
    assert all(event.facts["exit_reason"] != ExitReason.OOM.value for event in exits)
