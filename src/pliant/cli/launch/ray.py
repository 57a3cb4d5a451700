"""Following a job on a Ray cluster, which ``pliant.launch.ray`` has launched."""

from __future__ import annotations

from pliant.cli.following.attached import SupervisedElsewhere
from pliant.cli.following.interrupts import Interrupts
from pliant.cli.options.run import FollowOptions
from pliant.core.summary import JobSummary
from pliant.handles.ray import RayJob
from pliant.launch.job_folder import PreparedJob


def follow_on_ray(job: PreparedJob, options: FollowOptions, *, output: bool) -> JobSummary:
    """Ctrl-C stops the job, as on this machine; who only wants to look attaches."""
    from pliant.cli.following.follow import Follower

    handle = RayJob(job.home)
    with Interrupts() as interrupts:
        tail = 0 if job.is_resumed else None
        follower = Follower(handle, interrupts, tail=tail, **options.shown(output=output))
        follower.introduce(f"job {handle.name}: on Ray; files in {handle.where}")
        return follower.follow(SupervisedElsewhere(handle))
