"""Baselines do what the literature says they do, never outside of the bounds."""

from __future__ import annotations

import itertools

import pytest
from tests.sim.jobs import SERVERS, WORKERS, queue_truth, simulate, spec_of

from pliant.core.errors import InvalidRequest
from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.history import JobHistory, JobKind, Period
from pliant.sim.cluster import MachineSize
from pliant.sim.policies.base import clip
from pliant.sim.policies.dlrover import DLRoverRules
from pliant.sim.policies.optimus import Optimus, fit
from pliant.sim.policies.registry import DEFAULT_POLICIES, make_policy
from pliant.sim.policies.static import EqualShare, Static
from pliant.sim.random_jobs import random_job
from pliant.sim.simulation import Simulation, World
from pliant.sim.truth.allreduce import AllreduceTruth
from pliant.sim.truth.servers import ServersTruth


def test_a_static_job_keeps_its_size() -> None:
    job = simulate(queue_truth(), Static(5))
    assert job.outcome.plans == []
    assert job.configuration.worker.replicas == 5


def test_jobs_that_share_equally_get_less_when_another_comes_and_more_when_it_goes() -> None:
    world = World((MachineSize(2, 8.0, 65536),))
    bounds = Bounds(RoleBounds(1, 16, min_cpu=1, max_cpu=1, max_memory_mb=2048))
    long, short = queue_truth(records=800_000), queue_truth(records=40_000)
    specs = [spec_of(long, bounds, name="long"), spec_of(short, bounds, name="short", arrival=1000.0)]
    jobs = {job.name: job for job in Simulation(world, specs, EqualShare(), 1).run().jobs}
    sizes = [plan.configuration.worker.replicas for plan in jobs["long"].plans]
    assert sizes == [8, 16]
    assert jobs["short"].first is not None
    assert jobs["short"].first.worker.replicas == 8


def test_dlrover_never_scales_allreduce() -> None:
    job = simulate(AllreduceTruth(records=3_000_000), DLRoverRules())
    assert job.outcome.plans == []


def test_dlrover_adds_workers_until_its_servers_are_busy() -> None:
    bounds = Bounds(RoleBounds(1, 60, min_cpu=1, max_cpu=2, max_memory_mb=8192), SERVERS)
    truth = ServersTruth(records=60_000_000, cpu_s=0.001, apply_s=0.0001)
    job = simulate(truth, DLRoverRules(), bounds=bounds)
    sizes = [plan.configuration.worker.replicas for plan in job.outcome.plans]
    assert sizes == sorted(sizes)
    assert sizes[-1] > 4
    times = [plan.time for plan in job.outcome.plans]
    assert min(b - a for a, b in itertools.pairwise(times)) >= 300.0


def test_optimus_recovers_its_own_model() -> None:
    a, b, c, d = 2.0, 0.5, 0.01, 0.3
    periods = []
    for w, p in ((1, 1), (2, 1), (4, 2), (8, 2), (8, 4), (16, 8)):
        rate = w / (a + b * w / p + c * w + d * p)
        periods.append(Period(Configuration(Shape(w), Shape(p)), 0, 60, rate, 0.0, 12))
    history = JobHistory(JobKind.PS_ASYNC, periods[0].configuration, Bounds(WORKERS, SERVERS), periods=tuple(periods))
    assert fit(history) == pytest.approx((a, b, c, d), rel=0.01)


def test_optimus_samples_sizes_and_then_stops_where_nothing_is_gained() -> None:
    truth = queue_truth(records=400_000, source_limit=40.0, knee=10.0)
    job = simulate(truth, Optimus())
    sizes = [plan.configuration.worker.replicas for plan in job.outcome.plans]
    assert sizes[:3] == [2, 4, 8]
    assert job.outcome.succeeded


@pytest.mark.parametrize("name", DEFAULT_POLICIES)
def test_no_policy_leaves_the_bounds_of_a_random_job(name: str) -> None:
    for seed in range(4):
        found = random_job(seed, shortest_s=600, longest_s=1800)
        truths = {"job": found.truth}
        job = simulate(found.truth, make_policy(name, truths), bounds=found.bounds, world=World(grants=found.grants))
        assert job.outcome.out_of_bounds == 0
        assert found.bounds.allows(job.configuration)


def test_clipping_takes_workers_away_before_servers() -> None:
    bounds = Bounds(WORKERS, SERVERS, max_cpu=8.0)
    wanted = clip(Configuration(Shape(8, 2.0), Shape(4, 1.0)), bounds)
    assert bounds.allows(wanted)
    assert wanted == Configuration(Shape(2, 2.0), Shape(4, 1.0))


def test_an_unknown_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidRequest, match="optimus"):
        make_policy("statik", {})
