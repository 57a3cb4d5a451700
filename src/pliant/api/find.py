"""The ways from Python to jobs that are there already."""

from __future__ import annotations

import atexit
import functools
import os
from pathlib import Path

from pliant.api.submitted_job import SubmittedJob
from pliant.handles.cluster import Cluster
from pliant.handles.find import all_job_handles, find_job_handle
from pliant.handles.open_handles import close_job_handles


class Jobs(list[SubmittedJob]):
    """Jobs, shown as a table in a notebook."""

    def _repr_html_(self) -> str:
        from pliant.api.notebook_html import jobs_html

        return jobs_html(job._handle.peek().status for job in self)


def attach(
    name: str | None = None,
    *,
    namespace: str | None = None,
    context: str | None = None,
    job_dir: str | os.PathLike[str] | None = None,
) -> SubmittedJob:
    """A job by its name, or the newest one; of this machine or on Ray, or in a namespace of a Kubernetes cluster.

    job = pliant.attach("digits")
    job = pliant.attach("digits", namespace="team-a")
    """
    folder = Path(job_dir) if job_dir is not None else None
    return SubmittedJob(find_job_handle(name, folder, cluster_of(namespace, context)))


def jobs(*, namespace: str | None = None, context: str | None = None) -> Jobs:
    """All jobs of this machine and on Ray, oldest first; or those in a namespace of a Kubernetes cluster.

    for job in pliant.jobs():
        print(job.name, job.status().phase)
    """
    return Jobs(SubmittedJob(handle) for handle in all_job_handles(cluster_of(namespace, context)))


def cluster_of(namespace: str | None, context: str | None) -> Cluster | None:
    """None: jobs of this machine. Connections to a cluster are closed when Python ends."""
    if namespace is None and context is None:
        return None
    close_at_end()
    return Cluster(namespace or "", context)


@functools.cache
def close_at_end() -> None:
    atexit.register(close_job_handles)
