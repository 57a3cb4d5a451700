"""From a name to a job's handle: a folder of this machine, which a job on Ray has, too, or an ElasticJob of a cluster.

The client of Kubernetes is an extra, imported only when a command names a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pliant.core.errors import NotAvailable
from pliant.handles.cluster import Cluster
from pliant.handles.job_dirs import all_jobs as all_job_dirs
from pliant.handles.job_dirs import find_job as find_job_dir
from pliant.handles.job_handle import JobHandle
from pliant.handles.local import LocalJob
from pliant.handles.open_handles import close_at_exit
from pliant.handles.ray import RayJob, is_on_ray
from pliant.master.job_dir import JobDir

if TYPE_CHECKING:
    from pliant.handles.kubernetes.namespace_jobs import NamespaceJobs
    from pliant.handles.kubernetes.session import Session


def find_job_handle(name: str | None, job_dir: Path | None = None, cluster: Cluster | None = None) -> JobHandle:
    """A job of the cluster, if one is given; else by folder, by name, or the newest one of this machine."""
    if cluster is None:
        return handle_of_folder(find_job_dir(name, job_dir))
    with kubernetes_extra():
        from pliant.handles.kubernetes.job_handle import find_job
    return close_at_exit(find_job(name, cluster))


def all_job_handles(cluster: Cluster | None = None) -> list[JobHandle]:
    """Oldest first."""
    if cluster is None:
        return [handle_of_folder(home) for home in all_job_dirs()]
    with kubernetes_extra():
        from pliant.handles.kubernetes.job_handle import all_jobs
    return [close_at_exit(job) for job in all_jobs(cluster)]


def open_namespace(cluster: Cluster) -> NamespaceJobs:
    """The jobs of a namespace over one connection, for a process that looks again and again."""
    with kubernetes_extra():
        from pliant.handles.kubernetes.namespace_jobs import NamespaceJobs
    return NamespaceJobs(cluster)


def handle_of_folder(home: JobDir) -> LocalJob:
    return RayJob(home) if is_on_ray(home) else LocalJob(home)


@contextmanager
def kubernetes_extra() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise NotAvailable(
            f"Kubernetes jobs need a package that is not installed: {error.name}",
            hint="pip install 'pliant[kubernetes]'",
        ) from None


def open_session(cluster: Cluster) -> Session:
    """A connection to a cluster, for what is created there."""
    with kubernetes_extra():
        from pliant.handles.kubernetes.session import Session
    return Session(cluster)
