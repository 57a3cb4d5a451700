"""Optimus (EuroSys 2018): fit speed = w / (a + b w/p + c w + d p) from a few sampled sizes, then share out nodes greedily.

Each round gives the next worker or server to the job whose estimated completion time it shortens most per dominant share of the
cluster, until nothing helps or the cluster is full. It knows neither the CPU of a node, nor memory, nor what a change costs.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import nnls

from pliant.core.planning.configuration import Configuration
from pliant.core.planning.history import JobHistory
from pliant.core.planning.plan import ResourcePlan
from pliant.sim.policies.base import ClusterView, Policy, clip, plan_for, shape_of

SAMPLES = ((1, 1), (2, 1), (4, 2), (8, 2), (8, 4))  # (workers, servers), each for one period
SAMPLE_S = 60.0
ROUND_S = 600.0
MIN_GAIN = 0.002  # of the remaining time


@dataclass(slots=True)
class _Known:
    sample: int = 0  # how many sizes were tried
    since: float = 0.0


@dataclass(slots=True)
class _Curve:
    """Of one job, fitted."""

    history: JobHistory
    weights: tuple[float, ...]
    workers: int = 1
    servers: int = 1

    def __post_init__(self) -> None:
        self.workers = max(1, self.history.bounds.worker.min_replicas)
        server = self.history.bounds.server
        self.servers = max(1, server.min_replicas) if server is not None else 1

    def seconds(self, workers: int, servers: int) -> float:
        a, b, c, d = self.weights
        speed = workers / max(1e-9, a + b * workers / servers + c * workers + d * servers)
        return (self.history.remaining_records or 1_000_000) / max(speed, 1e-9)


class Optimus(Policy):
    name = "optimus"
    interval_s = 30.0
    max_interval_s = 120.0

    def __init__(self) -> None:
        self._jobs: dict[str, _Known] = {}
        self._wanted: dict[str, Configuration] = {}
        self._round_at, self._round_jobs = float("-inf"), 0

    def first(self, job: str, history: JobHistory, cluster: ClusterView) -> Configuration:
        self._jobs[job] = _Known()
        return self._sized(history, *SAMPLES[0], cluster)

    def plan(self, job: str, history: JobHistory, now: float, cluster: ClusterView) -> ResourcePlan | None:
        known = self._jobs[job]
        if known.sample < len(SAMPLES) - 1:
            return self._next_sample(known, history, now, cluster)
        if now - self._round_at >= ROUND_S or self._round_jobs != cluster.job_count or job not in self._wanted:
            self._allocate(cluster, now)
        wanted = self._wanted.get(job)
        if wanted is None:
            return None
        wanted = replace(
            wanted, worker=replace(history.configuration.worker, replicas=wanted.worker.replicas), server=wanted.server
        )
        return plan_for(
            history, wanted, now, algorithm=self.name, reason="the largest marginal gain of its fitted speed"
        )

    def ended(self, job: str) -> None:
        self._jobs.pop(job, None)
        self._wanted.pop(job, None)

    def _next_sample(self, known: _Known, history: JobHistory, now: float, cluster: ClusterView) -> ResourcePlan | None:
        last = history.periods[-1] if history.periods else None
        is_measured = last is not None and last.configuration == history.configuration
        if not is_measured or last is None or last.ended - last.began < SAMPLE_S:
            return None
        while known.sample < len(SAMPLES) - 1:
            known.sample += 1
            plan = plan_for(
                *(history, self._sized(history, *SAMPLES[known.sample], cluster), now),
                algorithm=self.name,
                reason="sampling the speed of another size",
            )
            if plan is not None:
                return plan
        return None

    def _sized(self, history: JobHistory, workers: int, servers: int, cluster: ClusterView) -> Configuration:
        bounds = history.bounds
        server = shape_of(bounds.server, servers, cluster) if bounds.server is not None else None
        return clip(Configuration(shape_of(bounds.worker, workers, cluster), server), bounds)

    def _allocate(self, cluster: ClusterView, now: float) -> None:
        self._round_at, self._round_jobs = now, cluster.job_count
        histories: Mapping[str, JobHistory] = cluster.histories()
        curves = {
            name: _Curve(history, fit(history))
            for name, history in histories.items()
            if name in self._jobs and self._jobs[name].sample >= len(SAMPLES) - 1 and history.periods
        }
        sampling = sum(h.configuration.cpu for name, h in histories.items() if name not in curves)
        free = cluster.total_cpu - sampling - sum(self._sized_of(curve, cluster).cpu for curve in curves.values())
        heap: list[tuple[float, str, bool]] = []
        for name, curve in curves.items():
            self._offer(heap, name, curve, cluster)
        while heap:
            _, name, is_worker = heapq.heappop(heap)
            curve = curves[name]
            before = self._sized_of(curve, cluster).cpu
            workers, servers = curve.workers + is_worker, curve.servers + (not is_worker)
            after = self._sized(curve.history, workers, servers, cluster)
            if after.cpu - before > free or after.cpu <= before:
                continue
            free -= after.cpu - before
            curve.workers, curve.servers = workers, servers
            heap = [entry for entry in heap if entry[1] != name]
            heapq.heapify(heap)
            self._offer(heap, name, curve, cluster)
        self._wanted = {name: self._sized_of(curve, cluster) for name, curve in curves.items()}

    def _sized_of(self, curve: _Curve, cluster: ClusterView) -> Configuration:
        return self._sized(curve.history, curve.workers, curve.servers, cluster)

    def _offer(self, heap: list[tuple[float, str, bool]], name: str, curve: _Curve, cluster: ClusterView) -> None:
        """One worker more, or one server more: seconds saved per share of the cluster."""
        now = curve.seconds(curve.workers, curve.servers)
        bounds = curve.history.bounds
        options = [(True, curve.workers + 1, curve.servers, bounds.worker)]
        if bounds.server is not None:
            options.append((False, curve.workers, curve.servers + 1, bounds.server))
        for is_worker, workers, servers, role in options:
            saved = now - curve.seconds(workers, servers)
            if saved > MIN_GAIN * now and (workers if is_worker else servers) <= role.max_replicas:
                share = (shape_of(role, 1, cluster).cpu or 1.0) / max(cluster.total_cpu, 1.0)
                heapq.heappush(heap, (-saved / share, name, is_worker))


def fit(history: JobHistory) -> tuple[float, ...]:
    """a, b, c, d of the paper, not negative, by relative error."""
    rows, targets = [], []
    for period in history.periods:
        workers = period.configuration.worker.replicas
        servers = period.configuration.server.replicas if period.configuration.server is not None else 1
        target = workers / max(period.rate, 1e-9)
        has_servers = history.bounds.server is not None
        rows.append([1.0, workers / servers if has_servers else 0.0, float(workers), servers if has_servers else 0.0])
        targets.append(target)
    matrix, aim = np.array(rows), np.array(targets)
    found, _ = nnls(matrix / aim[:, None], np.ones(len(aim)))
    return tuple(float(value) for value in found)
