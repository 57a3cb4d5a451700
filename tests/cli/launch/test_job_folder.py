"""The folder of a job that starts or is resumed, and what is left of it if it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from pliant.cli.launch.job_folder import prepare, prepare_resume
from pliant.cli.launch.resuming import check_same
from pliant.cli.options.run import RunOptions
from pliant.core.errors import Conflict, NotFound
from pliant.files.atomic import write_json
from pliant.files.locks import FileLock
from pliant.files.reserve import disk_problem, release, set_aside
from pliant.master.job_dir import JobDir
from pliant.spec import JobSpec

SPEC = JobSpec.from_dict({"name": "j", "roles": {"worker": {"command": ["true"]}}})


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_what_was_created_is_taken_back_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").touch()
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "old.log").touch()
    before = everything(tmp_path)
    for folder in ("mine", "new/below"):
        for logs in (None, tmp_path / "logs", tmp_path / "other" / "logs"):
            job = prepare(SPEC, RunOptions(job_dir=tmp_path / folder, log_dir=logs))
            (job.home.logs / "master.log").touch()
            (job.home.path / "journal.db").touch()
            assert everything(tmp_path) > before
            job.undo()
            assert everything(tmp_path) == before


@pytest.fixture
def home(tmp_path: Path) -> JobDir:
    return prepare(SPEC, RunOptions(job_dir=tmp_path / "j")).home


def test_a_resume_that_cannot_start_leaves_the_job_as_ended_as_it_was(home: JobDir) -> None:
    write_json(home.summary_file, {"phase": "Stopped"})
    before = everything(home.path)
    job = prepare_resume(home)
    assert not home.summary_file.exists()
    job.undo()
    assert everything(home.path) == before
    assert home.summary() == {"phase": "Stopped"}


def test_a_job_that_succeeded_runs_or_does_not_exist_is_not_resumed(home: JobDir, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no job to resume"):
        prepare_resume(JobDir(tmp_path / "none"))
    with FileLock(home.master_lock), pytest.raises(Conflict, match="is running") as refused:
        prepare_resume(home)
    assert "pliant attach" in refused.value.hint
    write_json(home.summary_file, {"phase": "Succeeded"})
    with pytest.raises(Conflict, match="has succeeded; there is nothing to resume"):
        prepare_resume(home)
    assert home.summary() == {"phase": "Succeeded"}


def test_another_command_than_that_of_the_job_is_refused_with_what_differs(home: JobDir) -> None:
    check_same(home, SPEC, SPEC.replaced(working_dir="/elsewhere"))
    other = SPEC.replaced(roles={"worker": {"command": ["false"]}})
    with pytest.raises(Conflict, match=r"roles.worker.command was \['true'\], now \['false'\]"):
        check_same(home, SPEC, other)


def test_a_reserve_is_made_once_and_released(tmp_path: Path) -> None:
    reserve = tmp_path / "reserve"
    assert set_aside(reserve, 5000)
    assert reserve.stat().st_size == 5000
    assert set_aside(reserve, 5000)
    release(reserve)
    release(reserve)
    assert not reserve.exists()
    assert not set_aside(tmp_path / "none" / "reserve")
    assert disk_problem(tmp_path / "none") == f"{tmp_path / 'none'} was removed"
