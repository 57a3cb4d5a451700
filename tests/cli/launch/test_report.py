"""Where a report is written."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

from tests.dashboard.fakes import FakeJob

from pliant.cli.launch.report import write_report


def test_what_is_no_plain_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """Root would replace /dev/null by a file."""
    pipe, found = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    write_report(FakeJob(), 0, pipe)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    reader.join()
    assert found[0].startswith("<!doctype html>")


def test_a_link_leads_to_the_file_that_is_written(tmp_path: Path) -> None:
    (tmp_path / "link.html").symlink_to(tmp_path / "file.html")
    write_report(FakeJob(), 0, tmp_path / "link.html")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "file.html").is_file()
