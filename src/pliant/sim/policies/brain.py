"""Jobs that share a quota as under the Brain: the real planner for each, within grants of ``share_quota`` and the ``GrantBook``.

What the service does with streams is done here at the moment at which a job is asked for a plan: it reports what its nodes have
and what it could use, the quota is shared anew if something has changed, and the job plans within what it is granted. A job that
has more than its grant shrinks to it first; one without a grant waits. Options are made anew only when something was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pliant.core.planning.configuration import Configuration
from pliant.core.planning.history import JobHistory
from pliant.core.planning.plan import ResourcePlan
from pliant.core.planning.planner import PlannerSettings
from pliant.core.planning.registry import algorithm
from pliant.core.planning.sharing.demand import Amount, Demand, Option, Quota, SharingSettings
from pliant.core.planning.sharing.grants import Grant, GrantBook
from pliant.core.planning.sharing.options import demand_of, minimum_of, options_of, under_grant
from pliant.core.planning.sharing.share_quota import share_quota
from pliant.sim.policies.auto import Auto
from pliant.sim.policies.base import ClusterView, clip, plan_for

SHARING = "share_quota"
ROUND_S = 60.0  # between two divisions, if nobody comes or goes
MIN_ROUND_S = 10.0
SAME_RATE = 0.05  # relative: options are not made anew for less


@dataclass(frozen=True, slots=True)
class _Seen:
    """What options of a job were made by."""

    minimum: Configuration
    present: Configuration
    rates: Mapping[Configuration, float]

    def differs(self, other: _Seen) -> bool:
        if (self.minimum, self.present) != (other.minimum, other.present) or self.rates.keys() != other.rates.keys():
            return True
        return any(abs(other.rates[key] - rate) > SAME_RATE * rate for key, rate in self.rates.items())


class Brain(Auto):
    name = "brain"

    def __init__(
        self,
        settings: PlannerSettings | None = None,
        *,
        max_interval_s: float = Auto.max_interval_s,
        min_round_s: float = MIN_ROUND_S,
        sharing: SharingSettings | None = None,
    ) -> None:
        super().__init__(settings, max_interval_s=max_interval_s)
        self.book = GrantBook(Quota("all", Amount()))
        self.rounds = 0
        self._sharing, self._min_round_s = sharing, min_round_s
        self._demands: dict[str, Demand] = {}
        self._options: dict[str, tuple[_Seen, tuple[Option, ...]]] = {}
        self._reports: dict[str, int] = {}
        self._now, self._shared_at, self._is_changed = 0.0, float("-inf"), True

    # --- waiting and starting

    def admits(self, job: str, history: JobHistory, now: float, cluster: ClusterView) -> bool:
        self._look(now, cluster)
        if job not in self._demands:
            proposal = algorithm("create_from_history")(history, history.started)
            proposed = replace(history, configuration=proposal.configuration) if proposal is not None else history
            self._demands[job] = demand_of(proposed, now, job=job, is_running=False)
            self._is_changed = True
        self._share(now, cluster)
        return self._limit(job) is not None

    def first(self, job: str, history: JobHistory, cluster: ClusterView) -> Configuration:
        wanted = super().first(job, history, cluster)
        limit = self._limit(job)
        assert limit is not None, f"job {job} was admitted"
        return clip(wanted, under_grant(history.bounds, limit, self.book.quota))

    # --- running

    def plan(self, job: str, history: JobHistory, now: float, cluster: ClusterView) -> ResourcePlan | None:
        self._look(now, cluster)
        self._report(job, history, now, cluster)
        self._share(now, cluster)
        limit = self._limit(job)
        if limit is None:
            return None
        bounds = under_grant(history.bounds, limit, self.book.quota)
        beyond = Amount.of(history.configuration).excess(Amount.of(limit))
        if not self.book.quota.counted(beyond).is_nothing:
            grant = self.book.grant_of(job)
            reason = grant.reason if grant is not None else ""
            self.planners[job].pause(now, seconds=self.planners[job].settings.cool_down_s, reason=reason)
            return plan_for(history, clip(limit, bounds), now, algorithm=SHARING, reason=reason)
        return super().plan(job, self._within(history, bounds.max_cpu), now, cluster)

    def answered(self, job: str, plan: ResourcePlan, now: float, refusal: str) -> None:
        if plan.algorithm != SHARING:
            super().answered(job, plan, now, refusal)

    def ended(self, job: str) -> None:
        super().ended(job)
        for known in (self._demands, self._options, self._reports):
            known.pop(job, None)
        self.book.ended(self._now, job=job)
        self._is_changed = True

    # --- the Brain

    def _look(self, now: float, cluster: ClusterView) -> None:
        self._now = now
        if self.book.quota.limit.cpu != cluster.shared_cpu:
            self.book.limited(now, limit=Amount(cluster.shared_cpu).to_json())

    def _limit(self, job: str) -> Configuration | None:
        grant = self.book.grant_of(job)
        return grant.limit if grant is not None else None

    def _send(self, grants: Sequence[Grant], cluster: ClusterView) -> None:
        for grant in grants:
            cluster.wake(grant.job)

    def _report(self, job: str, history: JobHistory, now: float, cluster: ClusterView) -> None:
        """Nodes that are being replaced are there twice; those that are being launched are part of the configuration."""
        nodes = Amount(
            sum(node.cpu_limit or 1.0 for node in history.nodes),
            float(sum(node.memory_limit_mb for node in history.nodes)),
            0.0,
            float(len(history.nodes)),
        )
        self._reports[job] = self._reports.get(job, 0) + 1
        grant = self.book.grant_of(job)
        used = nodes.maximum(Amount.of(history.configuration))
        number = grant.number if grant is not None else 0
        made = self.book.used(now, job=job, amount=used.to_json(), report=self._reports[job], grant=number)
        self._send(made, cluster)
        self._demands[job] = demand_of(history, now, job=job, is_running=True, options=self._options_of(job, history))

    def _options_of(self, job: str, history: JobHistory) -> tuple[Option, ...]:
        seen = _Seen(
            minimum_of(history), history.configuration, {one.configuration: one.rate for one in history.periods}
        )
        known = self._options.get(job)
        if known is None or known[0].differs(seen):
            self._options[job] = known = (seen, options_of(history, seen.minimum))
        return known[1]

    def _within(self, history: JobHistory, max_cpu: float) -> JobHistory:
        """As the planner of the job sees it: what is free is what is left of its grant."""
        bounds = replace(history.bounds, max_cpu=max_cpu)
        if history.room is None:
            return replace(history, bounds=bounds)
        free = max(0.0, min(history.room.free_cpu, max_cpu - history.configuration.cpu))
        return replace(history, bounds=bounds, room=replace(history.room, free_cpu=free))

    def _share(self, now: float, cluster: ClusterView) -> None:
        if now - self._shared_at < (self._min_round_s if self._is_changed else ROUND_S):
            return
        self._shared_at, self._is_changed = now, False
        self.rounds += 1
        shares = share_quota(self.book.quota, list(self._demands.values()), now, self._sharing)
        self._send(self.book.shares(now, shares=[share.to_json() for share in shares]), cluster)
