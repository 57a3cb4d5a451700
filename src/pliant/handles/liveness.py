"""Whether the master and the launcher of a job of this machine are alive."""

from __future__ import annotations

import psutil

from pliant.files.atomic import read_json
from pliant.files.locks import FileLock
from pliant.master.job_dir import JobDir

CLOCK_SKEW_S = 2.0  # between the clocks of a file system and of the process table


def master_is_alive(home: JobDir) -> bool:
    """By its process number: asking for its lock would be in the way of a master that is just starting."""
    pid = (read_json(home.master_file) or {}).get("pid")
    if not pid:
        return False
    try:
        process = psutil.Process(pid)
        ours = (
            process.create_time() <= home.master_file.stat().st_mtime + CLOCK_SKEW_S
        )  # else the number was given out anew
        return ours and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False


def launcher_is_alive(home: JobDir) -> bool:
    try:
        return FileLock(home.path / "launcher.lock").is_held()
    except OSError:  # another user's job
        return False
