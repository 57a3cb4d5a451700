"""A destination is tried as a checkpoint would be written, and what is wrong with it is said with what to do."""

from __future__ import annotations

import errno
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pliant.checkpoint.problems import explain
from pliant.checkpoint.storage import LocalStorage, open_storage
from pliant.checkpoint.trial import RETRY_PAUSES_S, try_destination
from pliant.core.errors import InvalidRequest, NotAvailable


@contextmanager
def broken(monkeypatch: pytest.MonkeyPatch, method: str, errors: list[BaseException]) -> Iterator[list[str]]:
    """The store raises these, one per call, and works again after that."""
    called: list[str] = []
    works: Any = getattr(LocalStorage, method)

    def raising(self: LocalStorage, path: str, *more: Any) -> Any:
        called.append(path)
        if errors:
            raise errors.pop(0)
        return works(self, path, *more)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, method, raising)
        yield called


def test_a_folder_is_created_and_nothing_is_left_in_it(tmp_path: Path) -> None:
    assert try_destination(str(tmp_path / "a" / "b"), "job-worker-0") is None
    assert list((tmp_path / "a" / "b").iterdir()) == []
    assert try_destination("memory://somewhere/below", "job-worker-0") is None
    assert open_storage("memory://somewhere/below").list() == []


def test_a_file_in_place_of_the_folder_is_permanent(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        problem = try_destination(str(directory), "j")
        assert problem is not None
        assert problem.is_permanent
        assert "is not a directory" in problem.text
        assert problem.hint == "use another directory"


@pytest.mark.skipif(importlib.util.find_spec("s3fs") is not None, reason="s3fs is installed")
def test_a_store_whose_library_is_missing_names_the_package() -> None:
    problem = try_destination("s3://bucket/job", "j")
    assert problem is not None
    assert problem.is_permanent
    assert "s3://bucket/job needs s3fs" in problem.text
    assert problem.hint.startswith("pip install s3fs")
    with pytest.raises(NotAvailable, match="needs s3fs"):
        open_storage("s3://bucket/job")


def test_an_unknown_scheme_is_permanent() -> None:
    problem = try_destination("s4://bucket/job", "j")
    assert problem is not None
    assert problem.is_permanent
    assert "unknown scheme" in problem.text
    assert "s3://bucket/folder" in problem.hint
    with pytest.raises(InvalidRequest):
        open_storage("s4://bucket/job")


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "no space left"),
        (errno.EDQUOT, "no space left"),
        (errno.EACCES, "permission denied"),
        (errno.EROFS, "read-only"),
        (errno.ENOENT, "not found"),
    ],
)
def test_what_does_not_pass_by_itself_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    with broken(monkeypatch, "put", [OSError(number, os.strerror(number))]) as called:
        problem = try_destination(str(tmp_path), "j", sleep=lambda seconds: pytest.fail("it was tried again"))
    assert problem is not None
    assert len(called) == 1
    assert problem.is_permanent
    assert said in problem.text
    assert problem.hint


def test_what_may_pass_by_itself_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    with broken(monkeypatch, "put", [TimeoutError("no answer"), ConnectionResetError("reset")]):
        assert try_destination(str(tmp_path), "j", sleep=slept.append) is None
    assert tuple(slept) == RETRY_PAUSES_S
    with broken(monkeypatch, "put", [TimeoutError("no answer") for _ in range(9)]):
        problem = try_destination(str(tmp_path), "j", sleep=slept.append)
    assert problem is not None
    assert not problem.is_permanent
    assert problem.text == "TimeoutError: no answer"


def test_a_store_that_refuses_to_delete_can_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with broken(monkeypatch, "delete_file", [PermissionError("no DeleteObject")]):
        assert try_destination(str(tmp_path), "job-worker-0") is None
    assert [path.name for path in tmp_path.iterdir()] == [".trial-job-worker-0"], "the next one has the same name"


def test_the_cause_of_an_error_counts_also_below_others() -> None:
    class NoCredentialsError(Exception):
        pass

    try:
        try:
            raise NoCredentialsError("Unable to locate credentials")
        except NoCredentialsError as error:
            raise RuntimeError("upload failed") from error
    except RuntimeError as error:
        problem = explain(error, "s3://bucket")
    assert problem.is_permanent
    assert problem.text == "no credentials (NoCredentialsError: Unable to locate credentials)"
