"""The oracle: what a planner would do that knows the truth of every job.

A job gets the best configuration of its objective, with enough memory, and keeps it. Partitions move off a hot server at once, and
a slow worker is replaced as soon as it is seen. It does not know beforehand which nodes will be slow or preempted. Jobs that share
a cluster get what an integer program finds, again whenever a job comes or goes, for the one of several objectives that leads to
the least sum of completion times if nobody else comes; if there are too many for that, what its
relaxation finds greedily (the largest gain per core first), which is the same but for less than one job's step.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from pliant.core.planning.configuration import Configuration
from pliant.core.planning.history import JobHistory, NodeView
from pliant.core.planning.plan import Replacement, ResourcePlan
from pliant.sim.optimum import Option, best, best_objective, front, options, share_out, share_out_greedily, weights
from pliant.sim.policies.base import ClusterView, Policy, clip, plan_for
from pliant.sim.truth.base import Truth

MIN_LEFT_S = 300.0  # a job that ends sooner is left as it is
SLOW = 1.25  # times as long as the others
MAX_JOBS = 60  # of one integer program; beyond, it is solved greedily
MANY_JOBS_OBJECTIVE = "the least mean slowdown"


class Oracle(Policy):
    name = "oracle"
    interval_s = max_interval_s = 60.0
    needs_samples = False

    def __init__(self, truths: Mapping[str, Truth]) -> None:
        self._truths = truths
        self._options: dict[str, list[Option]] = {}
        self._wanted: dict[str, Configuration] = {}
        self._jobs, self._objective = 0, ""

    def first(self, job: str, history: JobHistory, cluster: ClusterView) -> Configuration:
        truth, bounds = self._truths[job], history.bounds
        found = options(truth, bounds)
        self._options[job] = front(found, history.objective)
        chosen = best(found, history.objective)
        if cluster.quota_cpu:  # until all of it is shared out anew
            fitting = [option for option in found if option.configuration.cpu <= cluster.free_cpu]
            chosen = best(fitting, history.objective) if fitting else self._options[job][0]
        return clip(chosen.configuration, bounds)

    def admits(self, job: str, history: JobHistory, now: float, cluster: ClusterView) -> bool:
        """As long as the least of each fits."""
        if not cluster.quota_cpu:
            return True
        least = sum(found[0].configuration.cpu for found in self._options.values())
        return least + history.configuration.cpu <= cluster.shared_cpu

    def plan(self, job: str, history: JobHistory, now: float, cluster: ClusterView) -> ResourcePlan | None:
        if (healed := self._heal(job, history, now)) is not None:
            return healed
        if cluster.job_count < 2 and not self._wanted:
            return None
        if cluster.job_count != self._jobs:
            self._jobs = cluster.job_count
            self._share(cluster)
        wanted = self._wanted.get(job)
        if wanted is None:
            return None
        return plan_for(history, wanted, now, algorithm=self.name, reason=self._objective)

    def _heal(self, job: str, history: JobHistory, now: float) -> ResourcePlan | None:
        """Off a hot server, and away with slow workers; not shortly before the end."""
        rate = sum(node.records_per_second for node in history.nodes)
        if rate <= 0 or (history.remaining_records or 0) / rate < MIN_LEFT_S:
            return None
        servers = [node for node in history.nodes if node.role == "ps" and node.cpu > 0]
        moves = {}
        if len(servers) == (history.configuration.server.replicas if history.configuration.server else 0) > 1:
            hottest = max(servers, key=lambda node: node.cpu)
            mean = sum(node.cpu for node in servers) / len(servers)
            moves = {hottest.name: 1.0 - mean / hottest.cpu} if hottest.cpu > 1.1 * mean else {}
        workers = [node for node in history.nodes if node.role == "worker"]
        slow = self._slow(workers)
        if not moves and not slow:
            return None
        return ResourcePlan(
            f"heal-{now:.0f}",
            "uneven servers or slow workers",
            replace=tuple(Replacement(name) for name in slow),
            moves=moves,
            algorithm=self.name,
        )

    def _slow(self, workers: Sequence[NodeView]) -> list[str]:
        if len(workers) < 2:
            return []
        if any(node.unit_seconds for node in workers):
            usual = statistics.median_low(node.unit_seconds for node in workers)
            return [node.name for node in workers if node.unit_seconds > SLOW * usual]
        usual = statistics.median_high(node.records_per_second for node in workers)
        return [node.name for node in workers if node.records_per_second < usual / SLOW]

    def ended(self, job: str) -> None:
        self._options.pop(job, None)
        self._wanted.pop(job, None)

    def _share(self, cluster: ClusterView) -> None:
        left = {name: h.remaining_records or 0 for name, h in cluster.histories().items() if name in self._options}
        is_small = len(left) <= MAX_JOBS
        if not is_small and not cluster.quota_cpu:
            return  # a cluster for so many has room enough: each keeps its best
        solve = share_out if is_small else share_out_greedily
        jobs = {name: self._options[name] for name in left}
        self._objective = best_objective(jobs, left, cluster.shared_cpu) if is_small else MANY_JOBS_OBJECTIVE
        chosen = solve(jobs, weights(jobs, left, self._objective), cluster.shared_cpu)
        self._wanted = {name: option.configuration for name, option in chosen.items()}
