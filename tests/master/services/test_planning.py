"""What a master answers about its plans, and what commands show of them with and without a master."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest

from pliant.core.errors import NotAvailable
from pliant.core.planning.history import StepParts
from pliant.core.planning.planner_state import PlannerState
from pliant.core.planning.reports import JobPlans
from pliant.core.summary import JobSummary
from pliant.handles.local import LocalJob
from pliant.master.controller import JobController
from pliant.master.explanation import plans_of
from pliant.master.offline import JobOnDisk
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.planning import explain_from, plans_from
from pliant.testing import FakeAgent, RunningMaster, wait_until

DATASET = {"name": "train", "size": 100, "shard_size": 10}
PLANNED: dict[str, Any] = {
    "optimize": {"mode": "single-job", "interval": "1h"},
    "roles": {"worker": {"command": ["true"], "replicas": "1:8"}},
    "datasets": [DATASET],
}
MANUAL = {**PLANNED, "optimize": "manual", "roles": {"worker": {"command": ["true"], "replicas": 2}}}


def plans(master: RunningMaster) -> JobPlans:
    return plans_from(master.client.call(master.client.stubs.planning.GetPlans, pb.Empty()))


def planned(master: RunningMaster) -> JobPlans:
    """Once the first configuration is planned."""
    return wait_until(lambda: found if (found := plans(master)).plans else None, what="the first plan")


def test_the_first_plan_is_served_with_the_planners_state(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, PLANNED) as master:
        found = planned(master)
        assert found.planner is not None
        assert found.planner.state is PlannerState.OBSERVING
        [first] = found.plans
        assert (first.id, first.proposal.algorithm, first.standing) == ("auto-1", "create_from_history", "kept")
        status = master.run_inside(lambda job: job.status())
        assert status.optimize == "single-job"
        assert status.last_plan is not None
        assert (status.last_plan.name, status.last_plan.outcome) == ("auto-1", "kept")


def test_a_persons_change_pauses_the_planner_and_is_the_last_change(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, PLANNED) as master:
        planned(master)
        client = master.client
        request = pb.ScaleRequest(role="worker", replicas=5, reason="more tonight")
        client.call(client.stubs.job.Scale, request)
        planner = plans(master).planner
        assert planner is not None
        assert planner.state is PlannerState.PAUSED
        assert "more tonight" in planner.sentence(planner.until - 60)
        status = master.run_inside(lambda job: job.status())
        assert status.last_plan is not None
        assert (status.last_plan.reason, status.last_plan.algorithm) == ("more tonight", "")


def test_an_explanation_says_what_is_missing_before_anything_was_measured(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    with RunningMaster(tmp_path, PLANNED) as master:
        planned(master)
        found = explain_from(master.client.call(master.client.stubs.planning.Explain, pb.Empty(), timeout=60))
        assert found.explanation is not None
        assert (found.explanation.rate, found.time) == (None, None)
        assert found.explanation.not_yet
        assert [plan.id for plan in found.plans] == ["auto-1"]


def test_of_a_job_that_plans_nothing_it_is_said_where_the_time_goes(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, MANUAL) as master:
        wait_until(lambda: len(master.platform.running()) == 2)
        agent = FakeAgent(master.client, "worker-0", pid=77)
        agent.starts()
        for read_at, data in ((10.0, 0.0), (20.0, 2.5)):
            usage = pb.Usage(cpu=1.0, memory_mb=10, time=pb.TimeSpent(data=data, began=1.0, read_at=read_at))
            request = pb.HeartbeatRequest(node="worker-0", incarnation=agent.incarnation, usage=usage)
            master.client.call(master.client.stubs.nodes.Heartbeat, request)
        found = LocalJob(master.job_dir).explain()
        assert (found.planner, found.explanation, found.plans) == (None, None, ())
        assert found.time == StepParts(0.25, 0.75, 0.0)
        assert plans(master) == JobPlans("tested")


def test_without_numpy_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunningMaster(tmp_path, PLANNED) as master:
        planned(master)
        monkeypatch.setitem(sys.modules, "pliant.core.planning.explain", None)
        with pytest.raises(NotAvailable, match="not installed") as raised:
            LocalJob(master.job_dir).explain()
        assert raised.value.hint == "pip install 'pliant[auto]'"


def test_nobody_reads_plans_without_the_token(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, PLANNED) as master:
        for method in (master.client.stubs.planning.GetPlans, master.client.stubs.planning.Explain):
            with pytest.raises(grpc.RpcError) as raised:
                method(pb.Empty(), timeout=10)
            assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_replayed_journal_has_the_plans_of_the_living_master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert LocalJob.command.__kwdefaults__ is not None
    monkeypatch.setitem(LocalJob.command.__kwdefaults__, "retry_timeout", 0.2)  # nobody starts this master again
    with RunningMaster(tmp_path, PLANNED) as master:
        living = planned(master)

        def inside(job: JobController) -> JobPlans:
            return plans_of(job.name, job.state)

        assert master.run_inside(inside) == living
        assert plans_of("tested", JobOnDisk(master.job_dir).state) == living
        master.kill()
        found = LocalJob(master.job_dir).plans()
        assert (found.plans, found.planner) == (living.plans, living.planner)
        assert found.note.endswith("shown from the journal")
        explained = LocalJob(master.job_dir).explain()
        assert (explained.plans, explained.note) == (living.plans, found.note)
        master.start()


def test_the_summary_keeps_the_plans_of_an_ended_job(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, PLANNED) as master:
        before = planned(master)
        master.stop_job("enough")
        value = master.job_dir.summary()
    assert value is not None
    assert JobSummary.from_json(json.loads(json.dumps(value))).plans == before.plans
    found = LocalJob(master.job_dir).plans()
    assert found.plans == before.plans
    assert found.note == "the job has ended (Stopped: enough)"
