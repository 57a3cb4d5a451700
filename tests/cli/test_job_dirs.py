"""Which jobs a command finds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pliant.core.errors import InvalidRequest
from pliant.handles.job_dirs import all_jobs, find_job

NOBODY = 65534


@contextmanager
def user(uid: int) -> Iterator[None]:
    before = os.geteuid()
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(before)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_in_a_folder_of_several_users_each_finds_those_that_it_may_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as shared:
        monkeypatch.setenv("PLIANT_HOME", shared)
        for name, folder_mode, file_mode in (("open", 0o755, 0o644), ("closed", 0o700, 0o600), ("half", 0o755, 0o600)):
            job = Path(shared) / "jobs" / name
            job.mkdir(parents=True)
            (job / "job.yaml").touch()
            (job / "job.yaml").chmod(file_mode)
            job.chmod(folder_mode)
        Path(shared).chmod(0o755)
        with user(NOBODY):
            assert [job.path.name for job in all_jobs()] == ["open"]
            for name in ("closed", "half"):
                with pytest.raises(InvalidRequest, match="belongs to the user root"):
                    find_job(None, Path(shared) / "jobs" / name)
        assert len(all_jobs()) == 3
