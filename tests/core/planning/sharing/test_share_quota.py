"""How jobs share a quota: minimums, priorities, waiting, preemption, fairness, rest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.planning.sharing.demands import demand, of, quota

from pliant.core.errors import InvalidRequest
from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.sharing.demand import Amount, Demand, Option, Quota, Share, SharingSettings
from pliant.core.planning.sharing.share_quota import share_quota


def workers(shares: tuple[Share, ...]) -> dict[str, int]:
    return {share.job: share.configuration.worker.replicas if share.configuration else 0 for share in shares}


def sharing(cpu: float, *demands: Demand, now: float = 0.0) -> dict[str, int]:
    return workers(share_quota(quota(cpu), demands, now))


def reason(shares: tuple[Share, ...], job: str) -> str:
    return next(share.reason for share in shares if share.job == job)


# --- what is left after the minimums


def test_a_job_alone_gets_its_best() -> None:
    assert sharing(100, demand("a")) == {"a": 8}


def test_equal_jobs_share_equally() -> None:
    assert sharing(8, demand("a"), demand("b")) == {"a": 4, "b": 4}


def test_more_goes_to_the_job_that_gains_more_by_it() -> None:
    saturated = demand("flat", most=12, rate=lambda n: float(min(n, 2)))
    assert sharing(12, saturated, demand("steep", most=12)) == {"flat": 2, "steep": 10}


def test_what_brings_nothing_is_not_given() -> None:
    assert sharing(100, demand("flat", rate=lambda n: 10.0 + n / 1000)) == {"flat": 1}


def test_a_higher_priority_gets_more_of_the_rest_but_not_all() -> None:
    found = sharing(12, demand("low", most=12), demand("high", most=12, priority=2))
    assert found["high"] > found["low"] > 1


def test_sizes_between_the_units_of_a_job_are_never_given() -> None:
    in_fours = Demand("fours", 0, 0.0, of(4), tuple(Option(of(n), n) for n in (4, 8, 12)))
    assert sharing(13, in_fours, demand("ones", most=20)) == {"fours": 4, "ones": 9}


def test_the_dominant_share_counts() -> None:
    """A job of much memory is as dear as one of many cores."""
    cores = Demand("cores", 0, 0.0, of(1, 1.0, 1), tuple(Option(of(n, 1.0, 1), n) for n in range(1, 9)))
    memory = Demand("memory", 0, 0.0, of(1, 0.1, 1000), tuple(Option(of(n, 0.1, 1000), n) for n in range(1, 9)))
    found = workers(share_quota(quota(8, 8000), [cores, memory], 0.0))
    assert found["cores"] == 7  # the eighth core has gone to the other job in parts
    assert found["memory"] == 7


def test_nodes_without_a_limit_count_as_one_core() -> None:
    free = Demand("free", 0, 0.0, of(1, 0.0), tuple(Option(of(n, 0.0), n) for n in range(1, 9)))
    assert sharing(3, free) == {"free": 3}


def test_a_quota_without_limits_gives_everybody_the_best() -> None:
    assert workers(share_quota(Quota("all", Amount()), [demand("a"), demand("b", most=3)], 0.0)) == {"a": 8, "b": 3}


def test_servers_count_too() -> None:
    def with_servers(count: int, servers: int) -> Configuration:
        return Configuration(Shape(count, 1.0), Shape(servers, 2.0))

    options = tuple(Option(with_servers(n, s), min(n, 4.0 * s)) for n in range(1, 9) for s in (1, 2))
    job = Demand("ps", 0, 0.0, with_servers(1, 1), options)
    (share,) = share_quota(quota(7), [job], 0.0)
    assert share.configuration == with_servers(4, 1)


# --- minimums, waiting, starving


def test_minimums_come_before_growth() -> None:
    assert sharing(8, demand("old", has=8), demand("new", least=6, arrived=5.0)) == {"old": 2, "new": 6}


def test_a_job_that_does_not_fit_waits_and_blocks_nobody_smaller() -> None:
    shares = share_quota(
        quota(8), [demand("runs", least=4, has=8), demand("large", least=5), demand("small", arrived=1.0)], 10.0
    )
    assert workers(shares) == {"runs": 4, "large": 0, "small": 4}
    assert reason(shares, "large") == "waits: its minimum (5 CPU, 5 nodes) does not fit into what is free of team"


def test_after_its_patience_nobody_behind_it_is_admitted_any_more() -> None:
    jobs = [demand("runs", least=4, has=8), demand("large", least=5), demand("small", arrived=1.0)]
    shares = share_quota(quota(8), jobs, 700.0)
    assert workers(shares) == {"runs": 8, "large": 0, "small": 0}
    assert reason(shares, "small") == "waits behind large, which has waited for 700 s"


def test_a_stream_of_small_jobs_does_not_starve_a_large_one() -> None:
    """Each small one runs for 100 s; the next ones stand in line."""
    small = [demand(f"small-{n}", least=3, most=3, arrived=10.0 * n) for n in range(200)]
    large = demand("large", least=8, arrived=50.0)
    running: dict[str, float] = {}
    for now in range(0, 2000, 10):
        running = {job: end for job, end in running.items() if end > now}
        present = [one for one in small if one.arrived <= now and (one.job in running or one.arrived > now - 500)]
        waiting = [replace(one, current=of(3) if one.job in running else None) for one in present]
        found = sharing(10, *waiting, *([large] if now >= 50 else []), now=float(now))
        if found.get("large"):
            assert now <= 50 + 600 + 100 + 10
            return
        running |= {job: now + 100 for job, count in found.items() if count and job not in running}
    pytest.fail("starved")


def test_a_job_larger_than_the_quota_blocks_nobody_for_ever() -> None:
    shares = share_quota(quota(4), [demand("huge", least=5), demand("small", arrived=1.0)], 1e6)
    assert workers(shares) == {"huge": 0, "small": 4}
    assert "exceeds the quota" in reason(shares, "huge")


def test_a_job_that_does_not_fit_beside_manual_ones_blocks_nobody_for_ever() -> None:
    manual = demand("manual", has=3, is_manual=True)
    assert sharing(8, manual, demand("large", least=6), demand("small", arrived=1.0), now=1e6) == {
        "manual": 3,
        "large": 0,
        "small": 5,
    }


def test_a_job_that_runs_keeps_its_minimum_whatever_others_want() -> None:
    assert sharing(4, demand("runs", least=4, has=4), demand("high", least=1, priority=9)) == {"runs": 4, "high": 0}


# --- manual jobs


def test_a_manual_job_counts_as_it_is() -> None:
    assert sharing(8, demand("manual", has=5, is_manual=True), demand("auto")) == {"manual": 5, "auto": 3}


def test_a_manual_job_may_exceed_the_quota_by_itself() -> None:
    found = sharing(4, demand("manual", most=20, has=9, is_manual=True), demand("auto", has=2), demand("new"))
    assert found == {"manual": 9, "auto": 1, "new": 0}


def test_a_manual_job_that_starts_gets_what_was_asked_for() -> None:
    assert sharing(8, demand("manual", least=3, is_manual=True), demand("auto")) == {"manual": 3, "auto": 5}


# --- preemption


def test_a_preemptible_job_makes_room_for_a_higher_priority() -> None:
    low = demand("low", least=4, has=6, is_preemptible=True)
    shares = share_quota(quota(8), [low, demand("high", least=5, priority=1)], 0.0)
    assert workers(shares) == {"high": 8, "low": 0}
    assert reason(shares, "low") == "suspended for high, whose priority is higher (1)"


def test_nobody_is_preempted_for_an_equal_priority() -> None:
    low = demand("runs", least=4, has=6, is_preemptible=True)
    assert sharing(8, low, demand("same", least=5)) == {"runs": 8, "same": 0}


def test_nobody_is_preempted_in_vain() -> None:
    low = demand("low", least=2, has=4, is_preemptible=True)
    fixed = demand("fixed", least=4, has=4)
    assert sharing(8, low, fixed, demand("high", least=7, priority=1))["low"] > 0


def test_no_more_are_preempted_than_needed_and_the_lowest_first() -> None:
    jobs = [
        demand("p0-small", least=1, most=1, has=1, is_preemptible=True),
        demand("p0-large", least=3, most=3, has=3, is_preemptible=True),
        demand("p1", least=4, most=4, has=4, priority=1, is_preemptible=True),
    ]
    assert sharing(8, *jobs, demand("high", least=3, most=3, priority=2)) == {
        "high": 3,
        "p1": 4,
        "p0-small": 1,
        "p0-large": 0,
    }


def test_preempted_jobs_come_back_when_there_is_room() -> None:
    low = demand("low", least=4, is_preemptible=True)
    assert sharing(12, low, demand("high", least=5, has=8, priority=1)) == {"high": 8, "low": 4}


def test_a_lower_quota_suspends_preemptible_jobs_and_no_others() -> None:
    jobs = [demand("fixed", least=3, has=5), demand("low", least=3, has=5, is_preemptible=True)]
    shares = share_quota(quota(5), jobs, 0.0)
    assert workers(shares) == {"fixed": 5, "low": 0}
    assert "no longer fits" in reason(shares, "low")


# --- changes must pay


def test_equal_jobs_of_unequal_size_are_evened_out_if_it_pays() -> None:
    assert sharing(12, demand("a", most=12, has=10), demand("b", most=12, has=2)) == {"a": 6, "b": 6}


def test_small_differences_are_left_alone() -> None:
    assert sharing(13, demand("a", most=12, has=6), demand("b", most=12, has=7)) == {"a": 6, "b": 7}
    assert sharing(13, demand("a", most=12, has=7), demand("b", most=12, has=6)) == {"a": 7, "b": 6}


def test_a_job_that_ends_before_a_change_pays_is_left_alone() -> None:
    soon = demand("soon", has=4, change_s=30.0, remaining_s=20.0)
    assert sharing(20, soon, demand("long", most=20)) == {"soon": 4, "long": 16}
    assert sharing(20, replace(soon, remaining_s=2000.0), demand("long", most=20))["soon"] == 8


def test_a_change_that_costs_more_than_it_brings_is_not_made() -> None:
    """Ten percent for the rest of 100 s do not pay for 30 s."""
    slow = demand("a", least=10, most=11, has=10, change_s=30.0, remaining_s=100.0)
    assert sharing(20, slow) == {"a": 10}
    assert sharing(20, replace(slow, remaining_s=10_000.0)) == {"a": 11}


def test_a_job_that_demands_twice_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="twice"):
        share_quota(quota(4), [demand("a"), demand("a")], 0.0)


def test_a_demand_without_its_minimum_among_the_options_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="lack its minimum"):
        Demand("a", 0, 0.0, of(1), (Option(of(2), 2.0),))


# --- any demands


@st.composite
def demands(draw: st.DrawFn) -> list[Demand]:
    found = []
    for number in range(draw(st.integers(1, 7))):
        least = draw(st.integers(1, 5))
        sizes = sorted({least, *draw(st.lists(st.integers(least, 12), max_size=5))})
        cpu, memory = draw(st.sampled_from([0.0, 0.5, 1.0])), draw(st.sampled_from([0, 100, 700]))
        rates = draw(st.lists(st.floats(0.0, 100.0), min_size=len(sizes), max_size=len(sizes)))
        options = tuple(Option(of(size, cpu, memory), rate) for size, rate in zip(sizes, sorted(rates), strict=True))
        has = draw(st.none() | st.sampled_from(options))
        found.append(
            Demand(
                *(f"job-{number}", draw(st.integers(-1, 2)), draw(st.sampled_from([0.0, 10.0, 900.0]))),
                *(options[0].configuration, options, has.configuration if has else None),
                change_s=draw(st.sampled_from([0.0, 10.0])),
                remaining_s=draw(st.sampled_from([None, 5.0, 5000.0])),
                is_manual=draw(st.integers(0, 5)) == 0,
                is_preemptible=draw(st.booleans()),
            )
        )
    return found


limits = st.builds(
    lambda cpu, memory_mb, nodes: Amount(cpu, memory_mb, 0.0, nodes),
    st.sampled_from([0.0, 4.0, 12.0]),
    st.sampled_from([0.0, 3000.0]),
    st.sampled_from([0.0, 10.0]),
)


@settings(max_examples=150, deadline=None)
@given(demands(), limits, st.sampled_from([1000.0, 5000.0]))
def test_shares_keep_their_promises(jobs: list[Demand], limit: Amount, now: float) -> None:
    team = Quota("team", limit)
    shares = {share.job: share.configuration for share in share_quota(team, jobs, now)}
    assert set(shares) == {job.job for job in jobs}
    forced = Amount.sum(
        Amount.of(job.current if job.is_manual else job.minimum)
        for job in jobs
        if job.current is not None and (job.is_manual or not job.is_preemptible)
    )
    total = Amount.sum(Amount.of(share) for share in shares.values())
    for one, room, most in zip(total.values, team.room().values, forced.values, strict=True):
        assert one <= max(room, most) + 1e-6, "over the quota by more than what nobody may take away"
    for job in jobs:
        share = shares[job.job]
        assert share is None or share in [option.configuration for option in job.options]
        if job.is_manual and job.current is not None:
            assert share == job.current
        elif job.current is not None and share is None:
            assert job.is_preemptible
    free = team.room(total)
    waits = [job for job in jobs if shares[job.job] is None]
    if not any(now - job.arrived >= SharingSettings().patience_s and job.current is None for job in waits):
        assert not any(Amount.of(job.minimum).fits(free) for job in waits), "a job waits although there is room"


@settings(max_examples=200, deadline=None)
@given(demands(), limits)
def test_in_constant_conditions_it_comes_to_rest(jobs: list[Demand], limit: Amount) -> None:
    team = Quota("team", limit)
    for _ in range(20):
        shares = {share.job: share.configuration for share in share_quota(team, jobs, 5000.0)}
        after = [replace(job, current=shares[job.job]) for job in jobs]
        if after == jobs:
            return
        jobs = after
    pytest.fail("still changing after 20 rounds")


@settings(max_examples=50, deadline=None)
@given(demands(), limits, st.randoms())
def test_the_order_of_the_demands_does_not_matter(jobs: list[Demand], limit: Amount, random: object) -> None:
    mixed = list(jobs)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    team = Quota("team", limit)
    assert share_quota(team, jobs, 50.0) == share_quota(team, mixed, 50.0)
