"""Reports of checkpoints at a real master: events, status, metrics, what survives it, and what follows for the job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pliant.core.errors import InvalidRequest
from pliant.core.events import EventKind
from pliant.core.job import Phase
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.status import CHECKPOINTS_FAILING, JobStatus
from pliant.core.summary import JobSummary
from pliant.master.journal.store import read_events
from pliant.master.metrics import status_metrics
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.status import status_from_message
from pliant.testing import FakeAgent, ManualClock, RunningMaster, wait_until

JOB = {"roles": {"worker": {"command": ["true"], "replicas": 2}}, "fault": {"grace": 0.1}}
FAILS = {**JOB, "checkpoint": {"every_steps": 10, "on_failure": "fail", "max_failures": 3}}
THERE = "/full"


def report(master: RunningMaster, step: int, problem: str = "", node: str = "worker-0") -> None:
    hint = "free some" if problem else ""
    request = pb.CheckpointReport(node=node, directory=THERE, step=step, problem=problem, hint=hint)
    master.client.call(master.client.stubs.checkpoints.Report, request)


def status(master: RunningMaster) -> JobStatus:
    return status_from_message(master.client.call(master.client.stubs.job.GetStatus, pb.Empty()))


def summary(master: RunningMaster) -> JobSummary:
    found = master.job_dir.summary()
    assert found is not None
    return JobSummary.from_json(found)


def events(master: RunningMaster, *kinds: EventKind) -> list[dict[str, Any]]:
    found = read_events(master.job_dir.journal, limit=1000)
    return [record.facts for record in found if record.kind in kinds]


def unusable(master: RunningMaster, node: str = "worker-0") -> bool:
    request = pb.UnusableDestination(node=node, directory=THERE, problem="no space left", hint="free some")
    reply = master.client.call(master.client.stubs.checkpoints.ReportUnusable, request)
    return bool(reply.proceed)


def workers(master: RunningMaster) -> list[FakeAgent]:
    wait_until(lambda: len(master.platform.running()) == 2, what="two workers")
    return [FakeAgent(master.client, f"worker-{n}", pid=100 * (n + 1)).starts() for n in range(2)]


def test_hours_of_failures_are_a_few_events_and_an_exact_count_and_recovery_is_said(tmp_path: Path) -> None:
    clock = ManualClock()
    with RunningMaster(tmp_path, JOB, clock=clock) as master:
        report(master, 10)
        for number in range(20):
            for node in ("worker-0", "worker-1"):
                report(master, 20 + number, f"no space left ({node})", node)
            clock.advance(600)
        shown = status(master)
        report(master, 100)
        report(master, 100, node="worker-1")
        after = status(master)
    (found,) = shown.checkpoints
    assert (found.directory, found.last_step, found.written) == (THERE, 10, 1)
    assert (found.failures, found.failures_in_a_row, found.node) == (20, 20, "worker-0")
    assert (found.reason, found.hint) == ("no space left (worker-0)", "free some")
    (condition,) = [c for c in shown.conditions if c.type == CHECKPOINTS_FAILING]
    assert condition.status == "True"
    assert shown.warnings == [condition.message]
    assert "cannot be written to /full: no space left" in condition.message
    counts = [facts["failures"] for facts in events(master, EventKind.CHECKPOINT_FAILED)]
    assert counts == [1, 2, 4, 8, 16]
    (recovered,) = events(master, EventKind.CHECKPOINT_RECOVERED)
    assert (recovered["failures"], recovered["step"]) == (20, 100)
    assert recovered["seconds"] == pytest.approx(12_000)
    assert after.warnings == []
    assert (after.checkpoints[0].failures_in_a_row, after.checkpoints[0].last_step) == (0, 100)


def test_it_survives_the_master(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, JOB, clock=ManualClock()) as master:
        report(master, 10)
        report(master, 20, "no space left")
        before = status(master).checkpoints
        master.restart()
        assert status(master).checkpoints == before
        report(master, 20, "no space left")
        report(master, 30, "no space left")
        assert status(master).checkpoints[0].failures_in_a_row == 2
    assert [facts["failures"] for facts in events(master, EventKind.CHECKPOINT_FAILED)] == [1, 2]


def test_prometheus_has_failures_and_the_newest_good_one(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, JOB, clock=ManualClock()) as master:
        report(master, 20, "no space left")
        failing = samples(status(master))
        report(master, 30)
        good = samples(status(master))
        time = status(master).checkpoints[0].last_time
    assert failing["pliant_checkpoint_failures_total"] == 1
    assert failing["pliant_checkpoint_failures_in_a_row"] == 1
    assert "pliant_checkpoint_last_success_timestamp_seconds" not in failing
    assert good["pliant_checkpoint_failures_total"] == 1
    assert good["pliant_checkpoint_failures_in_a_row"] == 0
    assert good["pliant_checkpoint_last_step"] == 30
    assert good["pliant_checkpoint_last_success_timestamp_seconds"] == time


def samples(shown: JobStatus) -> dict[str, float]:
    found = {}
    for family in status_metrics(shown):
        for sample in family.samples:
            if "checkpoint" in sample.name:
                assert sample.labels == {"job": "tested", "directory": THERE}
                found[sample.name] = sample.value
    return found


def test_with_fail_the_job_fails_at_the_limit_and_says_where_why_and_what_to_do(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, FAILS) as master:
        workers(master)
        report(master, 10, "no space left")
        report(master, 20, "no space left")
        assert status(master).phase is Phase.RUNNING
        report(master, 30, "no space left")
        assert master.join() is Phase.FAILED
        reason = summary(master).reason
    assert reason == (
        "3 checkpoints in a row could not be written to /full (limit 3), last: no space left; what to do: free some"
    )


@pytest.mark.parametrize(("job", "phase"), [(JOB, Phase.SUCCEEDED), (FAILS, Phase.FAILED)], ids=["warn", "fail"])
def test_a_job_without_its_last_checkpoint_is_no_untroubled_success(
    tmp_path: Path, job: dict[str, Any], phase: Phase
) -> None:
    with RunningMaster(tmp_path, job) as master:
        agents = workers(master)
        report(master, 10)
        report(master, 20, "no space left", "worker-1")
        for agent in agents:
            agent.program_exits(ExitReason.COMPLETED)
        assert master.join() is phase
        shown = summary(master).status
    assert len(shown.warnings) == 1
    if phase is Phase.FAILED:
        assert "the last checkpoint could not be written to /full: no space left" in shown.reason
        assert "the newest there is that of step 10; what to do: free some" in shown.reason


def test_with_fail_a_job_whose_last_checkpoint_is_there_succeeds_whatever_went_wrong_before(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, FAILS) as master:
        agents = workers(master)
        report(master, 10, "no space left")
        report(master, 20)
        for agent in agents:
            agent.program_exits(ExitReason.COMPLETED)
        assert master.join() is Phase.SUCCEEDED


def test_a_destination_that_is_unusable_before_training_keeps_nodes_from_starting(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, JOB) as master:
        workers(master)
        assert not unusable(master)
        assert status(master).checkpoints == ()
    (facts,) = events(master, EventKind.CHECKPOINT_UNUSABLE)
    assert facts == {"node": "worker-0", "directory": THERE, "reason": "no space left", "hint": "free some"}


def test_a_node_that_comes_later_trains_all_the_same_and_the_job_warns(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, JOB) as master:
        workers(master)
        step = pb.ReportStepRequest(node="worker-0", step=12)
        master.client.call(master.client.stubs.stats.ReportStep, step)
        assert unusable(master, "worker-1")
        assert unusable(master, "worker-1")
        shown = status(master)
        report(master, 5)
        after = status(master)
    assert shown.checkpoints[0].failures_in_a_row == 1
    assert len(shown.warnings) == 1
    assert after.warnings == [], "any complete checkpoint shows that it can be used"


def test_reports_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, JOB) as master:
        with pytest.raises(InvalidRequest, match="step -4"):
            report(master, -4)
        with pytest.raises(InvalidRequest, match="0 characters"):
            master.client.call(master.client.stubs.checkpoints.Report, pb.CheckpointReport(step=1))
