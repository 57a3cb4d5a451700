"""The oracle: what a planner would do that knows the truth of every job.

A job gets the best configuration of its objective, with enough memory, and keeps it. It does not know which nodes will be slow
or preempted, and it does not replace any: another policy may be faster where those matter. Jobs that share a cluster get what an
integer program finds, again whenever a job comes or goes.
"""

from __future__ import annotations

from collections.abc import Mapping

from pliant.core.planning.configuration import Configuration
from pliant.core.planning.history import JobHistory
from pliant.core.planning.plan import ResourcePlan
from pliant.sim.optimum import Option, best, front, options, share_out
from pliant.sim.policies.base import ClusterView, Policy, clip, plan_for
from pliant.sim.truth.base import Truth

MAX_JOBS = 60  # of one integer program; beyond, each job gets its own best


class Oracle(Policy):
    name = "oracle"
    interval_s = max_interval_s = 300.0
    needs_samples = False

    def __init__(self, truths: Mapping[str, Truth]) -> None:
        self._truths = truths
        self._options: dict[str, list[Option]] = {}
        self._wanted: dict[str, Configuration] = {}
        self._jobs = 0

    def first(self, job: str, history: JobHistory, cluster: ClusterView) -> Configuration:
        truth, bounds = self._truths[job], history.bounds
        found = options(truth, bounds)
        self._options[job] = front(found, history.objective)
        chosen = best(found, history.objective)
        return clip(chosen.configuration, bounds)

    def plan(self, job: str, history: JobHistory, now: float, cluster: ClusterView) -> ResourcePlan | None:
        if cluster.job_count < 2 and not self._wanted:
            return None
        if cluster.job_count != self._jobs:
            self._jobs = cluster.job_count
            self._share(cluster)
        wanted = self._wanted.get(job)
        if wanted is None:
            return None
        return plan_for(history, wanted, now, algorithm=self.name, reason="the least sum of remaining times")

    def ended(self, job: str) -> None:
        self._options.pop(job, None)
        self._wanted.pop(job, None)

    def _share(self, cluster: ClusterView) -> None:
        left = {name: h.remaining_records or 0 for name, h in cluster.histories().items() if name in self._options}
        if len(left) > MAX_JOBS:
            return
        chosen = share_out({name: self._options[name] for name in left}, left, cluster.total_cpu)
        self._wanted = {name: option.configuration for name, option in chosen.items()}
