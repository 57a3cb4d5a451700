"""First come, first served: each job takes its best of what is left of the quota, and keeps it until its end.

A strong baseline: it knows the truth of each job, as if a person had tuned it before, and only does not share. A job whose minimum
does not fit waits, and all behind it do.
"""

from __future__ import annotations

from collections.abc import Mapping

from pliant.core.planning.configuration import Configuration
from pliant.core.planning.history import JobHistory
from pliant.core.planning.plan import ResourcePlan
from pliant.sim.optimum import best, options
from pliant.sim.policies.base import ClusterView, Policy
from pliant.sim.truth.base import Truth


class FirstCome(Policy):
    name = "first-come"
    interval_s = max_interval_s = 30.0
    needs_samples = False

    def __init__(self, truths: Mapping[str, Truth]) -> None:
        self._truths = truths
        self._line: list[str] = []  # jobs that wait

    def admits(self, job: str, history: JobHistory, now: float, cluster: ClusterView) -> bool:
        if job not in self._line:
            self._line.append(job)
        if self._line[0] != job or history.configuration.cpu > cluster.free_cpu + 1e-9:
            return False
        self._line.remove(job)
        return True

    def first(self, job: str, history: JobHistory, cluster: ClusterView) -> Configuration:
        found = options(self._truths[job], history.bounds)
        fitting = [option for option in found if option.configuration.cpu <= cluster.free_cpu + 1e-9]
        return best(fitting or found, history.objective).configuration

    def plan(self, job: str, history: JobHistory, now: float, cluster: ClusterView) -> ResourcePlan | None:
        return None
