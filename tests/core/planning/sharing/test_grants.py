"""The book of grants: a shrink is confirmed before others grow."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core.planning.sharing.demands import of, quota

from pliant.core.errors import CorruptData, InvalidRequest
from pliant.core.planning.configuration import Configuration
from pliant.core.planning.sharing.demand import Amount, Share
from pliant.core.planning.sharing.grants import Grant, GrantBook, GrantSettings


class Cluster:
    """Speaks the verbs of the Brain; counts the reports of each job."""

    def __init__(self, **limits: float) -> None:
        self.book = GrantBook(quota(**limits), GrantSettings(grace_s=120.0, suspend_grace_s=60.0))
        self.now = 0.0
        self.reports: dict[str, int] = {}

    def share(self, **shares: Configuration | int | None) -> dict[str, Any]:
        given = [
            Share(job, of(share) if isinstance(share, int) else share, "because").to_json()
            for job, share in shares.items()
        ]
        return limits(self.book.shares(self.now, shares=given))

    def report(self, job: str, has: Configuration | int | None, grant: int | None = None) -> dict[str, Any]:
        self.reports[job] = self.reports.get(job, 0) + 1
        newest = self.book.grant_of(job)
        amount = Amount.of(of(has) if isinstance(has, int) else has)
        return limits(
            self.book.used(
                self.now,
                job=job,
                amount=amount.to_json(),
                report=self.reports[job],
                grant=grant if grant is not None else (newest.number if newest else 0),
            )
        )


def limits(grants: tuple[Grant, ...]) -> dict[str, Any]:
    return {grant.job: grant.limit.worker.replicas if grant.limit else None for grant in grants}


def test_what_is_free_is_granted_at_once() -> None:
    cluster = Cluster(cpu=10)
    assert cluster.share(a=4, b=6) == {"a": 4, "b": 6}
    assert cluster.book.free().cpu == 0


def test_growth_waits_until_the_shrink_is_confirmed() -> None:
    cluster = Cluster(cpu=10)
    cluster.share(a=10)
    cluster.report("a", 10)
    assert cluster.share(a=4, b=6) == {"a": 4}
    assert cluster.book.waiting() == ("b",)
    assert cluster.report("a", 7) == {}
    assert cluster.report("a", 4) == {"b": 6}
    assert cluster.book.waiting() == ()


def test_a_job_that_has_not_seen_its_shrink_may_still_grow_so_nothing_is_free() -> None:
    cluster = Cluster(cpu=10)
    cluster.share(a=10)
    cluster.report("a", 3)  # its nodes are still being launched
    assert cluster.share(a=4, b=6) == {"a": 4}
    assert cluster.report("a", 3, grant=1) == {}
    assert cluster.report("a", 4, grant=2) == {"b": 6}


def test_late_and_duplicated_reports_are_ignored() -> None:
    cluster = Cluster(cpu=10)
    cluster.share(a=10)
    small: dict[str, Any] = {"job": "a", "amount": Amount.of(of(2)).to_json(), "report": 1, "grant": 1}
    cluster.reports["a"] = 1
    cluster.report("a", 10)
    assert cluster.share(a=4, b=6) == {"a": 4}
    before = cluster.book.snapshot()
    assert cluster.book.used(1.0, **small) == ()
    assert cluster.book.snapshot() == before


def test_growth_is_granted_in_the_order_of_the_shares_and_blocks_nobody_behind() -> None:
    cluster = Cluster(cpu=10)
    cluster.share(x=4, y=6)
    cluster.report("x", 4)
    cluster.report("y", 6)
    assert cluster.share(first=6, second=2, x=1, y=1) == {"x": 1, "y": 1}
    assert cluster.report("x", 1) == {"second": 2}
    assert cluster.report("y", 1) == {"first": 6}


def test_jobs_that_are_not_named_keep_what_they_have() -> None:
    cluster = Cluster(cpu=10)
    cluster.share(a=4)
    assert cluster.share(b=6) == {"b": 6}
    assert cluster.book.held_by("a").cpu == 4


def test_equal_grants_are_not_sent_again_and_numbers_rise() -> None:
    cluster = Cluster(cpu=10)
    cluster.share(a=4)
    assert cluster.share(a=4) == {}
    cluster.share(a=6)
    grant = cluster.book.grant_of("a")
    assert grant is not None
    assert (grant.number, grant.limit, grant.grace_s) == (2, of(6), 0.0)


def test_a_job_that_does_not_confirm_within_its_grace_is_named_and_never_counted_as_free() -> None:
    cluster = Cluster(cpu=10)
    cluster.share(a=10)
    cluster.report("a", 10)
    cluster.now = 50.0
    cluster.share(a=4, b=6)
    assert cluster.book.overdue(169.0) == ()
    (late,) = cluster.book.overdue(170.0)
    assert (late.job, late.since, late.excess.cpu) == ("a", 50.0, 6.0)
    cluster.now = 1e6
    assert cluster.share(a=4, b=6) == {}
    assert cluster.report("a", 4) == {"b": 6}
    assert cluster.book.overdue(2e6) == ()


def test_a_job_not_heard_of_keeps_what_it_has_until_it_is_declared_gone() -> None:
    cluster = Cluster(cpu=10)
    cluster.share(a=10)
    cluster.now = 1e6
    assert cluster.share(b=6) == {}
    assert limits(cluster.book.ended(cluster.now, job="a")) == {"b": 6}


def test_reports_and_shares_of_a_job_that_has_ended_do_not_bring_it_back() -> None:
    cluster = Cluster(cpu=10)
    cluster.share(a=10)
    cluster.book.ended(1.0, job="a")
    assert cluster.report("a", 10) == {}
    assert cluster.share(a=10) == {}
    assert cluster.book.held().cpu == 0
    cluster.book.submitted(2.0, job="a")
    assert cluster.share(a=10) == {"a": 10}


def test_a_preempted_job_is_suspended_with_a_grace_and_resumed_by_a_later_grant() -> None:
    cluster = Cluster(cpu=10)
    cluster.share(low=8)
    cluster.report("low", 8)
    assert cluster.share(high=8, low=None) == {"low": None}
    suspension = cluster.book.grant_of("low")
    assert suspension is not None
    assert suspension.grace_s == 60.0
    assert cluster.report("low", None) == {"high": 8}
    cluster.report("high", 8)
    assert cluster.share(high=2, low=8) == {"high": 2}
    assert cluster.report("high", 2) == {"low": 8}


def test_a_lowered_quota_takes_nothing_away_but_stops_growth() -> None:
    cluster = Cluster(cpu=10)
    cluster.share(a=4, b=4)
    assert cluster.book.limited(1.0, limit=Amount(6).to_json()) == ()
    assert cluster.share(a=3, b=5) == {"a": 3}
    cluster.report("a", 3)
    assert cluster.book.waiting() == ("b",), "still over the quota"
    assert cluster.share(a=2, b=4) == {"a": 2}
    assert limits(cluster.book.limited(2.0, limit=Amount(20).to_json())) == {}
    assert cluster.share(a=9, b=9) == {"a": 9, "b": 9}


def test_what_a_person_took_is_counted_and_stops_the_growth_of_others() -> None:
    cluster = Cluster(cpu=10)
    cluster.share(manual=4, a=4)
    cluster.report("manual", 9)
    assert cluster.share(manual=9, a=5) == {"manual": 9}, "it has that already"
    assert cluster.book.waiting() == ("a",)


def test_what_the_quota_does_not_limit_never_holds_up_a_grant() -> None:
    cluster = Cluster(cpu=10)
    assert cluster.share(a=of(5, 1.0, 10**6), b=of(5, 1.0, 10**6)) == {"a": 5, "b": 5}


def test_two_jobs_that_each_wait_for_what_the_other_has_go_in_two_steps() -> None:
    """One gives memory for cores, the other cores for memory."""
    cluster = Cluster(cpu=12, memory_mb=1200)
    cluster.share(a=of(4, 1.0, 200), b=of(4, 2.0, 100))
    cluster.report("a", of(4, 1.0, 200))
    cluster.report("b", of(4, 2.0, 100))
    cluster.share(a=of(4, 2.0, 100), b=of(4, 1.0, 200))
    for job in "ab":
        grant = cluster.book.grant_of(job)
        assert grant is not None
        assert grant.limit == of(4, 1.0, 100)
    cluster.report("a", of(4, 1.0, 100))
    cluster.report("b", of(4, 1.0, 100))
    assert cluster.book.waiting() == ()
    last = cluster.book.grant_of("a")
    assert last is not None
    assert last.limit == of(4, 2.0, 100)


def test_a_book_that_lost_its_memory_goes_on_from_what_jobs_report() -> None:
    cluster = Cluster(cpu=10)
    told: dict[str, Any] = {"amount": Amount.of(of(3)).to_json(), "report": 41, "grant": 17, "limit": of(7).to_json()}
    cluster.book.used(0.0, job="a", **told)
    assert cluster.book.held_by("a").cpu == 7, "it may still take all of that grant"
    assert cluster.share(b=6) == {}
    cluster.share(a=4, b=6)
    grant = cluster.book.grant_of("a")
    assert grant is not None
    assert grant.number == 18


def test_a_snapshot_goes_on_where_the_book_was() -> None:
    cluster = Cluster(cpu=10)
    cluster.share(a=10)
    cluster.report("a", 10)
    cluster.share(a=4, b=6, c=None)
    restored = GrantBook(quota(cpu=99))
    restored.restore(cluster.book.snapshot())
    assert restored.snapshot() == cluster.book.snapshot()
    told: dict[str, Any] = {"job": "a", "amount": Amount.of(of(4)).to_json(), "report": 9, "grant": 2}
    assert restored.apply("used", 9.0, told) == cluster.book.apply("used", 9.0, told)
    assert restored.held() == cluster.book.held()


@pytest.mark.parametrize(
    "arguments",
    [
        {"job": "a", "amount": {"cpu": -1.0}, "report": 1, "grant": 0},
        {"job": "a", "amount": {"cpu": float("nan")}, "report": 1, "grant": 0},
        {"job": "a", "amount": {}, "report": 0, "grant": 0},
        {"job": "a", "amount": {}, "report": 1, "grant": -1},
    ],
)
def test_an_absurd_report_is_refused_and_leaves_no_trace(arguments: dict[str, Any]) -> None:
    book = GrantBook(quota(cpu=4))
    with pytest.raises(InvalidRequest):
        book.used(0.0, **arguments)
    assert book.jobs == ()


def test_a_job_with_two_shares_is_refused() -> None:
    book = GrantBook(quota(cpu=4))
    with pytest.raises(InvalidRequest, match="two shares"):
        book.shares(0.0, shares=[Share("a", of(1), "").to_json(), Share("a", of(2), "").to_json()])
    with pytest.raises(CorruptData):
        book.apply("free", 0.0, {})
