"""The summary of a job on this machine, as whoever lists jobs reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pliant.handles.kubernetes.summary import Remains, read_remains
from pliant.handles.local import LocalJob
from pliant.master.job_dir import JobDir

BROKEN = ["{}", '{"phase": "Running away"}', '{"phase": ', "[]", ""]


@pytest.mark.parametrize("text", BROKEN)
def test_a_summary_that_nobody_can_read_is_none(tmp_path: Path, text: str) -> None:
    """An error here would hide all other jobs in a list."""
    (tmp_path / "summary.json").write_text(text)
    assert LocalJob(JobDir(tmp_path)).summary() is None


@pytest.mark.parametrize("text", BROKEN)
def test_nor_does_that_of_a_cluster_hide_other_jobs(text: str) -> None:
    assert read_remains({"data": {"summary.json": text}}) == Remains()
