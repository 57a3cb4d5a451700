"""Servers, workers and masters that are stopped by a signal, in real jobs: training goes on by itself, and counts exactly."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import yaml
from tests.e2e.ps.counting_job import BATCH, HELD_BACK, check_each_record_counted_once, ps_job

from pliant.core.events import EventKind, EventRecord
from pliant.core.job import Phase
from pliant.core.nodes import stall_detector
from pliant.core.nodes.stall_detector import MAX_STOPPED_S
from pliant.master.journal.store import read_events
from pliant.testing import RunningMaster
from pliant.testing.jobs import LocalJob

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

STRATEGIES = ["ps-sync", "ps-async"]
RECORDS = 3200
LONG = 120.0  # seconds that a failure takes


def check(job: LocalJob, folder: Path, strategy: str) -> None:
    """It ended well, and each record counted once."""
    (folder / "hurry").touch()
    assert job.wait(200) == 0, job.report()
    per_iteration = 2 * BATCH if strategy == "ps-sync" else BATCH
    check_each_record_counted_once(job, folder, records=RECORDS, epochs=1, per_iteration=per_iteration)
    assert not [event for event in job.events(EventKind.PS_REPORT) if "lost" in event.message], job.report()


def wait_until_training_goes_on(job: LocalJob) -> None:
    done = sum(dataset.records_done for dataset in job.wait_for_progress(0).datasets)
    assert done < RECORDS - 160 - 2 * BATCH * HELD_BACK, "it was over too soon to tell"
    job.wait_for_progress(done + 160, LONG)


def is_dead(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_server_that_is_stopped_is_killed_and_started_again(tmp_path: Path, strategy: str) -> None:
    with ps_job(
        tmp_path, strategy=strategy, records=RECORDS, pause=0.1, held=True, parameters={"dump_iterations": 10}
    ) as job:
        job.wait_for_progress(160, LONG)
        begun = time.time()
        frozen = job.freeze_program("ps-1")
        job.until(lambda: job.events(EventKind.FROZEN), "the master's word", LONG)
        job.until(lambda: is_dead(frozen), "its end", LONG)
        wait_until_training_goes_on(job)
        seconds = time.time() - begun
        check(job, tmp_path, strategy)
        nodes = {node["name"]: node for node in job.summary()["nodes"]}
    [event] = job.events(EventKind.FROZEN)
    assert event.node == "ps-1"
    assert event.time - begun >= MAX_STOPPED_S
    assert (nodes["ps-1"]["restarts"], set(nodes)) == (1, {"ps-0", "ps-1", "worker-0", "worker-1"})
    print(f"{strategy}: told after {event.time - begun:.1f} s, 160 records later after {seconds:.1f} s")


def test_a_node_of_which_all_is_stopped_is_replaced(tmp_path: Path) -> None:
    """As if its machine hung: its agent is silent, too."""
    with ps_job(tmp_path, records=RECORDS, pause=0.1, held=True, parameters={"dump_iterations": 10}) as job:
        job.wait_for_progress(160, LONG)
        job.freeze_agent("ps-1")
        job.freeze_program("ps-1")
        job.until(lambda: job.events(EventKind.HANG), "that it is missed", LONG)
        wait_until_training_goes_on(job)
        check(job, tmp_path, "ps-sync")
        nodes = {node["name"]: node for node in job.summary()["nodes"]}
    assert nodes["ps-2"]["replaces"] == "ps-1"
    assert nodes["ps-1"]["exit_reason"] == "Hang"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_worker_that_is_stopped_holds_nobody_up_and_may_come_back(tmp_path: Path, strategy: str) -> None:
    with ps_job(
        tmp_path, strategy=strategy, records=RECORDS, pause=0.1, held=True, spec={"fault": {"session_timeout": 3.0}}
    ) as job:
        job.wait_for_progress(160, LONG)
        frozen = job.freeze_program("worker-1")
        job.until(
            lambda: [e for e in job.events(EventKind.SESSION) if e.node == "worker-1"], "the end of its session", LONG
        )
        wait_until_training_goes_on(job)
        job.thaw(frozen)
        check(job, tmp_path, strategy)
        summary = job.summary()
    assert (summary["restarts"], summary["replacements"]) == (0, 0)


def test_all_records_are_done_though_a_worker_stays_stopped_to_the_end(tmp_path: Path) -> None:
    with ps_job(tmp_path, records=RECORDS, pause=0.05, held=True, spec={"fault": {"session_timeout": 3.0}}) as job:
        job.wait_for_progress(160, LONG)
        frozen = job.freeze_program("worker-1")
        (tmp_path / "hurry").touch()
        job.wait_for_progress(RECORDS, LONG)
        job.thaw(frozen)
        check(job, tmp_path, "ps-sync")


def test_nobody_is_killed_because_the_master_was_stopped(tmp_path: Path) -> None:
    fault = {"heartbeat_timeout": 15.0, "session_timeout": 15.0}  # which nobody who runs exceeds
    with ps_job(tmp_path, records=RECORDS, pause=0.05, held=True, spec={"fault": fault}) as job:
        job.wait_for_progress(160, LONG)
        server = job.freeze_program("ps-1")
        master = job.freeze_master()
        job.outlast(MAX_STOPPED_S, *fault.values())
        job.thaw(server)
        job.thaw(master)
        check(job, tmp_path, "ps-sync")
        summary = job.summary()
    assert not job.events(EventKind.FROZEN)
    assert not job.events(EventKind.HANG)
    assert not job.events(EventKind.SESSION)
    assert (summary["restarts"], summary["replacements"], summary["master_starts"]) == (0, 0, 1)


def run_with_one_that_stays_in_an_update(
    folder: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> tuple[str, dict[str, Any], list[EventRecord]]:
    """Its name, the summary of the job, and events of hangs."""
    monkeypatch.setattr(
        stall_detector, "MAX_SILENT_S", 15.0
    )  # of the master in this process; a minute is long for a test
    program = Path(__file__).parent / "stalling_server.py"
    told = ps_job(folder, records=800, pause=0.02, ps=[sys.executable, str(program), str(folder), "10", str(seconds)])
    with RunningMaster(folder, yaml.safe_load(told.yaml.read_text()), platform="spec") as master:
        assert master.join(200) is Phase.SUCCEEDED
        summary = master.job_dir.summary()
        events = read_events(master.job_dir.journal, limit=1000)
    assert summary is not None
    assert summary["parameters"]["examples"] == 800
    results = list(folder.glob("seen-*.npz"))
    assert results
    for path in results:
        with np.load(path) as found:
            np.testing.assert_allclose(found["seen"] * 2 * BATCH, 1.0, rtol=1e-5)
    return (folder / "stuck").read_text(), summary, [event for event in events if event.kind is EventKind.HANG]


def test_a_server_that_waits_for_itself_is_killed_and_its_node_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, summary, hangs = run_with_one_that_stays_in_an_update(tmp_path, monkeypatch, float("inf"))
    nodes = {node["name"]: node for node in summary["nodes"]}
    assert (nodes[name]["state"], nodes[name]["exit_reason"]) == ("Failed", "Hang")
    assert (nodes["ps-2"]["replaces"], summary["replacements"]) == (name, 1)
    assert [(event.node, "made no progress" in event.facts["reason"]) for event in hangs] == [(name, True)]


def test_a_server_that_takes_long_for_an_update_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, summary, hangs = run_with_one_that_stays_in_an_update(tmp_path, monkeypatch, 20.0)
    assert not hangs
    assert (summary["restarts"], summary["replacements"]) == (0, 0)
