"""The oracle finds what trying everything by hand would find, and is never worse than a fixed size."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from tests.sim.jobs import SERVERS, WORKERS, queue_truth, simulate, workers

from pliant.core.planning.configuration import Bounds
from pliant.core.planning.history import Objective
from pliant.sim.optimum import Option, best, front, options, share_out
from pliant.sim.policies.oracle import Oracle
from pliant.sim.policies.static import Static
from pliant.sim.truth.servers import ServersTruth

KNEE = queue_truth(source_limit=35.0, knee=20.0, thrash=0.5, wait_s=0.1, cpu_s=0.0)


def test_the_fastest_of_one_job_is_found_behind_the_knee_and_not_at_the_maximum() -> None:
    found = best(options(KNEE, Bounds(WORKERS)), Objective.FASTEST).configuration.worker.replicas
    rates = {count: KNEE.rate_of(workers(count)) for count in range(1, 9)}
    assert found == max(rates, key=lambda count: rates[count])
    assert 1 < found < 8


def test_objectives_trade_time_for_cost() -> None:
    found = options(ServersTruth(records=10**7), Bounds(WORKERS, SERVERS))
    fastest, balanced, cheapest = (best(found, objective) for objective in Objective)
    assert fastest.seconds <= balanced.seconds <= cheapest.seconds
    cores = [option.configuration.cpu * option.seconds for option in (fastest, balanced, cheapest)]
    assert cores == sorted(cores, reverse=True)
    assert fastest.seconds < cheapest.seconds


def test_every_option_is_within_the_bounds_and_has_the_memory_that_it_will_need() -> None:
    truth = ServersTruth()
    bounds = replace(Bounds(WORKERS, SERVERS), max_cpu=10.0)
    for option in options(truth, bounds):
        assert bounds.allows(option.configuration)
        assert option.configuration.cpu <= 10.0
        assert option.configuration.worker.memory_mb >= truth.worker_memory.at(1.0)


def test_the_oracle_is_at_least_as_fast_as_every_fixed_size() -> None:
    oracle = simulate(KNEE, Oracle({"job": KNEE})).outcome.completion_s or 0.0
    for size in (1, 2, 4, 8):
        fixed = simulate(KNEE, Static(size)).outcome.completion_s
        assert fixed is not None
        assert oracle <= fixed * 1.01


def test_jobs_share_a_cluster_so_that_the_sum_of_their_times_is_the_least() -> None:
    def option(cores: int, rate: float) -> Option:
        return Option(workers(cores), rate, 0.0, 0.0)

    jobs = {
        "scales": [option(n, 10.0 * n) for n in (1, 2, 4, 6)],
        "does-not": [option(n, 10.0) for n in (1, 2, 4)],
        "halfway": [option(n, 10.0 * n**0.5) for n in (1, 2, 4)],
    }
    left = {"scales": 1000.0, "does-not": 1000.0, "halfway": 1000.0}
    chosen = share_out(jobs, left, 8)

    def total(combination: tuple[Option, ...]) -> float:
        fits = sum(o.configuration.cpu for o in combination) <= 8
        return sum(1000.0 / o.rate for o in combination) if fits else float("inf")

    by_hand = min(itertools.product(*jobs.values()), key=total)
    assert total(tuple(chosen.values())) == pytest.approx(total(by_hand), rel=0.01)
    assert chosen["does-not"].configuration.cpu == 1
    assert share_out(jobs, left, 2) == {}


def test_the_front_keeps_only_what_is_faster_for_more() -> None:
    found = front(options(KNEE, Bounds(WORKERS)), Objective.FASTEST)
    assert [o.seconds for o in found] == sorted((o.seconds for o in found), reverse=True)
    assert [o.configuration.cpu for o in found] == sorted(o.configuration.cpu for o in found)
