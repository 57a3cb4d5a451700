"""Servers, workers and masters that are stopped by a signal, in real jobs: training goes on by itself, and counts exactly."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest
from tests.ps.programs import BATCH, check_each_record_counted_once, ps_job

from pliant.core.standstill import STOPPED
from pliant.testing.jobs import LocalJob

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

STRATEGIES = ["ps-sync", "ps-async"]
RECORDS = 1600


def check(job: LocalJob, folder: Path, strategy: str) -> None:
    """It ended well, and each record counted once."""
    (folder / "hurry").touch()
    assert job.wait(200) == 0, job.report()
    per_iteration = 2 * BATCH if strategy == "ps-sync" else BATCH
    check_each_record_counted_once(job, folder, records=RECORDS, epochs=1, per_iteration=per_iteration)
    assert not [event for event in job.events("parameters") if "lost" in event.message], job.report()


def wait_until_training_goes_on(job: LocalJob) -> None:
    done = sum(dataset.records_done for dataset in job.wait_for_progress(0).datasets)
    assert done < RECORDS - 160, "it was over too soon to tell"
    job.wait_for_progress(done + 160)


def is_dead(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_server_that_is_stopped_is_killed_and_started_again(tmp_path: Path, strategy: str) -> None:
    with ps_job(tmp_path, strategy=strategy, records=RECORDS, pause=0.1, parameters={"dump_iterations": 10}) as job:
        job.wait_for_progress(160)
        begun = time.time()
        frozen = job.freeze_program("ps-1")
        job.until(lambda: job.events("frozen"), "the master's word")
        job.until(lambda: is_dead(frozen), "its end")
        wait_until_training_goes_on(job)
        seconds = time.time() - begun
        check(job, tmp_path, strategy)
        nodes = {node["name"]: node for node in job.summary()["nodes"]}
    [event] = job.events("frozen")
    assert event.node == "ps-1"
    assert event.time - begun >= STOPPED
    assert (nodes["ps-1"]["restarts"], set(nodes)) == (1, {"ps-0", "ps-1", "worker-0", "worker-1"})
    print(f"{strategy}: told after {event.time - begun:.1f} s, 160 records later after {seconds:.1f} s")


def test_a_node_of_which_all_is_stopped_is_replaced(tmp_path: Path) -> None:
    """As if its machine hung: its agent is silent, too."""
    with ps_job(tmp_path, records=RECORDS, pause=0.1, parameters={"dump_iterations": 10}) as job:
        job.wait_for_progress(160)
        job.freeze_agent("ps-1")
        job.freeze_program("ps-1")
        job.until(lambda: job.events("hang"), "that it is missed")
        wait_until_training_goes_on(job)
        check(job, tmp_path, "ps-sync")
        nodes = {node["name"]: node for node in job.summary()["nodes"]}
    assert nodes["ps-2"]["replaces"] == "ps-1"
    assert nodes["ps-1"]["exit_reason"] == "Hang"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_worker_that_is_stopped_holds_nobody_up_and_may_come_back(tmp_path: Path, strategy: str) -> None:
    with ps_job(
        tmp_path, strategy=strategy, records=RECORDS, pause=0.05, spec={"fault": {"session_timeout": 3.0}}
    ) as job:
        job.wait_for_progress(160)
        frozen = job.freeze_program("worker-1")
        job.until(lambda: [e for e in job.events("session") if e.node == "worker-1"], "the end of its session")
        wait_until_training_goes_on(job)
        job.thaw(frozen)
        check(job, tmp_path, strategy)
        summary = job.summary()
    assert (summary["restarts"], summary["replacements"]) == (0, 0)


def test_all_records_are_done_though_a_worker_stays_stopped_to_the_end(tmp_path: Path) -> None:
    with ps_job(tmp_path, records=RECORDS, pause=0.05, spec={"fault": {"session_timeout": 3.0}}) as job:
        job.wait_for_progress(160)
        frozen = job.freeze_program("worker-1")
        job.wait_for_progress(RECORDS)
        job.thaw(frozen)
        check(job, tmp_path, "ps-sync")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nobody_is_killed_because_the_master_was_stopped(tmp_path: Path, strategy: str) -> None:
    with ps_job(tmp_path, strategy=strategy, records=RECORDS, pause=0.05) as job:
        job.wait_for_progress(160)
        server = job.freeze_program("ps-1")
        master = job.freeze_master()
        time.sleep(20)  # longer than any time-out that concerns a server or a heartbeat
        job.thaw(server)
        job.thaw(master)
        check(job, tmp_path, strategy)
        summary = job.summary()
    assert not job.events("frozen")
    assert not job.events("hang")
    assert not job.events("session")
    assert (summary["restarts"], summary["replacements"], summary["master_starts"]) == (0, 0, 1)
