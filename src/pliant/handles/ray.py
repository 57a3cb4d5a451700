"""A job on a Ray cluster: a folder as every job has it, which the cluster's machines share. What differs is who keeps its
master alive.

That is an actor. While its supervisor runs, it holds the launcher's lock in the folder; when it does not, Ray is asked
whether it starts the actor again.
"""

from __future__ import annotations

import time

from pliant.core.errors import PliantError
from pliant.core.job import Phase
from pliant.core.status import JobStatus
from pliant.core.summary import JobSummary
from pliant.handles.job_handle import POLL_INTERVAL_S
from pliant.handles.liveness import launcher_is_alive
from pliant.handles.local import LocalJob
from pliant.master.job_dir import JobDir
from pliant.platforms.ray.names import RECORD
from pliant.platforms.ray.submission import kill_all, master_state

BELIEVED_S = 5.0  # what Ray says of the actor
COMING_BACK = frozenset({"DEPENDENCIES_UNREADY", "PENDING_CREATION", "ALIVE", "RESTARTING"})


def is_on_ray(home: JobDir) -> bool:
    return (home.path / RECORD).exists()


class RayJob(LocalJob):
    platform = "ray"

    def __init__(self, home: JobDir) -> None:
        super().__init__(home)
        self._asked_at = float("-inf")
        self._answer = False

    def master_lives(self) -> bool:
        return self.launcher_lives()  # its pid is one of another machine

    def launcher_lives(self) -> bool:
        if launcher_is_alive(self.home):
            return True
        if self.is_over():
            return False
        if time.monotonic() > self._asked_at + BELIEVED_S:
            self._answer = self._ask_ray()
            self._asked_at = time.monotonic()
        return self._answer

    def stop(self, *, now: bool, reason: str, deadline: float) -> JobSummary:
        if (summary := self.summary()) is not None:
            return summary
        try:
            self._ask_to_stop(now, reason)
        except PliantError:
            if self.launcher_lives():
                raise
            kill_all(self.name, self.home.path)
            return JobSummary(JobStatus(self.name, Phase.INTERRUPTED, "its master was gone; its actors were killed"))
        return self._wait_until_over(deadline, now=now, poll_interval=POLL_INTERVAL_S)

    def _ask_ray(self) -> bool:
        try:
            return master_state(self.name, self.home.path) in COMING_BACK
        except PliantError:  # the cluster is gone, and the job's master with it
            return False
