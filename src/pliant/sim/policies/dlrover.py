"""The rules of DLRover, as its code has them by default: thresholds of CPU, no model of speed.

Parameter servers: hot above 80 % CPU get more cores (at most 32), exhausted above 95 % lose four workers, below 80 % workers grow
by 0.8 / utilisation (at most 60). Memory is what is used plus 20 %. A job of allreduce is never scaled. Autoscaling begins after
90 s, plans are 300 s apart, changes of servers an hour. Cold start: four servers of 12 cores and 16 GiB.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.history import JobHistory
from pliant.core.planning.plan import ResourcePlan
from pliant.sim.policies.base import ClusterView, Policy, plan_for, shape_of

HOT, EXHAUSTED = 0.8, 0.95
MAX_SERVER_CPU, MAX_WORKERS = 32.0, 60
COLD_SERVERS = Shape(4, 12.0, 16384)
COLD_WORKERS = 4
FIRST_AFTER_S, PLANS_APART_S, SERVERS_APART_S = 90.0, 300.0, 3600.0
MEMORY_MARGIN = 1.2


@dataclass(slots=True)
class _Known:
    planned_at: float = float("-inf")
    servers_at: float = float("-inf")
    best: float = 0.0  # rate before the last change of workers
    is_done: bool = False  # more workers did not help


class DLRoverRules(Policy):
    name = "dlrover"
    interval_s = 30.0
    max_interval_s = 30.0

    def __init__(self) -> None:
        self._jobs: dict[str, _Known] = {}

    def first(self, job: str, history: JobHistory, cluster: ClusterView) -> Configuration:
        bounds = history.bounds
        self._jobs[job] = _Known()
        server = bounds.server.clip(COLD_SERVERS) if bounds.server is not None else None
        return Configuration(shape_of(bounds.worker, COLD_WORKERS, cluster), server)

    def plan(self, job: str, history: JobHistory, now: float, cluster: ClusterView) -> ResourcePlan | None:
        known, present = self._jobs[job], history.configuration
        is_early = now - history.started < FIRST_AFTER_S or now - known.planned_at < PLANS_APART_S
        if is_early or history.settling_since is not None or not history.periods or present.server is None:
            return None
        servers = [node for node in history.nodes if node.role == "ps" and node.cpu_limit]
        if not servers:
            return None
        used = max(node.cpu / node.cpu_limit for node in servers)
        rate = history.periods[-1].rate
        wanted, reason = present, ""
        if used > EXHAUSTED and now - known.servers_at >= SERVERS_APART_S:
            cpu = min(MAX_SERVER_CPU, present.server.cpu * used / HOT * 1.5)
            wanted = replace(present, server=replace(present.server, cpu=cpu))
            reason = f"servers are hot ({used:.0%} CPU)"
            known.servers_at = now
        elif used > EXHAUSTED:
            fewer = max(1, present.worker.replicas - 4)
            wanted = replace(present, worker=replace(present.worker, replicas=fewer))
            reason = f"servers are exhausted ({used:.0%} CPU)"
            known.is_done = True
        elif used < HOT and not known.is_done:
            if known.best and rate < known.best * 1.02:
                known.is_done = True
                return None
            more = min(MAX_WORKERS, int(present.worker.replicas * min(2.0, HOT / max(used, 0.05))))
            wanted = replace(present, worker=replace(present.worker, replicas=max(more, present.worker.replicas)))
            reason = f"servers have room ({used:.0%} CPU)"
            known.best = rate
        wanted = self._with_memory(wanted, history)
        plan = plan_for(history, wanted, now, algorithm=self.name, reason=reason or "memory in use plus 20 %")
        if plan is not None:
            known.planned_at = now
        return plan

    def _with_memory(self, wanted: Configuration, history: JobHistory) -> Configuration:
        """Only more: less would cost a restart."""
        peaks = {
            role: max((n.memory_peak_mb for n in history.nodes if n.role == role), default=0.0)
            for role in ("worker", "ps")
        }
        worker, server = wanted.worker, wanted.server
        if 0 < worker.memory_mb < peaks["worker"] * MEMORY_MARGIN:
            worker = replace(worker, memory_mb=int(peaks["worker"] * MEMORY_MARGIN))
        if server is not None and 0 < server.memory_mb < peaks["ps"] * MEMORY_MARGIN:
            server = replace(server, memory_mb=int(peaks["ps"] * MEMORY_MARGIN))
        return replace(wanted, worker=worker, server=server)

    def ended(self, job: str) -> None:
        self._jobs.pop(job, None)
