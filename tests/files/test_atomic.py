from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from pliant.files.atomic import (
    AtomicFile,
    atomic_path,
    read_json,
    write_bytes,
    write_json,
    write_output,
    write_problem,
    write_text,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_only_when_it_is_committed(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_text("old")
    with AtomicFile(target) as file:
        file.write(b"new")
        file.flush()
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert names(tmp_path) == ["a"]


def test_an_exception_leaves_the_old_file_and_no_temporary_one(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "old")
    with pytest.raises(ZeroDivisionError), AtomicFile(tmp_path / "a") as file:
        file.write(b"half" * (1 // 0))
    with pytest.raises(ZeroDivisionError), atomic_path(tmp_path / "a") as temporary:
        temporary.write_text("half" + str(temporary.write_text("half") // 0))
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("operation", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_no_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    write_text(tmp_path / "a", "old")
    monkeypatch.setattr(os, operation, full)
    with pytest.raises(OSError, match="No space"):
        write_text(tmp_path / "a", "new")
    with pytest.raises(OSError, match="No space"), atomic_path(tmp_path / "a") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == ["a"]


def test_the_content_is_on_disk_before_the_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda _: calls.append("fsync"))
    renamed = os.replace

    def replace(*args: Any) -> None:
        calls.append("replace")
        renamed(*args)

    monkeypatch.setattr(os, "replace", replace)
    write_bytes(tmp_path / "a", b"x")
    with AtomicFile(tmp_path / "b", sync_folder=True) as file:
        file.write(b"x")
    write_bytes(tmp_path / "c", b"x", durable=False)
    assert calls == ["fsync", "replace", "fsync", "replace", "fsync", "replace"]


def test_of_several_writers_the_first_one_wins_where_nothing_is_overwritten(tmp_path: Path) -> None:
    first, second = (AtomicFile(tmp_path / "a", overwrite=False) for _ in range(2))
    first.file.write(b"first")
    second.file.write(b"second")
    first.commit()
    second.commit()
    assert (tmp_path / "a").read_text() == "first"
    assert names(tmp_path) == ["a"]


def test_a_secret_is_never_readable_by_others(tmp_path: Path) -> None:
    with AtomicFile(tmp_path / "a", mode=0o600) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_a_discarded_file_is_gone_and_a_committed_one_stays(tmp_path: Path) -> None:
    dropped, kept = AtomicFile(tmp_path / "a"), AtomicFile(tmp_path / "b")
    dropped.discard()
    kept.commit()
    kept.discard()
    assert names(tmp_path) == ["b"]


def test_the_temporary_file_may_be_in_another_folder(tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    with atomic_path(tmp_path / "a", folder=parts) as temporary:
        temporary.write_text("x")
        assert temporary.parent == parts
    assert (tmp_path / "a").read_text() == "x"
    assert names(parts) == []


def test_json_comes_back_and_anything_else_is_none(tmp_path: Path) -> None:
    write_json(tmp_path / "a", {"x": [1, "ä"]})
    assert read_json(tmp_path / "a") == {"x": [1, "ä"]}
    assert read_json(tmp_path / "missing") is None
    for broken in ("", "{", "[1]"):
        (tmp_path / "b").write_text(broken)
        assert read_json(tmp_path / "b") is None


def test_a_folder_that_cannot_be_written_is_found_by_trying(tmp_path: Path) -> None:
    assert write_problem(tmp_path) == ""
    assert "No such file" in write_problem(tmp_path / "missing")
    assert names(tmp_path) == []


def test_output_goes_into_a_pipe_and_through_a_link_and_replaces_neither(tmp_path: Path) -> None:
    pipe, link, file = tmp_path / "pipe", tmp_path / "link", tmp_path / "file"
    os.mkfifo(pipe)
    link.symlink_to(file)
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    for path in (pipe, link, Path("/dev/null")):
        write_output(path, "text")
    reader.join()
    assert heard == [file.read_text()] == ["text"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert link.is_symlink()
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
