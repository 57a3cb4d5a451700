"""Which jobs of this machine a dashboard shows."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pliant.dashboard.watching.job_source import JobsOfThisMachine
from pliant.handles import job_dirs
from pliant.master.job_dir import JobDir


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLIANT_HOME", str(tmp_path))
    return tmp_path / "jobs"


def make(folder: Path, created_at: float) -> None:
    folder.mkdir(parents=True)
    (folder / "job.yaml").write_text("name: mine\n")
    os.utime(folder / "job.yaml", (created_at, created_at))


def test_a_job_has_one_handle_until_another_job_gets_its_folder(jobs: Path) -> None:
    source = JobsOfThisMachine()
    make(jobs / "mine", 1.0)
    first = source.find("mine")
    assert source.find("mine") is first
    for created_at in range(2, 10):  # of some of them, the file system uses the inode again
        shutil.rmtree(jobs / "mine")
        make(jobs / "mine", float(created_at))
        later = source.find("mine")
        assert later is not first
        first = later


def test_a_job_that_is_removed_while_jobs_are_listed_is_not_listed(jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(jobs / "mine", 1.0)
    make(jobs / "going", 2.0)
    is_readable = job_dirs._is_readable

    def removed_after(job: JobDir) -> bool:
        found = is_readable(job)
        if job.path.name == "going":
            shutil.rmtree(job.path)
        return found

    monkeypatch.setattr(job_dirs, "_is_readable", removed_after)
    assert list(JobsOfThisMachine().handles()) == ["mine"]
