"""What people order while a job runs: more or fewer workers, stop, stop at once; and what they do to its disk."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pliant.core.status import JobStatus
from pliant.rpc import pliant_pb2 as pb
from pliant.testing.jobs import LocalJob
from pliant.testing.reading import ReadingJob

pytestmark = pytest.mark.e2e

PLIANT = [sys.executable, "-m", "pliant.cli"]
STUBBORN = "trap 'echo got TERM' TERM; echo ready; while :; do sleep 0.1; done"
POLITE = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.1; done"


def running(status: JobStatus) -> list[str]:
    return [node.name for node in status.nodes if node.state == "Running" and node.pid]


def test_workers_are_added_and_taken_away_while_the_job_runs(tmp_path: Path) -> None:
    read = {"train": {"size": 900, "shard_size": 3}}
    with ReadingJob(tmp_path, read, workers="1:4", gated=True, spec={"fault": {"grace": 2.0}}) as job:
        job.wait_for(lambda s: len(running(s)) == 4, "four workers")
        answer = job.call(lambda c: c.stubs.job.Scale, pb.ScaleRequest(role="worker", replicas=1, reason="night"))
        assert (answer.before, answer.now) == (4, 1)
        job.wait_for(lambda s: running(s) == ["worker-0"], "one worker")
        job.call(lambda c: c.stubs.job.Scale, pb.ScaleRequest(role="worker", replicas=3, reason="day"))
        job.wait_for(lambda s: running(s) == ["worker-0", "worker-4", "worker-5"], "three workers")
        job.open_gate()
        assert job.wait() == 0
        job.assert_each_record_once()
        nodes = {node["name"]: node for node in job.summary()["nodes"]}
    assert {nodes[f"worker-{n}"]["state"] for n in (1, 2, 3)} == {"Deleted"}


def test_ctrl_c_ends_a_job_cleanly_with_its_programs_asked_first(tmp_path: Path) -> None:
    with LocalJob(tmp_path, ["bash", "-c", POLITE], workers=2) as job:
        for node in ("worker-0", "worker-1"):
            job.until(lambda n=node: "ready" in job.log(n), "the program")  # type: ignore[misc]
        job.interrupt()
        assert job.wait() == 130
        assert all("bye" in job.log(node) for node in ("worker-0", "worker-1"))
        summary = job.summary()
    assert (summary["phase"], summary["exit_code"]) == ("Stopped", 130)
    assert {node["state"] for node in summary["nodes"]} == {"Deleted"}


def test_ctrl_c_twice_ends_a_job_at_once(tmp_path: Path) -> None:
    with LocalJob(tmp_path, ["bash", "-c", STUBBORN], spec={"fault": {"grace": 1000.0}}) as job:
        job.until(lambda: "ready" in job.log("worker-0"), "the program")
        job.interrupt()
        job.until(lambda: "got TERM" in job.log("worker-0"), "the program to be asked")
        job.interrupt()
        assert job.wait() == 130
    assert job.summary()["phase"] == "Stopped"


def test_ctrl_c_while_the_master_is_away_is_not_forgotten(tmp_path: Path) -> None:
    with LocalJob(tmp_path, ["bash", "-c", POLITE]) as job:
        job.until(lambda: "ready" in job.log("worker-0"), "the program")
        job.kill_master()
        job.interrupt()
        assert job.wait() == 130


def test_ctrl_c_stops_a_job_whose_master_is_frozen(tmp_path: Path) -> None:
    with LocalJob(tmp_path, ["bash", "-c", POLITE]) as job:
        job.until(lambda: "ready" in job.log("worker-0"), "the program")
        job.freeze_master()
        job.interrupt()
        assert job.wait() == 130
    assert job.summary()["phase"] == "Stopped"
    assert "the master does not answer; replacing it" in job.output()


def test_a_job_whose_folder_is_removed_ends_at_once_and_says_why(tmp_path: Path) -> None:
    with LocalJob(tmp_path, ["bash", "-c", STUBBORN], workers=2) as job:
        job.until(lambda: "ready" in job.log("worker-1"), "the program")
        shutil.rmtree(job.home.path)
        assert job.wait() == 1
        assert not job.home.path.exists()
    assert "was removed while the job was running" in job.output()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "pliant-test", folder]).returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("needs the right to mount a tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return filler


def test_a_full_disk_stops_the_job_until_there_is_room_and_nothing_is_lost(tmp_path: Path, small_disk: Path) -> None:
    read = {"train": {"size": 600, "shard_size": 3}}
    with ReadingJob(tmp_path, read, workers=2, gated=True, job_dir=small_disk / "job") as job:
        job.wait_until_all_work(2)
        filler = fill(small_disk)
        job.open_gate()
        job.until(
            lambda: "the job continues when space is available" in job.output(), "the master to say what it lacks"
        )
        assert job.launcher.poll() is None
        filler.unlink()
        assert job.wait() == 0
        job.assert_each_record_once()
        summary = job.summary()
    assert (summary["restarts"], summary["replacements"]) == (0, 0)
    assert summary["master_starts"] > 1


WAITING = "is full; the job continues when space is available"


def test_a_job_on_a_full_disk_is_stopped_by_ctrl_c_and_goes_on_exactly_when_it_is_resumed(
    tmp_path: Path, small_disk: Path
) -> None:
    read = {"train": {"size": 600, "shard_size": 3}}
    with ReadingJob(
        tmp_path, read, workers=2, gated=True, job_dir=small_disk / "job", spec={"fault": {"grace": 5.0}}
    ) as job:
        job.wait_until_all_work(2)
        job.until(lambda: job.home.reserve.exists(), "the reserve")
        filler = fill(small_disk)
        job.kill_master()  # its successor cannot journal that it is there
        job.until(lambda: WAITING in job.output(), "the master to say what it lacks")
        job.interrupt()
        assert job.wait() == 130
        job.check_nothing_is_left()
        assert job.output().count("stopping; press Ctrl-C again") == 1
        assert job.summary()["phase"] == "Stopped", "recorded in the space that was reserved"
        filler.unlink()
        job.open_gate()
        assert job.resume().wait() == 0
        job.assert_each_record_once()
        summary = job.summary()
    assert summary["phase"] == "Succeeded"


def test_a_job_on_a_full_disk_without_a_reserve_is_stopped_at_once_and_shows_as_interrupted(
    tmp_path: Path, small_disk: Path
) -> None:
    with LocalJob(
        tmp_path, ["bash", "-c", STUBBORN], job_dir=small_disk / "job", spec={"fault": {"grace": 1000.0}}
    ) as job:
        job.until(lambda: "ready" in job.log("worker-0") and job.home.reserve.exists(), "the program")
        job.home.reserve.unlink()
        filler = fill(small_disk)
        job.kill_master()
        job.until(lambda: WAITING in job.output(), "the master to say what it lacks")
        folder = ["--job-dir", str(job.home.path)]
        shown = subprocess.run([*PLIANT, "status", *folder], capture_output=True, text=True, check=True).stdout
        assert f"waiting for disk space: the disk of {job.home.path} is full" in shown
        stopped = subprocess.run([*PLIANT, "stop", "--now", *folder], capture_output=True, text=True, check=True)
        assert "Interrupted: stopped; not recorded: the disk of" in stopped.stdout
        assert job.wait() == 130
        job.check_nothing_is_left()
        filler.unlink()
        shown = subprocess.run([*PLIANT, "status", *folder], capture_output=True, text=True, check=True).stdout
    assert "Interrupted" in shown


def test_sigterm_to_the_master_stops_a_job_on_a_full_disk(tmp_path: Path, small_disk: Path) -> None:
    with LocalJob(tmp_path, ["bash", "-c", POLITE], job_dir=small_disk / "job") as job:
        job.until(lambda: "ready" in job.log("worker-0") and job.home.reserve.exists(), "the program")
        job.wait_until_running("worker-0")
        fill(small_disk)
        job.send(job.master_pid(), signal.SIGTERM)
        assert job.wait() == 130
    assert job.summary()["phase"] == "Stopped"
