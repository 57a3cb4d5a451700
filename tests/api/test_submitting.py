"""What cannot be right is refused before anything is created."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pliant
from pliant.api.submitted_job import SubmittedJob
from pliant.core.errors import InvalidRequest, JobFailed, NotFound, PermanentError, WaitTimeout
from pliant.handles.local import LocalJob
from pliant.master.job_dir import JobDir


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLIANT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def train(epochs: int = 1) -> int:
    return epochs


@pytest.mark.parametrize(
    ("target", "options", "said"),
    [
        (train, {"workers": "4:1"}, "replicas.min"),
        (train, {"workers": True}, "workers is True"),
        (train, {"workers": (1, 2, 3)}, r"workers is \(1, 2, 3\)"),
        (train, {"args": "abc"}, "args is 'abc', not a tuple"),
        (train, {"args": (1, 2)}, "cannot be called with these arguments"),
        (train, {"env": {"A": 1}}, "env has 'A': 1"),
        (train, {"cpu": -1}, "cpu"),
        (train, {"memory": "much"}, "memory"),
        (train, {"name": "Not A Name"}, "name"),
        (train, {"platform": "moon"}, "moon"),
        (train, {"image": "pliant:1"}, "image requires platform='kubernetes'"),
        (train, {"checkpoint_every": "often"}, "checkpoint_every 'often' is neither"),
        (train, {"files": ["missing.txt"]}, "file missing.txt not found"),
        (train, {"auto": {"objective": "cheap"}}, "objective"),
        ("missing.py", {}, "file missing.py not found"),
        (["no-such-program"], {}, "'no-such-program' not found"),
        ([], {}, "cannot submit"),
        (3, {}, "cannot submit 3"),
        (["echo", {"a": 1}], {}, "is not an argument of a command"),
        ("a.py", {"kwargs": {"a": 1}}, "kwargs are for a function"),
    ],
)
def test_nothing_is_left_of_what_is_refused(home: Path, target: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(PermanentError, match=said):
        pliant.submit(target, **options)
    assert not list(home.rglob("*"))


def test_two_files_of_one_name_are_refused_and_nothing_is_left(home: Path, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "data.txt").touch()
    with pytest.raises(InvalidRequest, match=r"two files are named data\.txt"):
        pliant.submit(train, name="j", files=["a/data.txt", "b/data.txt"])
    assert not list(home.rglob("*"))


@pytest.mark.parametrize("given", [".", "..", "../work", "{}"])
def test_a_directory_that_the_job_is_in_is_not_copied_into_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "data.txt").touch()
    monkeypatch.chdir(work)
    with pytest.raises(InvalidRequest, match=r"a directory without a name|which is inside it"):
        pliant.submit(train, name="j", files=[given.format(work)], job_dir="run")
    assert [path.name for path in work.rglob("*")] == ["data.txt"]


def test_jobs_and_attach_of_a_machine_without_jobs() -> None:
    assert pliant.jobs() == []
    assert "<table" in pliant.jobs()._repr_html_()
    with pytest.raises(NotFound, match="no jobs yet"):
        pliant.attach()
    with pytest.raises(NotFound, match="'nothing' not found"):
        pliant.attach("nothing")


def test_a_job_whose_folder_was_removed_is_shown_and_cannot_be_stopped(tmp_path: Path) -> None:
    job = SubmittedJob(LocalJob(JobDir(tmp_path / "gone")))
    assert repr(job) == "<job gone: Interrupted>"
    assert "was interrupted" in job._repr_html_()
    assert job.events() == []
    with pytest.raises(NotFound, match="was removed"):
        job.stop()


def test_errors_are_what_programs_catch() -> None:
    failed = JobFailed("job j failed", hint="fix it", node="worker-0", traceback="ValueError: no")
    assert "The last words of worker-0:\n\nValueError: no" in str(failed)
    assert isinstance(WaitTimeout("late"), TimeoutError)
    assert str(WaitTimeout("late", hint="wait")) == "late\n  what to do: wait"


def test_the_program_of_a_worker_loads_no_more_than_it_needs() -> None:
    heavy = ("grpc", "typer", "rich", "torch", "numpy", "pydantic", "pliant.handles")
    program = f"import pliant.api.functions.__main__, sys; print([name for name in {heavy} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
