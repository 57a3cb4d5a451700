"""The quotas of the running jobs: a book of grants for each (``core/planning/sharing``), fed by reports.

Jobs without a quota, or with one that nobody has set, have no limit, and are told so. A Brain that takes over goes on from what the
database has of the jobs' nodes and grants, and from what masters report that they keep to. What changes a book runs in the event
loop; fits, and the shares themselves, are computed in threads from plain values.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pliant.brain.job_view import JobView
from pliant.brain.store.quotas import StoredQuota
from pliant.core.errors import InvalidRequest
from pliant.core.planning.cluster.offer import Grant
from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.history import JobHistory
from pliant.core.planning.sharing.demand import Amount, Demand, Option, Quota
from pliant.core.planning.sharing.grants import Grant as BookedGrant
from pliant.core.planning.sharing.grants import GrantBook
from pliant.core.planning.sharing.options import demand_of
from pliant.core.planning.sharing.share_quota import share_quota

log = logging.getLogger(__name__)

_REPORTS_PER_SESSION = 1 << 32


@dataclass(slots=True)
class _Shared:
    book: GrantBook
    demands: dict[str, tuple[object, Demand]] = field(default_factory=dict)  # by job: what it was made of


class QuotaSharing:
    def __init__(self) -> None:
        self._quotas: dict[str, _Shared] = {}
        self._unlimited: dict[str, Grant] = {}
        self._known: dict[str, Amount] = {}
        self._sent: dict[str, int] = {}  # number of the last grant that was sent, by job
        self._newest: dict[str, int] = {}  # the highest number of a grant that anybody has heard of, by job

    def grant_of(self, view: JobView) -> Grant | None:
        """That holds now."""
        shared = self._quotas.get(view.description.quota) if view.description.quota else None
        if shared is not None:
            found = shared.book.grant_of(view.key)
            return _grant(found) if found is not None else None
        return self._unlimited.get(view.key)

    def restore(self, now: float, quotas: Sequence[StoredQuota], views: Sequence[JobView]) -> None:
        """Begin with what the database has: a master may act by a grant of which it has not told yet."""
        self._take_quotas(now, quotas)
        for view in views:
            self._note_number(view)
            self.reported(now, view)

    def reported(self, now: float, view: JobView) -> bool:
        """Whether there is something to grant."""
        self._note_number(view)
        shared = self._quotas.get(view.description.quota)
        return shared is not None and self._note_use(now, shared, view)

    def ended(self, now: float, view: JobView) -> None:
        self._unlimited.pop(view.key, None)
        self._sent.pop(view.key, None)
        self._newest.pop(view.key, None)
        shared = self._quotas.get(view.description.quota)
        if shared is not None:
            shared.demands.pop(view.key, None)
            shared.book.ended(now, job=view.key)

    async def share(
        self, now: float, quotas: Sequence[StoredQuota], views: Sequence[JobView]
    ) -> list[tuple[JobView, Grant]]:
        """The grants that are to be sent."""
        self._take_quotas(now, quotas)
        by_quota: dict[str, list[JobView]] = {}
        for view in views:
            if view.description.quota in self._quotas:
                by_quota.setdefault(view.description.quota, []).append(view)
            elif view.key not in self._unlimited:
                self._unlimit(view)
        for name, members in by_quota.items():
            try:
                await self._share_one(now, self._quotas[name], members)
            except Exception:  # a border: what is wrong with one quota holds up no other
                log.exception("cannot share quota %s now; what was granted of it holds", name)
        return [(view, grant) for view in views if (grant := self._unsent(view)) is not None]

    def sent(self, view: JobView, grant: Grant) -> None:
        self._sent[view.key] = grant.number
        self._newest[view.key] = max(grant.number, self._newest.get(view.key, 0))

    def _unsent(self, view: JobView) -> Grant | None:
        grant = self.grant_of(view)
        return grant if grant is not None and self._sent.get(view.key) != grant.number else None

    def overdue(self, now: float) -> list[str]:
        """Jobs that should have shrunk by now, for people."""
        return [
            f"job {late.job} holds {late.excess} more of quota {name} than it is granted"
            for name, shared in self._quotas.items()
            for late in shared.book.overdue(now)
        ]

    # --- inside

    def _take_quotas(self, now: float, quotas: Sequence[StoredQuota]) -> None:
        limits = {quota.name: _limit(quota) for quota in quotas}
        for name, limit in limits.items():
            if name not in self._quotas:
                self._quotas[name] = _Shared(GrantBook(Quota(name, limit)))
            elif self._known.get(name) != limit:
                self._quotas[name].book.limited(now, limit=limit.to_json())
        for name in set(self._quotas) - set(limits):
            del self._quotas[name]
        self._known = limits

    def _unlimit(self, view: JobView) -> None:
        """Numbered after whatever limited the job before."""
        before = self._newest.get(view.key, 0)
        number = before + 1 if before else 0
        self._unlimited[view.key] = Grant(view.key, number, None, "no quota limits this job", is_unlimited=True)

    def _note_number(self, view: JobView) -> None:
        if view.granted is not None:
            self._newest[view.key] = max(view.granted.number, self._newest.get(view.key, 0))

    async def _share_one(self, now: float, shared: _Shared, views: Sequence[JobView]) -> None:
        by_key = {view.key: view for view in views}
        for view in views:
            self._unlimited.pop(view.key, None)
            shared.book.submitted(now, job=view.key)
            self._note_use(now, shared, view)
        for gone in [job for job in shared.book.jobs if job not in by_key]:
            shared.book.ended(now, job=gone)
        demands = [demand for view in views if (demand := await self._safe_demand(shared, view)) is not None]
        shares = await asyncio.to_thread(share_quota, shared.book.quota, demands, now)
        there = set(shared.book.jobs) - {view.key for view in views if view.is_manual}  # one may have ended meanwhile
        shared.book.shares(now, shares=[share.to_json() for share in shares if share.job in there])

    def _note_use(self, now: float, shared: _Shared, view: JobView) -> bool:
        amount = Amount.of(view.configuration_of_nodes())
        granted = view.granted if not view.is_manual else None
        limit = granted.limit.to_json() if granted is not None and granted.limit is not None else None
        if granted is not None and granted.is_unlimited:  # what it has is what it took, not what it may have
            limit = (view.configuration_of_nodes() or Configuration(Shape(0))).to_json()
        try:
            made = shared.book.used(
                now,
                job=view.key,
                amount=amount.to_json(),
                report=view.session * _REPORTS_PER_SESSION + view.sequence,
                grant=granted.number if granted is not None else 0,
                limit=limit,
            )
        except InvalidRequest as error:  # in a database that was written by a release which took anything
            log.warning("job %s counts as before: %s", view.identity, error)
            return False
        return bool(made)

    async def _safe_demand(self, shared: _Shared, view: JobView) -> Demand | None:
        """A job of which nothing can be computed counts as it is: it holds up nobody."""
        try:
            return await self._demand(shared, view)
        except Exception:
            log.exception("cannot compute what job %s demands of its quota; it counts as it is", view.identity)
            return _as_it_is(view)

    async def _demand(self, shared: _Shared, view: JobView) -> Demand | None:
        history = view.full_history()
        if view.is_manual:
            return _as_it_is(view)
        if history is None or not view.planner.state:  # this Brain has not heard of it yet: what it was granted holds
            return _as_it_is(view, view.granted.limit if view.granted is not None else None)
        made_of = _key(history, view)
        found = shared.demands.get(view.key)
        if found is None or found[0] != made_of:
            demand = await asyncio.to_thread(
                demand_of,
                history,
                view.master_time,
                job=view.key,
                priority=view.description.priority,
                is_running=view.is_running,
                is_preemptible=view.description.is_preemptible,
            )
            found = (made_of, replace(demand, arrived=view.arrived))
            shared.demands[view.key] = found
        return found[1]


def _as_it_is(view: JobView, granted: Configuration | None = None) -> Demand | None:
    """Of a job whose nodes a person decides on, or of which it is not known yet what it could do with more or less."""
    configuration = granted or view.configuration_of_nodes()
    if configuration is None:
        return None
    return Demand(
        view.key,
        view.description.priority,
        view.arrived,
        configuration,
        (Option(configuration, 1.0),),
        configuration,
        is_manual=True,
    )


def _key(history: JobHistory, view: JobView) -> object:
    """A demand is made anew only if something changed that it depends on: fits take a while."""
    newest = history.periods[-1] if history.periods else None
    rate = (newest.configuration, f"{newest.rate:.2g}") if newest is not None else None
    return (history.configuration, history.bounds, len(history.periods), rate, view.is_running, view.description)


def _limit(quota: StoredQuota) -> Amount:
    return Amount(quota.cpu or 0.0, quota.memory_mb or 0.0, float(quota.gpu or 0), float(quota.nodes or 0))


def _grant(booked: BookedGrant) -> Grant:
    return Grant(booked.job, booked.number, booked.limit, booked.reason, booked.grace_s)
