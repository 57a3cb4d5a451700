"""Kill any process of a job: the job goes on, and each record counts once."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pliant.core.events import EventKind
from pliant.testing.jobs import LocalJob
from pliant.testing.reading import ReadingJob

pytestmark = pytest.mark.e2e

TRAIN = {"train": {"size": 600, "shard_size": 3, "shuffle": True}}


def reading(folder: Path, workers: int = 3) -> ReadingJob:
    return ReadingJob(folder, TRAIN, workers=workers, gated=True)


def test_a_killed_program_is_started_again_in_place(tmp_path: Path) -> None:
    with reading(tmp_path) as job:
        job.wait_until_all_work(3)
        pid = job.kill_program("worker-1")
        job.wait_for(lambda s: any(n.restarts == 1 and n.pid not in (0, pid) for n in s.nodes), "the restart")
        job.open_gate()
        assert job.wait() == 0
        job.assert_each_record_once()
        nodes = {node["name"]: node for node in job.summary()["nodes"]}
    assert sorted(nodes) == ["worker-0", "worker-1", "worker-2"]
    assert [nodes[name]["restarts"] for name in sorted(nodes)] == [0, 1, 0]
    assert any(event.facts["exit_reason"] == "Killed" for event in job.events(EventKind.EXIT))
    assert "first_failure" not in job.summary(), "being killed is no failure of the program"


def test_a_killed_agent_takes_its_program_along_and_is_replaced_under_a_new_number(tmp_path: Path) -> None:
    with reading(tmp_path) as job:
        job.wait_until_all_work(3)
        program = job.wait_until_running("worker-0").pid
        job.kill_agent("worker-0")
        job.wait_until_running("worker-3")
        assert program not in {process.pid for process in job.processes()}
        job.open_gate()
        assert job.wait() == 0
        job.assert_each_record_once()
        nodes = {node["name"]: node for node in job.summary()["nodes"]}
    assert (nodes["worker-0"]["state"], nodes["worker-0"]["exit_reason"]) == ("Failed", "Killed")
    assert (nodes["worker-3"]["state"], nodes["worker-3"]["replaces"]) == ("Succeeded", "worker-0")


def test_a_preempted_node_gives_its_program_grace_and_is_told_apart_from_a_crash(tmp_path: Path) -> None:
    goodbye = "trap 'echo saving; sleep 0.3; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    with LocalJob(tmp_path, ["bash", "-c", f'if [ "$PLIANT_NODE" = worker-0 ]; then {goodbye}; fi']) as job:
        job.until(lambda: "ready" in job.log("worker-0"), "the program")
        job.preempt("worker-0")
        assert job.wait() == 0
        assert job.log("worker-0").splitlines()[-2:] == ["saving", "saved"]
        first, second = job.summary()["nodes"]
    assert (first["state"], first["exit_reason"]) == ("Failed", "Preempted")
    assert (second["name"], second["replaces"], second["state"]) == ("worker-1", "worker-0", "Succeeded")


def test_a_master_killed_again_and_again_loses_and_repeats_nothing(tmp_path: Path) -> None:
    chance = random.Random(7)
    with reading(tmp_path) as job:
        for _ in range(4):
            before = job.wait_for(lambda s: s.master_starts, "a master that serves")
            time.sleep(chance.uniform(0, 0.4))  # at any instant
            job.kill_master()
            job.wait_for(lambda s, n=before: s.master_starts > n, "the next master")  # type: ignore[misc]
        job.open_gate()
        assert job.wait() == 0
        job.assert_each_record_once()
        summary = job.summary()
    assert summary["master_starts"] == 5
    assert (summary["restarts"], summary["replacements"]) == (0, 0)
    assert "the master died; restarting it" in job.output()


def test_a_master_killed_while_it_starts_is_started_again(tmp_path: Path) -> None:
    with reading(tmp_path, workers=2) as job:
        for pause in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5):
            (starting,) = job.until(job.masters, "a master")
            time.sleep(pause)
            job.send(starting, signal.SIGKILL)
            job.until(lambda pid=starting: pid not in job.masters(), "its end")  # type: ignore[misc]
        job.open_gate()
        assert job.wait() == 0
        job.assert_each_record_once()


def test_a_master_killed_right_before_the_end_still_leaves_a_summary(tmp_path: Path) -> None:
    with reading(tmp_path, workers=2) as job:
        job.wait_until_all_work(2)
        job.open_gate()
        job.until(lambda: job.events(EventKind.JOB), "the decision that it is over")
        for master in job.masters():
            job.send(master, signal.SIGKILL)
        assert job.wait() == 0
        job.assert_each_record_once()


@pytest.fixture
def hangup_ends_programs() -> Iterator[None]:
    """Also where the tests themselves run below nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP], ids=["killed", "its terminal closed"])
def test_a_launcher_that_is_killed_is_replaced_and_the_job_ends_by_itself(
    tmp_path: Path, number: signal.Signals, hangup_ends_programs: None
) -> None:
    with reading(tmp_path) as job:
        job.wait_until_all_work(3)
        job.launcher.send_signal(number)
        job.launcher.wait()
        job.until(job.supervisors, "a supervisor")
        job.kill_master()
        job.open_gate()
        summary = job.wait_for_summary()
        job.assert_each_record_once()
    assert (summary["phase"], summary["master_starts"]) == ("Succeeded", 2)


def test_killing_launcher_and_master_at_once_does_not_end_the_job(tmp_path: Path) -> None:
    with reading(tmp_path, workers=2) as job:
        job.wait_until_all_work(2)
        master = job.freeze_master()  # so that it cannot notice
        job.launcher.kill()
        job.send(master, signal.SIGKILL)
        job.launcher.wait()
        job.open_gate()
        summary = job.wait_for_summary()
        job.assert_each_record_once()
    assert (summary["phase"], summary["master_starts"]) == ("Succeeded", 2)
    assert (summary["restarts"], summary["replacements"]) == (0, 0)


def test_killing_every_process_of_the_control_plane_leaves_a_job_that_can_be_resumed(tmp_path: Path) -> None:
    with reading(tmp_path, workers=2) as job:
        job.wait_until_all_work(2)
        for process in job.processes():
            job.send(process.pid, signal.SIGSTOP)
        job.end_all()
        job.start("--resume")
        job.open_gate()
        assert job.wait() == 0
        job.assert_each_record_once()
