"""Which jobs a dashboard shows: all of this machine or of a namespace, or one alone."""

from __future__ import annotations

from pathlib import Path

from pliant.dashboard.watching.job_source import JobsOfNamespace, JobsOfThisMachine, JobSource, OneJob
from pliant.handles.cluster import Cluster
from pliant.handles.find import find_job_handle, open_namespace


def job_source(name: str | None, job_dir: Path | None, cluster: Cluster | None) -> tuple[JobSource, str]:
    """And the id of the only job, empty for all."""
    if name is None and job_dir is None:
        return (JobsOfNamespace(open_namespace(cluster)) if cluster is not None else JobsOfThisMachine()), ""
    one = OneJob(find_job_handle(name, job_dir, cluster))
    return one, one.id
