"""The jobs that a dashboard shows: those of this machine's user, those of a namespace, or one job alone.

A job's id is what its URL has: the name of its folder, or of its ElasticJob. Ids are looked up among the jobs that were
listed, and never become a path. Handles are kept as long as their job is there, so that connections are used again.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from pliant.core.errors import NotFound
from pliant.handles.job_handle import JobHandle
from pliant.monitors.base import ClusterMonitor
from pliant.monitors.registry import make_monitor

if TYPE_CHECKING:
    from pliant.handles.kubernetes.namespace_jobs import NamespaceJobs


class JobSource(ABC):
    platform: str  # of jobs that are started here
    where: str  # for people

    @abstractmethod
    def handles(self) -> dict[str, JobHandle]:
        """By id, oldest first. In any thread."""

    def find(self, job_id: str) -> JobHandle:
        found = self.handles().get(job_id)
        if found is None:
            raise NotFound(f"job {job_id[:200]!r} not found", hint="it was removed, or belongs to another user")
        return found

    def make_monitor(self) -> ClusterMonitor:
        """Of the machines that its jobs run on."""
        return make_monitor(self.platform)

    def close(self) -> None:
        return


class OneJob(JobSource):
    def __init__(self, handle: JobHandle) -> None:
        self._handle = handle
        self.platform = handle.platform
        self.where = handle.where

    @property
    def id(self) -> str:
        return self._handle.name

    def handles(self) -> dict[str, JobHandle]:
        return {self.id: self._handle}


class JobsOfThisMachine(JobSource):
    platform, where = "local", "this machine"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[
            tuple[str, int], JobHandle
        ] = {}  # by folder and when its job was made: another may get the name

    def handles(self) -> dict[str, JobHandle]:
        from pliant.handles.find import handle_of_folder
        from pliant.handles.job_dirs import all_jobs

        found: dict[str, tuple[tuple[str, int], JobHandle]] = {}
        with self._lock:
            for home in all_jobs():
                with contextlib.suppress(OSError):
                    folder = os.lstat(home.path)
                    if folder.st_uid != os.geteuid() or not stat.S_ISDIR(folder.st_mode):
                        continue  # of another user, whose files are shown to nobody else
                    key = (home.path.name, home.spec.stat().st_mtime_ns)  # an inode is used again at once
                    found[home.path.name] = key, self._known.get(key) or handle_of_folder(home)
            self._known = dict(found.values())
        return {job_id: handle for job_id, (_, handle) in found.items()}


class JobsOfNamespace(JobSource):
    platform = "kubernetes"

    def __init__(self, jobs: NamespaceJobs) -> None:
        self._jobs = jobs
        self.where = f"namespace {jobs.namespace}"

    def handles(self) -> dict[str, JobHandle]:
        return {handle.name: handle for handle in self._jobs.handles()}

    def make_monitor(self) -> ClusterMonitor:
        return self._jobs.make_monitor()

    def close(self) -> None:
        self._jobs.close()
