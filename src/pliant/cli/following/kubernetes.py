"""Following a job of a cluster to its end, as ``pliant run`` does on this machine.

The platform restarts the master. This only reports why a job has no master yet; Ctrl-C before there is one deletes the job.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Sequence

from pliant.cli.following.follow import Follower
from pliant.cli.following.interrupts import Interrupts
from pliant.core.errors import JobFailed, RetryableError
from pliant.core.job import Phase
from pliant.core.summary import JobSummary
from pliant.handles.kubernetes.job_handle import KubernetesJob
from pliant.platforms.kubernetes.elastic_job_status import is_over, message_of, phase_of

NO_MASTER_YET = (Phase.PENDING, Phase.CREATING, Phase.INVALID, Phase.SUSPENDED)


def follow(handle: KubernetesJob, *, show_output: bool, progress: bool, to_stderr: bool) -> JobSummary:
    """Until the job is over; returns its summary."""
    with Interrupts() as interrupts:
        follower = Follower(handle, interrupts, show_output=show_output, progress=progress, to_stderr=to_stderr)
        follower.say(f"job {handle.name}: {handle.where}")
        return follower.follow(ElasticJobLifetime(handle, interrupts, follower.say))


class ElasticJobLifetime:
    def __init__(self, handle: KubernetesJob, interrupts: Interrupts, say: Callable[[str], None]) -> None:
        self._handle = handle
        self._interrupts = interrupts
        self._say = say
        self._reported = ("", "")

    def running(self) -> bool:
        try:
            job = self._handle.read()
        except RetryableError:
            return True  # the API server is unavailable; keep following
        if is_over(job):
            return False
        phase, message = phase_of(job), message_of(job)
        if phase is Phase.INVALID:
            raise JobFailed(f"job {self._handle.name} cannot run: {message}", hint="fix its spec and submit it again")
        if phase in NO_MASTER_YET:
            if (phase, message) != self._reported:
                self._reported = (phase, message)
                self._say(f"{phase}: {message}" if message else phase)
            if self._interrupts.count:
                self._handle.remove()
                self._say("the job had not started and was deleted")
                raise KeyboardInterrupt
        return True

    @property
    def unrecorded_stop(self) -> str:
        return ""

    def replace_master(self) -> bool:
        return False

    def request_stop(self, reason: str, *, at_once: bool) -> None:
        return  # the platform restarts the master, which is asked

    def wait(self, seconds: float, beside: Sequence[int] = ()) -> None:
        select.select(beside, [], [], seconds)
