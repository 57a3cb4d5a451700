"""Jobs that share a quota in a simulation: it holds, jobs wait, and the Brain divides it better than simple rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.sim.jobs import queue_truth, spec_of

from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.resources import Resources
from pliant.sim.cluster import MachineSize, VirtualCluster
from pliant.sim.job import SimulatedSpec
from pliant.sim.measures import measure, slowdowns, unfairness, waited_s
from pliant.sim.optimum import Option, SpeedCurve, best_objective, options, share_out, share_out_greedily, weights
from pliant.sim.outcome import JobOutcome, Point
from pliant.sim.policies.brain import Brain
from pliant.sim.policies.registry import make_policy
from pliant.sim.run import run_scenario
from pliant.sim.scenario import Scenario, load_scenario
from pliant.sim.simulation import Simulation, SimulationResult, World

MACHINES = (MachineSize(8, 16.0, 1 << 20),)
SHARING = ("brain", "equal-share", "equal-share-tuned", "first-come", "oracle", "auto")


def world(quota_cpu: float) -> World:
    return World(MACHINES, quota_cpu=quota_cpu)


def fixed(name: str, workers: int, arrival: float = 0.0, records: int = 20_000) -> SimulatedSpec:
    """A job that takes so many cores or nothing."""
    bounds = Bounds(RoleBounds(workers, workers, min_cpu=1, max_cpu=1, max_memory_mb=8192))
    return spec_of(queue_truth(records=records), bounds, name=name, arrival=arrival)


def elastic(name: str, records: int = 200_000, limit: float = 0.0, arrival: float = 0.0) -> SimulatedSpec:
    """Ten records per second and worker, of all workers no more than ``limit``."""
    bounds = Bounds(RoleBounds(1, 16, min_cpu=1, max_cpu=1, max_memory_mb=8192))
    return spec_of(queue_truth(records=records, source_limit=limit), bounds, name=name, arrival=arrival)


def simulate(policy: str, quota_cpu: float, *specs: SimulatedSpec) -> SimulationResult:
    truths = {spec.name: spec.truth for spec in specs}
    return Simulation(world(quota_cpu), specs, make_policy(policy, truths), 1).run()


def by_name(result: SimulationResult) -> dict[str, JobOutcome]:
    return {job.name: job for job in result.jobs}


# --- the quota of a cluster


def test_a_cluster_grants_no_node_beyond_its_quota() -> None:
    cluster = VirtualCluster(MACHINES, quota_cpu=4.0)
    assert cluster.place("a", "worker-0", Resources(3.0)) is not None
    assert cluster.place("a", "worker-1", Resources(2.0)) is None
    assert cluster.room().free_cpu == 1.0
    assert not cluster.resize("a", "worker-0", Resources(5.0))
    assert cluster.resize("a", "worker-0", Resources(2.0))
    assert cluster.place("a", "worker-1", Resources(2.0)) is not None
    assert cluster.most_used_cpu == 4.0


@pytest.mark.parametrize("policy", SHARING)
def test_no_policy_exceeds_the_quota_and_all_jobs_end(policy: str) -> None:
    specs = [elastic("a"), elastic("b", arrival=300.0), fixed("c", 4, arrival=600.0)]
    result = simulate(policy, 8.0, *specs)
    assert result.most_used_cores <= 8.0
    assert [job.succeeded for job in result.jobs] == [True] * 3
    assert sum(job.out_of_bounds for job in result.jobs) == 0


# --- waiting


@pytest.mark.parametrize("policy", ["brain", "first-come", "equal-share", "oracle"])
def test_a_job_whose_minimum_does_not_fit_waits_for_the_end_of_another(policy: str) -> None:
    result = simulate(policy, 6.0, fixed("first", 4), fixed("second", 4, arrival=10.0))
    first, second = by_name(result)["first"], by_name(result)["second"]
    assert first.ended is not None
    assert waited_s(first, result.ended) == 0
    assert first.ended - 10.0 <= waited_s(second, result.ended) <= first.ended + 60.0
    assert second.succeeded


def test_a_smaller_job_goes_first_while_a_large_one_waits_under_the_brain_only() -> None:
    jobs = (fixed("runs", 4), fixed("large", 4, arrival=10.0), fixed("small", 1, arrival=20.0))
    waited = {
        policy: waited_s(by_name(simulate(policy, 6.0, *jobs))["small"], 0.0) for policy in ("brain", "first-come")
    }
    assert waited["brain"] < 60 < waited["first-come"]


def test_a_job_that_never_begins_is_part_of_the_outcome() -> None:
    never = Simulation(
        replace(world(6.0), horizon_s=600.0), [fixed("huge", 7), fixed("small", 2, records=5000)], Brain(), 1
    ).run()
    huge = by_name(never)["huge"]
    assert (huge.ended, huge.node_seconds) == (None, 0.0)
    assert waited_s(huge, never.ended) == 600.0
    assert by_name(never)["small"].succeeded


# --- who gets what


def test_the_brain_gives_what_one_job_cannot_use_to_the_other() -> None:
    specs = (elastic("capped", limit=25.0), elastic("free", records=1_500_000))
    brain, even = (by_name(simulate(policy, 16.0, *specs)) for policy in ("brain", "equal-share"))
    assert brain["free"].completion_s is not None
    assert even["free"].completion_s is not None
    assert brain["free"].completion_s < 0.9 * even["free"].completion_s
    assert brain["capped"].completion_s == pytest.approx(even["capped"].completion_s, rel=0.1)


def test_equal_jobs_end_at_nearly_the_same_time_under_the_brain() -> None:
    result = simulate("brain", 12.0, elastic("a"), elastic("b"))
    one, other = (job.completion_s for job in result.jobs)
    assert one is not None
    assert one == pytest.approx(other, rel=0.1)


def test_the_grants_of_the_brain_fit_into_the_quota_all_the_time() -> None:
    specs = [elastic("a"), elastic("b", limit=30.0, arrival=200.0), elastic("c", arrival=900.0)]
    brain = Brain()
    simulation = Simulation(world(10.0), specs, brain, 1)
    seen = []

    def check(now: float) -> None:
        seen.append(brain.book.held().cpu)
        simulation.queue.at(now + 5.0, check)

    simulation.queue.at(1.0, check)
    simulation.run()
    assert max(seen) <= 10.0 + 1e-6
    assert brain.book.jobs == ()
    assert brain.rounds > 10


def test_two_jobs_come_near_the_oracle_and_past_simple_rules() -> None:
    scenario, folder = load_scenario("two-jobs")
    baselines = ("equal-share", "equal-share-tuned", "first-come")
    found = run_scenario(scenario, folder, policies=("brain", "oracle", *baselines)).measures
    assert found["brain"].completion_sum_s < 1.03 * found["oracle"].completion_sum_s
    for baseline in baselines:
        assert found["brain"].completion_sum_s < found[baseline].completion_sum_s, baseline
    assert found["brain"].waiting_max_s < 120


def test_the_same_seed_gives_the_same_division() -> None:
    specs = [elastic("a"), elastic("b", limit=30.0, arrival=200.0)]
    one, other = (simulate("brain", 10.0, *specs) for _ in range(2))
    assert [job.completion_s for job in one.jobs] == [job.completion_s for job in other.jobs]


# --- measures


def test_slowdown_and_unfairness_are_against_the_job_alone_and_its_equal_share() -> None:
    curve = SpeedCurve(((2.0, 400.0), (4.0, 200.0), (8.0, 100.0)))
    assert (curve.seconds(), curve.seconds(5.0), curve.seconds(1.0)) == (100.0, 200.0, 800.0)
    jobs = [JobOutcome(name, "p", 0.0, 1, ended=300.0) for name in "ab"]
    result = SimulationResult("p", 1, jobs, ended=300.0)
    curves = {"a": curve, "b": curve}
    assert slowdowns(result, curves) == [3.0, 3.0]
    assert unfairness(result, curves, 8.0) == [1.5, 1.5], "two jobs: four cores each would have been 200 s"
    assert measure(result, curves=curves, quota_cpu=8.0).completion_sum_s == 600.0


def test_waiting_ends_with_the_first_node() -> None:
    job = JobOutcome("a", "p", 100.0, 1, curve=[Point(100.0, 0.0, 0), Point(130.0, 0.0, 2), Point(160.0, 5.0, 2)])
    assert waited_s(job, 999.0) == 30.0


# --- the oracle


def front_of(*rates: float, cpu: float = 1.0) -> list[Option]:
    return [Option(Configuration(Shape(n, cpu)), rate, 1.0, 1.0) for n, rate in enumerate(rates, start=1)]


def test_the_greedy_division_is_that_of_the_integer_program_where_gains_diminish() -> None:
    jobs = {"a": front_of(10, 18, 24, 28, 30), "b": front_of(5, 10, 15, 20, 25), "c": front_of(8, 9, 9.5)}
    left = {"a": 1000.0, "b": 1500.0, "c": 300.0}
    for cores in (3.0, 6.0, 9.0, 13.0):
        exact, greedy = share_out(jobs, left, cores), share_out_greedily(jobs, left, cores)
        sums = [sum(left[name] / option.rate for name, option in found.items()) for found in (exact, greedy)]
        assert sums[1] <= 1.1 * sums[0]
        assert sum(option.configuration.cpu for option in greedy.values()) <= cores
    assert share_out_greedily(jobs, left, 2.0) == {}


def test_the_oracle_takes_the_objective_that_ends_jobs_soonest() -> None:
    """Of jobs that use all they get equally well, the shortest first is best."""
    jobs = {"long": front_of(*range(1, 9)), "short": front_of(*range(1, 9))}
    assert best_objective(jobs, {"long": 10_000.0, "short": 100.0}, 8.0) == "the shortest first"
    shares = share_out(jobs, weights(jobs, {"long": 10_000.0, "short": 100.0}, "the shortest first"), 8.0)
    assert shares["short"].rate > shares["long"].rate


# --- scenarios


def test_a_scenario_bounds_each_job_by_its_quota() -> None:
    text = "name: x\ncluster: {quota_cpu: 6}\njobs: [{queue: {records: 1000}, workers: {max: 16, max_cpu: 1}}]\n"
    scenario = Scenario.from_yaml(text, "x")
    (spec,) = scenario.specs(1, Path())
    assert spec.bounds.max_cpu == 6.0
    assert scenario.world().quota_cpu == 6.0
    assert max(option.configuration.cpu for option in options(spec.truth, spec.bounds)) <= 6.0
