"""Jobs whose journal is in the Brain's database: disks, Brains and masters are lost, no decision is, and none is made twice."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.brain.journal_brain import CLUSTER_TOKEN, JournalBrainProcess

from pliant.core.errors import PliantError
from pliant.core.events import EventKind
from pliant.files.atomic import read_json
from pliant.launch.job_folder import check_folder
from pliant.rpc.brain.access import BrainFolder
from pliant.rpc.brain.identity import LOCAL_NAMESPACE, job_token
from pliant.testing.reading import ReadingJob

pytestmark = pytest.mark.e2e

TRAIN = {"train": {"size": 600, "shard_size": 3, "shuffle": True}}


@pytest.fixture
def brain(tmp_path: Path) -> Iterator[JournalBrainProcess]:
    with JournalBrainProcess(tmp_path / "brain", f"sqlite:///{tmp_path / 'brain' / 'brain.db'}") as found:
        yield found


def reading(folder: Path, brain: JournalBrainProcess, *, job_dir: Path | None = None, **spec: Any) -> ReadingJob:
    """With the token that a launcher would have put into its folder."""
    journal = {"journal": {"store": "database"}, "optimize": {"mode": "manual", "brain": brain.address}}
    job = ReadingJob(folder, TRAIN, workers=2, gated=True, spec={**journal, **spec}, job_dir=job_dir)
    job.home.path.mkdir(parents=True, mode=0o700, exist_ok=True)
    BrainFolder(job.home.brain).write(job_token(CLUSTER_TOKEN, LOCAL_NAMESPACE, "job"), None)
    return job


def lose_master_and_disk(job: ReadingJob) -> None:
    """``kill -9`` of the master, and its journal is gone before another one starts."""
    job.send(job.launcher.pid, signal.SIGSTOP)
    try:
        pid = job.kill_master()
        job.until(lambda: not _lives(pid), "the master's death")
        for file in job.home.path.glob("journal.db*"):
            file.unlink()
    finally:
        job.send(job.launcher.pid, signal.SIGCONT)


def audited(job: ReadingJob) -> int:
    """Rows of the audit in the copy; 0 while there is none, or it is being created."""
    try:
        return len(job.audit())
    except (OSError, PliantError):
        return 0


def records_done(job: ReadingJob) -> int:
    return job.wait_for(lambda s: sum(d.records_done for d in s.datasets) or None, "some records")


def test_a_master_that_lost_its_disk_continues_with_its_programs_and_each_record_counts_once(
    tmp_path: Path, brain: JournalBrainProcess
) -> None:
    with reading(tmp_path, brain) as job:
        job.wait_until_all_work(2)
        for _ in range(3):
            done = records_done(job)
            lose_master_and_disk(job)
            assert records_done(job) >= done, "what was done is known"
        job.open_gate()
        assert job.wait() == 0
        job.assert_each_record_once()
        assert job.summary()["master_starts"] == 4
        assert len(job.events(EventKind.MASTER)) == 4, "the copy has the events of all masters"
        assert [node["restarts"] for node in job.summary()["nodes"]] == [0, 0]
    assert "each exactly once" in job.output()


def test_a_brain_that_is_killed_again_and_again_costs_time_and_nothing_else(
    tmp_path: Path, brain: JournalBrainProcess
) -> None:
    with reading(tmp_path, brain) as job:
        job.wait_until_all_work(2)
        job.open_gate()
        for round_number in range(4):
            before = audited(job)
            brain.kill()
            if round_number == 2:
                lose_master_and_disk(job)
            brain.start()
            job.until(lambda: audited(job) > before or job.home.summary_file.exists(), "more records")  # noqa: B023
        assert job.wait() == 0
        job.assert_each_record_once()
        assert [node["restarts"] for node in job.summary()["nodes"]] == [0, 0]


def test_a_frozen_brain_is_not_the_fault_of_the_nodes(tmp_path: Path, brain: JournalBrainProcess) -> None:
    fault = {"heartbeat_timeout": 3.0, "session_timeout": 3.0}
    with reading(tmp_path, brain, fault=fault) as job:
        job.wait_until_all_work(2)
        brain.freeze()
        job.outlast(12.0)
        brain.thaw()
        job.open_gate()
        assert job.wait() == 0
        job.assert_each_record_once()
        assert [(node["name"], node["restarts"]) for node in job.summary()["nodes"]] == [
            ("worker-0", 0),
            ("worker-1", 0),
        ]
    log = (job.home.logs / "master.log").read_text()
    assert log.count("the journal waits for the Brain") <= 2, "one line per outage"


def test_a_second_master_of_the_same_job_fences_the_first_one_off(tmp_path: Path, brain: JournalBrainProcess) -> None:
    with reading(tmp_path, brain) as first:
        first.wait_until_all_work(2)
        second = reading(tmp_path, brain, job_dir=tmp_path / "jobs" / "elsewhere")
        for name in ("job.yaml", "token"):
            (second.home.path / name).write_bytes((first.home.path / name).read_bytes())
            (second.home.path / name).chmod(0o600)
        second.home.create()
        check_folder(second.home)
        second._output = tmp_path / "second.out"
        second.resume()
        try:
            assert first.wait() != 0
            assert "another master has taken over job local/job" in first.output()
            assert "another master has taken over" in (read_json(first.home.problem_file) or {})["message"]
            first.check_nothing_is_left()
            second.open_gate()
            assert second.wait() == 0, second.report()
            second.assert_each_record_once()
            second.check_nothing_is_left()
        finally:
            second.end_all()


def test_a_job_is_stopped_while_the_brain_is_away_and_resumed_when_it_is_back(
    tmp_path: Path, brain: JournalBrainProcess
) -> None:
    with reading(tmp_path, brain) as job:
        job.wait_until_all_work(2)
        brain.kill()
        job.interrupt()
        assert job.wait() != 0
        job.check_nothing_is_left()
        brain.start()
        job.open_gate()
        job.resume()
        assert job.wait() == 0
        job.assert_each_record_once()


def test_a_master_that_gets_sigterm_while_the_brain_is_away_ends(tmp_path: Path, brain: JournalBrainProcess) -> None:
    with reading(tmp_path, brain) as job:
        job.wait_until_all_work(2)
        brain.kill()
        pid = job.master_pid()
        job.send(pid, signal.SIGTERM)
        job.until(lambda: not _lives(pid), "the end of the master")
        assert job.wait() != 0
        job.check_nothing_is_left()


def test_a_job_that_starts_before_its_brain_says_so_and_runs_when_the_brain_does(tmp_path: Path) -> None:
    brain = JournalBrainProcess(tmp_path / "brain", f"sqlite:///{tmp_path / 'brain' / 'brain.db'}")
    with reading(tmp_path, brain) as job:
        job.open_gate()
        job.until(lambda: "the Brain does not take the journal" in job.output(), "word of it")
        with brain:
            assert job.wait() == 0
            job.assert_each_record_once()


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
