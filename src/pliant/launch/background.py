"""Launching a job in the background: a supervisor without a terminal starts its master, and whoever launched it may end.

``job_folder.py`` has made the folder. If the first master cannot start, for a reason that no other start mends, that is taken
back, and the reason is the error.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pliant.core.errors import MasterUnavailable, PermanentError, PliantError
from pliant.files.atomic import read_json
from pliant.files.reserve import disk_problem
from pliant.handles.job_dirs import argument_of
from pliant.launch.job_folder import PreparedJob
from pliant.master.job_dir import JobDir

if TYPE_CHECKING:
    from subprocess import Popen

START_TIMEOUT_S = 120.0  # a busy machine takes its time
POLL_INTERVAL_S = 0.05


def launch_in_background(job: PreparedJob) -> None:
    """Start a supervisor without a terminal; returns when the job's master answers, or the job is over already."""
    from pliant.master.supervisor import start_in_background

    supervisor = start_in_background(job.home)
    deadline = time.monotonic() + START_TIMEOUT_S
    while not _has_started(job.home):
        if supervisor.poll() is not None and not _has_started(job.home):
            problem = _why_not(job.home, supervisor)
            job.undo()
            raise problem
        if time.monotonic() > deadline:
            why = disk_problem(job.home.path) or "it does not answer"
            raise MasterUnavailable(
                f"the master of job {job.home.name} has not started yet: {why}",
                hint=f"`pliant status {argument_of(job.home)}` shows when it has; `pliant stop` stops it",
            )
        time.sleep(POLL_INTERVAL_S)


def _has_started(home: JobDir) -> bool:
    from pliant.handles.job_handle import Caller

    if home.summary_file.exists():
        return True
    if home.resume_file.exists():  # what is in master.json is of an earlier master
        return False
    try:
        with Caller(home.address()) as caller:
            caller.status()
            return True
    except PliantError:
        return False


def _why_not(home: JobDir, supervisor: Popen[bytes]) -> PliantError:
    problem = read_json(home.problem_file)
    if problem is not None:
        return PermanentError(problem["message"], hint=problem["hint"])
    return PermanentError(
        f"the master of job {home.name} could not be started (exit code {supervisor.returncode})",
        hint="start it without --detach to see more",
    )
