from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from pliant.files import folder_watch
from pliant.files.folder_watch import FolderWatch
from pliant.testing.waiting import MAX_WAIT_S


def test_a_file_that_is_moved_in_ends_the_wait(tmp_path: Path) -> None:
    with FolderWatch(tmp_path) as watch:
        assert not watch.wait(0.0)
        (tmp_path.parent / "new").write_text("x")
        os.replace(tmp_path.parent / "new", tmp_path / "new")
        assert watch.wait(MAX_WAIT_S)
        watch.clear()
        assert not watch.wait(0.0)


def test_writes_are_reported_only_if_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("")
    with FolderWatch(tmp_path) as quiet, FolderWatch(tmp_path, writes=True) as watch, file.open("a") as output:
        output.write("line\n")
        output.flush()
        assert watch.wait(MAX_WAIT_S)
        assert not quiet.wait(0.0)


def test_a_change_wakes_a_coroutine(tmp_path: Path) -> None:
    async def wait() -> None:
        with FolderWatch(tmp_path) as watch:
            threading.Timer(0.05, (tmp_path / "new").write_text, ["x"]).start()
            async with asyncio.timeout(MAX_WAIT_S):
                await watch.changed(10 * MAX_WAIT_S)

    asyncio.run(wait())


def test_without_watches_only_the_time_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_watch, "_libc", lambda: None)
    with FolderWatch(tmp_path) as watch:
        assert not watch.is_working
        (tmp_path / "new").write_text("x")
        watch.clear()
        assert not watch.wait(0.0)
        asyncio.run(watch.changed(0.0))


def test_a_folder_that_is_not_there_is_not_watched(tmp_path: Path) -> None:
    with FolderWatch(tmp_path / "nowhere") as watch:
        assert not watch.is_working
