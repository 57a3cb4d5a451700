"""Launching a job on a Ray cluster: its folder is made here, as for any job; its master is a detached actor, so it does not
need us."""

from __future__ import annotations

import os
import time

from pliant.core.errors import MasterUnavailable, PermanentError, PliantError
from pliant.files.atomic import read_json
from pliant.handles.ray import RayJob
from pliant.launch.job_folder import PreparedJob
from pliant.platforms.ray.submission import start_master
from pliant.spec import load_spec

START_TIMEOUT_S = 180.0
POLL_INTERVAL_S = 0.05


def launch_on_ray(job: PreparedJob) -> None:
    """Returns when its master answers, or it is over already."""
    spec = load_spec(job.home.spec)
    options = spec.platform.ray
    try:
        start_master(spec.name, job.home.path, options.address, options.runtime_env, os.environ)
        _wait_until_started(job, RayJob(job.home))
    except PliantError:
        job.undo()
        raise


def _wait_until_started(job: PreparedJob, handle: RayJob) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not _has_started(handle):
        problem = read_json(job.home.problem_file)
        if problem is not None and not handle.launcher_lives():
            raise PermanentError(problem["message"], hint=problem["hint"])
        if time.monotonic() > deadline:
            raise MasterUnavailable(
                f"the master of job {handle.name} has not started yet: it does not answer",
                hint=f"`pliant status {handle.argument}` shows when it has; `pliant stop` stops it",
            )
        time.sleep(POLL_INTERVAL_S)


def _has_started(handle: RayJob) -> bool:
    from pliant.handles.job_handle import Caller

    if handle.is_over():
        return True
    if handle.home.resume_file.exists():
        return False
    try:
        with Caller(handle.address()) as caller:
            caller.status()
            return True
    except PliantError:
        return False
