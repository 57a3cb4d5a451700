"""The folder of a job that starts or is resumed, and what is left of it if it cannot."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from pliant.cli.launch.resuming import check_same
from pliant.cli.options.run import RunOptions
from pliant.core.errors import Conflict, NotFound
from pliant.files.atomic import read_json, write_json
from pliant.files.locks import FileLock
from pliant.files.reserve import disk_problem, release, set_aside
from pliant.launch.job_folder import prepare, prepare_resume
from pliant.master.job_dir import JobDir
from pliant.spec import JobSpec

SPEC = JobSpec.from_dict({"name": "j", "roles": {"worker": {"command": ["true"]}}})


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_what_was_created_is_taken_back_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine").chmod(0o755)
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
            assert stat.S_IMODE((tmp_path / "mine").stat().st_mode) == 0o755


def test_the_folder_of_a_job_and_what_is_in_it_are_for_its_owner_only(tmp_path: Path) -> None:
    home = prepare(SPEC, RunOptions(job_dir=tmp_path / "above" / "j")).home
    assert stat.S_IMODE((tmp_path / "above").stat().st_mode) == 0o700
    for path in (home.path, home.logs, home.nodes, home.spec, home.token):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_folder_that_is_there_is_made_private_and_a_secret_in_it_is_not_used(tmp_path: Path) -> None:
    said: list[str] = []
    planted = "f" * 64
    (tmp_path / "j").mkdir(mode=0o755)
    (tmp_path / "j").chmod(0o755)
    (tmp_path / "j" / "token").write_text(planted)
    home = prepare(SPEC, RunOptions(job_dir=tmp_path / "j"), said.append).home
    assert home.token.read_text() != planted
    assert stat.S_IMODE(home.path.stat().st_mode) == 0o700
    assert said[-1] == f"only you can use {home.path} now (its mode was 0755)"


def test_a_folder_that_is_a_link_someone_elses_or_replaceable_is_refused_untouched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(Conflict, match="is a symbolic link"):
        prepare(SPEC, RunOptions(job_dir=tmp_path / "link"))
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(Conflict, match="can be written by everyone"):
        prepare(SPEC, RunOptions(job_dir=tmp_path / "open" / "j"))
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    with pytest.raises(Conflict, match="belongs to"):
        prepare(SPEC, RunOptions(job_dir=tmp_path / "real"))
    assert everything(tmp_path) == {"real", "link", "open"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_job_is_not_resumed_with_files_that_someone_else_left(home: JobDir) -> None:
    os.chown(home.spec, 12345, 12345)
    with pytest.raises(Conflict, match=r"job\.yaml belongs to"):
        prepare_resume(home)


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


def test_a_resume_that_was_killed_and_then_cannot_start_forgets_nothing(home: JobDir) -> None:
    write_json(home.summary_file, {"phase": "Failed"})
    prepare_resume(home)  # and its process is killed
    prepare_resume(home).undo()
    assert read_json(home.resume_file) == {"phase": "Failed"}


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


def test_of_two_that_make_a_job_of_one_name_at_once_one_is_refused(tmp_path: Path) -> None:
    """Else the one whose master finds the other's lock takes back what the other one runs in."""
    for number in range(20):
        both = threading.Barrier(2)
        made: list[object] = []
        refused: list[object] = []

        def make(folder: Path, both: threading.Barrier, made: list[object], refused: list[object]) -> None:
            both.wait()
            try:
                made.append(prepare(SPEC, RunOptions(job_dir=folder)))
            except Conflict as error:
                refused.append(error)

        threads = [threading.Thread(target=make, args=(tmp_path / str(number), both, made, refused)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(made), len(refused)) == (1, 1)
