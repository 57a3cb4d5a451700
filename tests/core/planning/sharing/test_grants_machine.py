"""Any sequence of shares, quotas, lost, late and duplicated messages: never over the quota by our own doing, and all is granted in
the end.

Jobs here are real in this sense: each acts by the newest grant that reached it, takes anything up to its limit whenever it likes,
gives nodes up when it likes, and reports what it has.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.sharing.demand import Amount, Demand, Option, Quota, Share
from pliant.core.planning.sharing.grants import Grant, GrantBook
from pliant.core.planning.sharing.share_quota import share_quota

QUOTAS = (Amount(12.0), Amount(6.0, 900.0), Amount(12.0, 900.0, 0.0, 9.0), Amount(3.0))


def of(workers: int, cpu: float, memory_mb: int) -> Configuration:
    return Configuration(Shape(workers, cpu, memory_mb))


SHAPES = [of(n, cpu, memory) for n in (1, 2, 3, 5) for cpu, memory in ((1.0, 100), (2.0, 50), (0.0, 0))]


@dataclass
class Job:
    name: str
    minimum: Configuration
    priority: int
    is_preemptible: bool
    arrived: float
    has: Amount = field(default_factory=Amount)
    grant: Grant | None = None  # that it acts by
    reported: int = 0

    def demand(self, book: GrantBook) -> Demand:
        granted = book.grant_of(self.name)
        current = granted.limit if granted is not None and not book.held_by(self.name).is_nothing else None
        options = {shape for shape in SHAPES if shape.worker.replicas >= self.minimum.worker.replicas} | {self.minimum}
        ordered = sorted(options, key=str)
        return Demand(
            *(self.name, self.priority, self.arrived, self.minimum),
            tuple(Option(one, one.worker.replicas * (one.worker.cpu or 1.0)) for one in ordered),
            current,
            is_preemptible=self.is_preemptible,
        )


class Sharing(RuleBasedStateMachine):
    @initialize(limit=st.sampled_from(QUOTAS))
    def begin(self, limit: Amount) -> None:
        self.now = 0.0
        self.book, self.other = (GrantBook(Quota("team", limit)) for _ in range(2))  # other: restored on the way
        self.jobs: dict[str, Job] = {}
        self.grants: list[Grant] = []  # under way to jobs
        self.reports: list[dict[str, Any]] = []  # under way to the book
        self.ceiling = limit  # what may be held: more than the quota while it was lowered
        self.numbers: dict[str, int] = {}
        self.born = 0
        for minimum, priority in zip(SHAPES[:3], (0, 1, 0), strict=True):
            self.a_job_arrives(minimum, priority, True)
        self.the_quota_is_shared()

    def apply(self, method: str, **arguments: Any) -> Any:
        self.now += 5.0
        told = json.loads(json.dumps(arguments))
        made = self.book.apply(method, self.now, told)
        assert self.other.apply(method, self.now, told) == made
        for grant in made or ():
            assert grant.number > self.numbers.get(grant.job, 0)
            self.numbers[grant.job] = grant.number
            self.grants.append(grant)
        return made

    # --- jobs

    @rule(shape=st.sampled_from(SHAPES[:6]), priority=st.integers(0, 2), is_preemptible=st.booleans())
    def a_job_arrives(self, shape: Configuration, priority: int, is_preemptible: bool) -> None:
        if len(self.jobs) < 5:
            self.born += 1
            name = f"job-{self.born}"
            self.jobs[name] = Job(name, shape, priority, is_preemptible, self.now)

    @rule(data=st.data())
    def a_job_ends(self, data: st.DataObject) -> None:
        if self.jobs:
            job = self.jobs.pop(data.draw(st.sampled_from(sorted(self.jobs))))
            self.apply("ended", job=job.name)

    @rule(data=st.data(), part=st.sampled_from([0.0, 0.5, 1.0, 1.0]))
    def a_job_takes_or_gives_up(self, data: st.DataObject, part: float) -> None:
        if not self.jobs:
            return
        job = self.jobs[data.draw(st.sampled_from(sorted(self.jobs)))]
        self.take(job, part)

    def take(self, job: Job, part: float) -> None:
        limit = Amount.of(job.grant.limit if job.grant else None)
        job.has = Amount(*(part * value for value in limit.values))

    @rule(data=st.data())
    def a_job_reports(self, data: st.DataObject) -> None:
        if not self.jobs:
            return
        job = self.jobs[data.draw(st.sampled_from(sorted(self.jobs)))]
        self.reports.append(self.report_of(job))

    def report_of(self, job: Job) -> dict[str, Any]:
        job.reported += 1
        number = job.grant.number if job.grant else 0
        return {"job": job.name, "amount": job.has.to_json(), "report": job.reported, "grant": number}

    # --- messages

    @rule(data=st.data(), duplicated=st.booleans())
    def a_report_arrives(self, data: st.DataObject, duplicated: bool) -> None:
        if self.reports:
            index = data.draw(st.integers(0, len(self.reports) - 1))
            report = self.reports[index] if duplicated else self.reports.pop(index)
            self.apply("used", **report)

    @rule(data=st.data(), duplicated=st.booleans())
    def a_grant_arrives(self, data: st.DataObject, duplicated: bool) -> None:
        if self.grants:
            index = data.draw(st.integers(0, len(self.grants) - 1))
            self.deliver(self.grants[index] if duplicated else self.grants.pop(index))

    def deliver(self, grant: Grant) -> None:
        job = self.jobs.get(grant.job)
        if job is not None and (job.grant is None or grant.number > job.grant.number):
            job.grant = grant

    @rule(data=st.data())
    def a_message_is_lost(self, data: st.DataObject) -> None:
        box: list[Any] = self.reports if data.draw(st.booleans()) else self.grants
        if box:
            box.pop(data.draw(st.integers(0, len(box) - 1)))

    @rule(data=st.data())
    def some_jobs_get_their_grants_take_all_and_report(self, data: st.DataObject) -> None:
        for name in data.draw(st.lists(st.sampled_from(sorted(self.jobs)), unique=True)) if self.jobs else ():
            newest = self.book.grant_of(name)
            if newest is not None:
                self.deliver(newest)
            self.take(self.jobs[name], 1.0)
            self.apply("used", **self.report_of(self.jobs[name]))

    # --- the Brain

    @rule()
    def the_quota_is_shared(self) -> None:
        running = {job.name for job in self.jobs.values() if job.demand(self.book).current is not None}
        shares = share_quota(self.book.quota, [job.demand(self.book) for job in self.jobs.values()], self.now)
        for share in shares:
            job = self.jobs[share.job]
            if share.configuration is None and share.job in running:
                assert job.is_preemptible, "below its minimum because of another"
            elif share.configuration is not None:
                assert share.configuration.worker.replicas >= job.minimum.worker.replicas
        self.apply("shares", shares=[share.to_json() for share in shares])

    @rule(data=st.data())
    def anything_is_shared(self, data: st.DataObject) -> None:
        """Not by the rules: the book protects the quota whatever it is told."""
        chosen = data.draw(st.lists(st.sampled_from(sorted(self.jobs)), unique=True)) if self.jobs else []
        shares = [Share(job, data.draw(st.none() | st.sampled_from(SHAPES)), "").to_json() for job in chosen]
        self.apply("shares", shares=shares)

    @rule(limit=st.sampled_from(QUOTAS))
    def the_quota_is_changed(self, limit: Amount) -> None:
        held = self.book.held()
        room = Quota("", limit).room().maximum(held)
        self.ceiling = room
        self.apply("limited", limit=limit.to_json())

    @rule()
    def the_brain_restarts(self) -> None:
        state = json.loads(json.dumps(self.book.snapshot()))
        self.other = GrantBook(Quota("team", Amount()))
        self.other.restore(state)

    # --- what holds

    @invariant()
    def nothing_is_held_beyond_the_quota_by_our_doing(self) -> None:
        if not hasattr(self, "book"):
            return
        held, room = self.book.held(), self.book.quota.room()
        for one, limit, ceiling in zip(held.values, room.values, self.ceiling.values, strict=True):
            assert one <= max(limit, ceiling) + 1e-6
        self.ceiling = Amount(
            *(
                max(limit, min(ceiling, one))
                for one, limit, ceiling in zip(held.values, room.values, self.ceiling.values, strict=True)
            )
        )

    @invariant()
    def nobody_is_counted_who_is_not_there(self) -> None:
        assert set(self.book.jobs if hasattr(self, "book") else ()) <= set(self.jobs)

    @invariant()
    def no_job_has_or_may_take_more_than_it_is_counted_with(self) -> None:
        for job in self.jobs.values() if hasattr(self, "book") else ():
            held = self.book.held_by(job.name)
            assert job.has.excess(held).is_nothing
            assert Amount.of(job.grant.limit if job.grant else None).excess(held).is_nothing

    def teardown(self) -> None:
        """Messages arrive, jobs obey: whoever has a share of what fits is granted it."""
        if not hasattr(self, "book"):
            return
        for _ in range(12):
            self.the_quota_is_shared()
            for _ in range(6):
                for job in self.jobs.values():
                    newest = self.book.grant_of(job.name)
                    if newest is not None:
                        self.deliver(newest)
                    job.has = Amount.of(job.grant.limit if job.grant else None)
                    self.apply("used", **self.report_of(job))
                if not self.book.waiting():
                    break
        total = Amount.sum(Amount.of(share) for share in self.shared().values())
        if total.excess(self.book.quota.room()).is_nothing:
            assert self.book.waiting() == ()
        free = self.book.free()
        for job in self.jobs.values():
            if self.book.held_by(job.name).is_nothing:
                waits_for_another = any(
                    (-other.priority, other.arrived) <= (-job.priority, job.arrived) and other is not job
                    for other in self.jobs.values()
                    if self.book.held_by(other.name).is_nothing
                )
                assert not Amount.of(job.minimum).fits(free) or waits_for_another, "room, and nobody before it"
        assert self.book.overdue(self.now) == ()

    def shared(self) -> dict[str, Configuration | None]:
        shares = share_quota(self.book.quota, [job.demand(self.book) for job in self.jobs.values()], self.now)
        return {share.job: share.configuration for share in shares}


TestSharing = Sharing.TestCase
TestSharing.settings = settings(max_examples=40, stateful_step_count=50, deadline=None)
