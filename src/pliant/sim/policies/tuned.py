"""Baselines that know the truth of each job, as if a person had tuned it before, and share a quota by a simple rule.

They are stronger than what they stand for: neither has to find out anything, so what they lack is the sharing alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from pliant.core.planning.configuration import Configuration
from pliant.core.planning.history import JobHistory
from pliant.core.planning.plan import ResourcePlan
from pliant.sim.optimum import Option, best, options
from pliant.sim.policies.base import ClusterView, Policy, plan_for
from pliant.sim.truth.base import Truth


class FirstCome(Policy):
    """First come, first served: each job takes its best of what is left of the quota, and keeps it until its end. A job whose
    minimum does not fit waits, and all behind it do."""

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
        return _best_within(found, history, cluster.free_cpu)

    def plan(self, job: str, history: JobHistory, now: float, cluster: ClusterView) -> ResourcePlan | None:
        return None


class TunedEqualShare(Policy):
    """The quota divided by the number of jobs, again whenever it changes; each job makes the best of its part."""

    name = "equal-share-tuned"
    interval_s = max_interval_s = 60.0
    needs_samples = False

    def __init__(self, truths: Mapping[str, Truth]) -> None:
        self._truths = truths
        self._options: dict[str, list[Option]] = {}
        self._least: dict[str, float] = {}  # cores of each job's minimum

    def admits(self, job: str, history: JobHistory, now: float, cluster: ClusterView) -> bool:
        if sum(self._least.values()) + history.configuration.cpu > cluster.shared_cpu:
            return False
        self._least[job] = history.configuration.cpu
        return True

    def first(self, job: str, history: JobHistory, cluster: ClusterView) -> Configuration:
        self._options[job] = options(self._truths[job], history.bounds)
        return _best_within(self._options[job], history, cluster.shared_cpu / (cluster.job_count + 1))

    def plan(self, job: str, history: JobHistory, now: float, cluster: ClusterView) -> ResourcePlan | None:
        wanted = _best_within(self._options[job], history, cluster.shared_cpu / cluster.job_count)
        reason = f"the best of an equal share for each of {cluster.job_count} jobs"
        return plan_for(history, wanted, now, algorithm=self.name, reason=reason)

    def ended(self, job: str) -> None:
        self._options.pop(job, None)
        self._least.pop(job, None)


def _best_within(found: list[Option], history: JobHistory, cores: float) -> Configuration:
    fitting = [option for option in found if option.configuration.cpu <= cores + 1e-9]
    if not fitting:
        return min(found, key=lambda option: option.configuration.cpu).configuration
    return best(fitting, history.objective).configuration
