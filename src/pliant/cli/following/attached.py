"""Following a job that another process supervises, or its platform: Ctrl-C ends the following, not the job."""

from __future__ import annotations

import select
from collections.abc import Sequence

from pliant.cli.following.follow import Follower, Lifetime
from pliant.cli.following.interrupts import Interrupts
from pliant.core.summary import JobSummary
from pliant.files.folder_watch import FolderWatch
from pliant.handles.job_handle import JobHandle
from pliant.handles.local import LocalJob
from pliant.handles.supervision import Supervision

POLL_INTERVAL_S = 0.2  # for the end of the job, where the system does not report new files


def attach_to(handle: JobHandle, *, tail: int, show_output: bool, progress: bool, to_stderr: bool) -> JobSummary:
    """Until the job is over; returns its summary. Raises ``Detached`` after Ctrl-C."""
    with Interrupts() as interrupts:
        follower = Follower(
            handle,
            interrupts,
            show_output=show_output,
            progress=progress,
            to_stderr=to_stderr,
            tail=tail,
            detaches=True,
        )
        return follower.follow(_lifetime(handle, follower))


def _lifetime(handle: JobHandle, follower: Follower) -> Lifetime:
    if isinstance(handle, LocalJob):
        return SupervisedElsewhere(handle)
    from pliant.cli.following.kubernetes import ElasticJobLifetime
    from pliant.handles.kubernetes.job_handle import KubernetesJob

    assert isinstance(handle, KubernetesJob)
    return ElasticJobLifetime(handle, Interrupts(), follower.say)  # of its own: Ctrl-C here deletes no job


class SupervisedElsewhere(Supervision):
    def __init__(self, handle: LocalJob) -> None:
        super().__init__(handle)
        self._watch = FolderWatch(handle.home.path)  # the summary comes there

    @property
    def unrecorded_stop(self) -> str:
        return ""

    def replace_master(self) -> bool:
        return False

    def request_stop(self, reason: str, *, at_once: bool) -> None:
        return  # who is attached does not stop the job

    def wait(self, seconds: float, beside: Sequence[int] = ()) -> None:
        self._watch.clear()
        if not self._handle.is_over():
            own = [self._watch.fileno()] if self._watch.is_working else []
            select.select([*own, *beside], [], [], seconds if own else min(seconds, POLL_INTERVAL_S))
