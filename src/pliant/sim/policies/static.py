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

    def __init__(self) -> None:
        self._least: dict[str, float] = {}  # cores of each job's minimum

    def admits(self, job: str, history: JobHistory, now: float, cluster: ClusterView) -> bool:
        """As long as the quota has room for the least of each."""
        if cluster.quota_cpu and sum(self._least.values()) + history.configuration.cpu > cluster.shared_cpu:
            return False
        self._least[job] = history.configuration.cpu
        return True

    def ended(self, job: str) -> None:
        self._least.pop(job, None)

    def first(self, job: str, history: JobHistory, cluster: ClusterView) -> Configuration:
        return self._fair(history, cluster, cluster.job_count + 1)

    def plan(self, job: str, history: JobHistory, now: float, cluster: ClusterView) -> ResourcePlan | None:
        wanted = self._fair(history, cluster, cluster.job_count)
        worker, server = history.configuration.worker, wanted.server
        cpu = wanted.worker.cpu if cluster.quota_cpu else worker.cpu
        if server is not None and history.configuration.server is not None:
            server_cpu = server.cpu if cluster.quota_cpu else history.configuration.server.cpu
            server = replace(history.configuration.server, replicas=server.replicas, cpu=server_cpu)
        wanted = Configuration(replace(worker, replicas=wanted.worker.replicas, cpu=cpu), server, wanted.micro_batch)
        return plan_for(
            history, wanted, now, algorithm=self.name, reason=f"an equal share for each of {cluster.job_count} jobs"
        )

    def _fair(self, history: JobHistory, cluster: ClusterView, jobs: int) -> Configuration:
        bounds = history.bounds
        cores = cluster.shared_cpu / max(1, jobs)
        roles = 1 if bounds.server is None else 2
        cpu = min(
            bounds.worker.max_cpu, max(bounds.worker.min_cpu, cores / roles)
        )  # a node is no larger than its share
        if bounds.server is None:
            return Configuration(shape_of(bounds.worker, max(1, int(cores / (cpu or 1.0))), cluster, cpu))
        server_cpu = min(bounds.server.max_cpu, max(bounds.server.min_cpu, cores / roles))
        workers = max(1, int(cores / ((cpu or 1.0) + (server_cpu or 1.0) / 4)))
        servers = max(1, workers // 4)
        if cluster.quota_cpu:  # a quota does not round up
            workers = max(1, min(workers, int((cores - servers * server_cpu) / (cpu or 1.0))))
        return Configuration(
            shape_of(bounds.worker, workers, cluster, cpu), shape_of(bounds.server, servers, cluster, server_cpu)
        )
