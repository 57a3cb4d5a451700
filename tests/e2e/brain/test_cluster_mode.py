"""Jobs that the Brain plans for, as users start them; then everything is killed and frozen in the middle."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.auto.planned_job import PLANNING_TIMEOUT_S, PlannedJob
from tests.e2e.brain.brain_process import BrainProcess

from pliant.core.events import EventKind
from pliant.core.planning.plan_record import Outcome
from pliant.core.status import JobStatus
from pliant.testing.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
WAITING = ("--seconds", "0.05")


@pytest.fixture
def brain(tmp_path: Path) -> Iterator[BrainProcess]:
    with BrainProcess(tmp_path / "brain", "--no-monitor") as found:
        yield found


def job_of(folder: Path, *, optimize: Mapping[str, Any] | None = None, **others: Any) -> PlannedJob:
    return PlannedJob(folder, "wait", *WAITING, optimize={"mode": "cluster", **(optimize or {})}, **others)


def check_each_offer_was_planned_once(job: PlannedJob) -> None:
    origins = [plan.origin for plan in job.plans() if plan.origin]
    assert len(origins) == len(set(origins))


def check_records(brain: BrainProcess, job: PlannedJob) -> None:
    """The sum in the database is what was accepted."""
    total = job.summary()["progress"]["records_total"]
    assert brain.accepted(job.name) == total


def records_done(job: PlannedJob) -> int:
    status = job.status()
    return status.progress.records_done if status is not None else 0


def wait_for_progress(job: PlannedJob, records: int = 100) -> None:
    target = records_done(job) + records
    job.until(lambda: records_done(job) >= target, "progress", PLANNING_TIMEOUT_S)


def test_a_job_gets_its_plans_from_the_brain_and_all_of_it_is_in_the_database(
    tmp_path: Path, brain: BrainProcess
) -> None:
    with job_of(tmp_path, workers="1:6") as job:
        job.wait_for_replicas("worker", 6)
        job.until(lambda: [p for p in job.plans() if p.achieved_rate and p.outcome is Outcome.KEPT], "a judgement", 240)
        job.finish()
        plans = job.plans()
    grown = [plan for plan in plans if plan.proposal.configuration.worker.replicas > plan.before.worker.replicas]
    assert grown
    assert all(plan.origin for plan in grown), "the master planned nothing by itself"
    check_each_offer_was_planned_once(job)
    check_records(brain, job)
    stored = {row.offer: row for row in brain.ask("SELECT offer, outcome, achieved_rate, algorithm FROM plans")}
    for plan in plans:
        if plan.origin:
            assert stored[plan.origin].outcome == plan.outcome.value
    [(phase, taught)] = brain.ask("SELECT phase, taught_rate FROM jobs")
    assert phase == "Succeeded"
    assert taught


def test_a_second_job_of_the_kind_starts_with_what_the_first_ended_with(tmp_path: Path, brain: BrainProcess) -> None:
    with job_of(tmp_path, workers="3:3", name="fit-1") as job:
        job.until(lambda: brain.ask("SELECT number FROM periods"), "something measured", PLANNING_TIMEOUT_S)
        job.finish()
    with job_of(tmp_path, workers="1:9", name="fit-2", command_of="fit-1") as again:
        first = again.until(lambda: again.plans(), "a plan", PLANNING_TIMEOUT_S)[0]
        again.finish()
    assert first.origin
    assert first.proposal.algorithm == "create_from_history"
    assert first.proposal.configuration.worker.replicas == 3


def test_a_brain_that_is_killed_and_comes_back_goes_on_where_it_was(tmp_path: Path, brain: BrainProcess) -> None:
    with job_of(tmp_path, workers="1:6") as job:
        for _ in range(3):
            wait_for_progress(job)
            brain.kill()
            wait_for_progress(job)
            brain.start()
        job.wait_for_replicas("worker", 6)
        job.finish()
    check_each_offer_was_planned_once(job)
    check_records(brain, job)


def test_a_job_whose_brain_is_away_plans_by_itself_and_hands_over_when_it_is_back(
    tmp_path: Path, brain: BrainProcess
) -> None:
    with job_of(tmp_path, workers="1:6") as job:
        wait_for_progress(job)
        brain.kill()
        job.until(lambda: job.events(EventKind.BRAIN_LOST), "the fallback", PLANNING_TIMEOUT_S)
        job.wait_for_replicas("worker", 6)
        by_itself = [plan for plan in job.plans() if not plan.origin]
        brain.start()
        job.until(lambda: len(job.events(EventKind.BRAIN_FOUND)) > 1, "the hand-over", PLANNING_TIMEOUT_S)
        job.finish()
    check_each_offer_was_planned_once(job)
    check_records(brain, job)
    assert brain.ask("SELECT count(*) FROM plans WHERE offer IS NULL OR offer = ''")[0][0] >= len(by_itself) > 0


def test_the_brain_and_the_master_killed_at_once_lose_nothing(tmp_path: Path, brain: BrainProcess) -> None:
    with job_of(tmp_path, workers="1:4") as job:
        for _ in range(2):
            wait_for_progress(job)
            brain.kill()
            job.kill_master()
            brain.start()
            wait_for_progress(job)
        job.finish()
    check_each_offer_was_planned_once(job)
    check_records(brain, job)
    [(session,)] = brain.ask("SELECT session FROM jobs")
    assert session == 3, "one for each master"


def test_a_frozen_brain_is_replaced_and_changes_nothing_when_it_wakes_up(tmp_path: Path) -> None:
    """As after a partition: the frozen one believes that it is active."""
    folder = tmp_path / "brain"
    with (
        BrainProcess(folder, "--no-monitor") as frozen,
        job_of(tmp_path, workers="1:4") as job,
    ):
        wait_for_progress(job)
        frozen.send(signal.SIGSTOP)
        other = BrainProcess(folder, "--no-monitor")
        try:
            other.start()
            job.until(lambda: other.accepted(job.name) >= records_done(job) // 2, "reports to the other one", 120)
            frozen.send(signal.SIGCONT)
            wait_until(lambda: "lost its lease" in frozen.log(), what="the frozen one to notice")
            wait_for_progress(job)
            job.finish()
            check_each_offer_was_planned_once(job)
            check_records(other, job)
        finally:
            frozen.stop()
            other.stop()


def nodes_of(status: JobStatus | None) -> int:
    return len(status.live_nodes) if status is not None else 0


def test_two_jobs_share_a_quota_and_nobody_starves(tmp_path: Path, brain: BrainProcess) -> None:
    brain.set_quota("team", nodes=4)
    shared = {"quota": "team"}
    seen = []
    with (
        job_of(tmp_path, workers="1:8", optimize=shared, name="one") as one,
    ):
        one.wait_for_replicas("worker", 4)
        with job_of(tmp_path, workers="1:8", optimize=shared, name="two") as two:

            def both_run() -> bool:
                counts = nodes_of(one.status()), nodes_of(two.status())
                seen.append(sum(counts))
                return min(counts) >= 1 and sum(counts) <= 4 and all(done_by(job) for job in (one, two))

            wait_until(both_run, what="both jobs to run", timeout=PLANNING_TIMEOUT_S, every=0.2)
            one.finish()
            two.wait_for_replicas("worker", 4)
            two.finish()
    assert max(seen) <= 4
    for job in (one, two):
        check_records(brain, job)


def done_by(job: PlannedJob) -> bool:
    return records_done(job) > 0


def test_a_job_of_low_priority_makes_room_and_goes_on_later(tmp_path: Path, brain: BrainProcess) -> None:
    brain.set_quota("team", nodes=2)
    low = {"quota": "team", "preemptible": True, "priority": 1}
    high = {"quota": "team", "priority": 9}
    with job_of(tmp_path, workers="2:2", optimize=low, name="low") as patient:
        wait_for_progress(patient, 20)
        with job_of(tmp_path, workers="2:2", optimize=high, name="high") as urgent:
            urgent.until(lambda: done_by(urgent), "the job of high priority", PLANNING_TIMEOUT_S)
            status = patient.status()
            assert nodes_of(status) == 0
            assert status is not None
            assert "waiting for the quota" in status.reason
            urgent.finish()
        wait_for_progress(patient, 20)
        patient.finish()
    check_records(brain, patient)
    check_records(brain, urgent)
