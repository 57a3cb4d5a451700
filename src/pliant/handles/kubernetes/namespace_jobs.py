"""The jobs of a namespace for a process that looks at them again and again: one connection, and a handle per job that is kept.

A handle holds the port-forward to its job's master, so it is used again as long as its ElasticJob is there.
"""

from __future__ import annotations

import threading

from pliant.handles.cluster import Cluster
from pliant.handles.kubernetes.job_handle import KubernetesJob, list_jobs
from pliant.handles.kubernetes.session import Session
from pliant.monitors.base import ClusterMonitor
from pliant.monitors.kubernetes import KubernetesMonitor
from pliant.platforms.kubernetes.api import KubeApi


class NamespaceJobs:
    def __init__(self, cluster: Cluster) -> None:
        self._session = Session(cluster)
        self._context = cluster.context
        self._lock = threading.Lock()
        self._known: dict[str, KubernetesJob] = {}  # by uid
        self.namespace = self._session.namespace

    def handles(self) -> list[KubernetesJob]:
        """Oldest first."""
        with self._lock:
            known: dict[str, KubernetesJob] = {}
            for job in list_jobs(self._session):
                uid = str(job["metadata"]["uid"])
                known[uid] = self._known.get(uid) or KubernetesJob(self._session, job)
                known[uid].update(job)
            self._known = known
            return list(known.values())

    def make_monitor(self) -> ClusterMonitor:
        """Of the same cluster, with a connection of its own."""
        return KubernetesMonitor(KubeApi.load(context=self._context))

    def close(self) -> None:
        self._session.close()
