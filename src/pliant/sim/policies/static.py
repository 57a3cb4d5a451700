"""Baselines that do not look at the job: a fixed size, and an equal share of the cluster."""

from __future__ import annotations

from dataclasses import replace

from pliant.core.planning.configuration import Configuration
from pliant.core.planning.history import JobHistory
from pliant.core.planning.plan import ResourcePlan
from pliant.sim.policies.base import ClusterView, Policy, plan_for, shape_of


class Static(Policy):
    """So many workers and a quarter as many servers, each with the most that the bounds allow; never changed.

    The usual job of a person who knows the bounds and nothing of the job.
    """

    def __init__(self, workers: int, name: str = "") -> None:
        """``workers`` 0: as many as the bounds allow."""
        self._workers = workers
        self.name = name or (f"static-{workers}" if workers else "static-max")
        self.interval_s = self.max_interval_s = 3600.0
        self.needs_samples = False

    def first(self, job: str, history: JobHistory, cluster: ClusterView) -> Configuration:
        bounds = history.bounds
        workers = self._workers or bounds.worker.max_replicas
        server = shape_of(bounds.server, max(1, workers // 4), cluster) if bounds.server is not None else None
        return Configuration(shape_of(bounds.worker, workers, cluster), server)

    def plan(self, job: str, history: JobHistory, now: float, cluster: ClusterView) -> ResourcePlan | None:
        return None


class EqualShare(Policy):
    """Every job that runs gets the same part of the cluster's cores, as far as its bounds allow."""

    name = "equal-share"
    interval_s = max_interval_s = 60.0
    needs_samples = False

    def first(self, job: str, history: JobHistory, cluster: ClusterView) -> Configuration:
        return self._fair(history, cluster, cluster.job_count + 1)

    def plan(self, job: str, history: JobHistory, now: float, cluster: ClusterView) -> ResourcePlan | None:
        wanted = self._fair(history, cluster, cluster.job_count)
        server = wanted.server
        if server is not None and history.configuration.server is not None:
            server = replace(history.configuration.server, replicas=server.replicas)
        wanted = Configuration(
            replace(history.configuration.worker, replicas=wanted.worker.replicas), server, wanted.micro_batch
        )
        return plan_for(
            history, wanted, now, algorithm=self.name, reason=f"an equal share for each of {cluster.job_count} jobs"
        )

    def _fair(self, history: JobHistory, cluster: ClusterView, jobs: int) -> Configuration:
        bounds = history.bounds
        each = shape_of(bounds.worker, 1, cluster)
        server = shape_of(bounds.server, 1, cluster) if bounds.server is not None else None
        cores = cluster.total_cpu / max(1, jobs)
        if server is None:
            return Configuration(shape_of(bounds.worker, max(1, int(cores / (each.cpu or 1.0))), cluster))
        workers = max(1, int(cores / ((each.cpu or 1.0) + (server.cpu or 1.0) / 4)))
        return Configuration(
            shape_of(bounds.worker, workers, cluster), shape_of(bounds.server, max(1, workers // 4), cluster)
        )
