"""A simulated job: its nodes live by the real books, its time and its costs are those of its truth."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.sim.jobs import QUIET, SERVERS, WORKERS, Scripted, queue_truth, simulate, spec_of, workers

from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.nodes.states import NodeState
from pliant.core.planning.configuration import Bounds, Configuration, Shape
from pliant.sim.cluster import MachineSize
from pliant.sim.fleet import Grants
from pliant.sim.policies.base import plan_for
from pliant.sim.simulation import Outage, Simulation, World
from pliant.sim.truth.allreduce import AllreduceTruth
from pliant.sim.truth.base import Costs, Hardships, Memory
from pliant.sim.truth.servers import ServersTruth

AT_ONCE = Grants(delay_s=0.0)


def test_a_job_ends_when_its_records_are_done_at_the_true_rate() -> None:
    job = simulate(queue_truth(), Scripted(workers(5)), world=World(grants=AT_ONCE))
    assert job.outcome.completion_s == pytest.approx(100_000 / 50, rel=0.02)
    assert job.outcome.node_seconds == pytest.approx(5 * (job.outcome.completion_s or 0))
    assert job.records == 100_000


def test_the_same_seed_gives_the_same_outcome_and_another_one_another() -> None:
    truth = queue_truth(hardships=Hardships(straggler_share=0.5))
    first, again = simulate(truth, Scripted(workers(4))), simulate(truth, Scripted(workers(4)))
    assert first.outcome.curve == again.outcome.curve
    assert first.outcome.curve != simulate(truth, Scripted(workers(4)), seed=2).outcome.curve


def test_a_plan_is_carried_out_by_the_books_and_measured_as_a_period_of_its_own() -> None:
    policy = Scripted(workers(2), (300.0, workers(6)), (600.0, workers(3)))
    job = simulate(queue_truth(), policy)
    assert policy.refusals == ["", ""]
    assert [plan.configuration.worker.replicas for plan in job.outcome.plans] == [6, 3]
    book = job.fleet.book
    assert book.role("worker").next_number == 6  # no name is reused
    sizes = {period.configuration.worker.replicas: period.rate for period in policy.histories[-1].periods}
    assert sizes == pytest.approx({2: 20.0, 6: 60.0, 3: 30.0}, rel=0.01)


def test_a_period_does_not_count_the_time_in_which_nodes_start() -> None:
    policy = Scripted(workers(1), (200.0, workers(8)))
    simulate(queue_truth(costs=Costs(start_s=100.0)), policy)
    grown = next(p for h in policy.histories for p in h.periods if p.configuration.worker.replicas == 8)
    assert grown.began > 250.0
    assert grown.rate == pytest.approx(80.0, rel=0.01)


def test_a_plan_outside_of_the_bounds_is_refused_and_counted() -> None:
    job = simulate(queue_truth(), Scripted(workers(2)))
    outside = replace(job.history(0.0), bounds=Bounds(replace(WORKERS, max_replicas=50)))
    policy = Scripted(workers(2))
    simulation = Simulation(World(), [spec_of(queue_truth())], policy, 1)
    simulation.queue.run(100.0)
    plan = plan_for(outside, workers(40), 100.0, algorithm="x", reason="too many")
    assert plan is not None
    assert "outside of the bounds" in simulation.jobs["job"].carry_out(100.0, replace(plan, base_version=None))
    assert simulation.jobs["job"].outcome.out_of_bounds == 1


def test_a_plan_for_an_older_version_of_the_job_is_refused() -> None:
    policy = Scripted(workers(2), (50.0, workers(4)))
    simulation = Simulation(World(), [spec_of(queue_truth())], policy, 1)
    simulation.queue.run(200.0)
    job = simulation.jobs["job"]
    old = replace(job.history(200.0), version=1)
    plan = plan_for(old, workers(8), 200.0, algorithm="x", reason="late")
    assert plan is not None
    assert "version" in job.carry_out(200.0, plan)
    assert job.configuration.worker.replicas == 4


def test_growing_memory_kills_nodes_and_the_book_grows_their_memory() -> None:
    truth = queue_truth(worker_memory=Memory(500, 3000))
    policy = Scripted(workers(2, memory_mb=1000))
    job = simulate(truth, policy)
    assert job.outcome.succeeded
    assert job.outcome.ooms >= 4
    assert {found.limit_mb for found in policy.histories[-1].out_of_memory} >= {1000.0, 1500.0}
    assert any(node.exit_reason is ExitReason.OOM for node in job.fleet.book.nodes())


def test_a_job_that_can_never_have_enough_memory_fails_as_the_book_says() -> None:
    truth = queue_truth(worker_memory=Memory(500, 30_000))
    job = simulate(truth, Scripted(workers(1)), world=World((MachineSize(1, 8.0, 2000),)))
    assert "out of memory" in job.outcome.failure
    assert job.outcome.completion_s is None


def test_a_cluster_without_room_grants_a_part_and_the_rest_waits() -> None:
    policy = Scripted(workers(8))
    job = simulate(queue_truth(), policy, world=World((MachineSize(1, 3.0, 65536),)))
    assert policy.histories[5].pending == tuple(f"worker-{n}" for n in range(3, 8))
    assert policy.histories[5].pending_since is not None
    assert job.outcome.completion_s == pytest.approx(100_000 / 30, rel=0.05)


def test_nodes_of_machines_that_are_taken_away_are_replaced_when_there_is_room_again() -> None:
    world = World((MachineSize(4, 2.0, 8192),), outages=(Outage(500.0, 300.0, 1.0),))
    job = simulate(queue_truth(), Scripted(workers(4)), world=world)
    preempted = [node for node in job.fleet.book.nodes() if node.exit_reason is ExitReason.PREEMPTED]
    assert len(preempted) == 4
    assert all(node.state is NodeState.FAILED for node in preempted)
    dead = [point for point in job.outcome.curve if 500.0 <= point.time < 800.0]
    assert {point.nodes for point in dead} == {0}
    assert job.outcome.succeeded


def test_more_cpu_is_given_in_place_or_by_replacing_nodes_one_by_one() -> None:
    truth = queue_truth(wait_s=0.0, cpu_s=0.1)
    change = (300.0, workers(4, cpu=2.0))
    in_place = simulate(truth, Scripted(workers(4), change))
    rolling = simulate(truth, Scripted(workers(4), change), world=World(grants=Grants(can_resize=False)))
    assert in_place.fleet.book.role("worker").next_number == 4
    assert rolling.fleet.book.role("worker").next_number == 8
    for job in (in_place, rolling):
        assert {
            node.resources.cpu for node in job.fleet.book.nodes() if node.exit_reason is not ExitReason.COMPLETED
        } == {2.0}


def test_all_workers_of_a_world_wait_when_one_joins() -> None:
    truth = AllreduceTruth(records=600_000, noise=QUIET, costs=Costs(start_s=10.0, reform_s=30.0))
    job = simulate(truth, Scripted(workers(2), (200.0, workers(3))), world=World(grants=AT_ONCE))
    stalls = [
        end - point.time for point, end in job.outcome.stretches(1e9) if point.rate == 0 and 200 < point.time < 400
    ]
    assert max(stalls) == pytest.approx(30.0)


def test_moved_partitions_relieve_the_hot_server() -> None:
    truth = ServersTruth(records=10**8, cpu_s=0.0001, apply_s=0.001, skew=1.0, noise=QUIET)
    simulation = Simulation(
        World(),
        [spec_of(truth, Bounds(WORKERS, SERVERS))],
        Scripted(Configuration(Shape(8, 2.0, 1024), Shape(4, 1.0, 4096))),
        1,
    )
    simulation.queue.run(300.0)
    job = simulation.jobs["job"]
    before, hot = job.history(300.0), max((n for n in job.history(300.0).nodes if n.role == "ps"), key=lambda n: n.cpu)
    assert hot.cpu > 1.5 * min(node.cpu for node in before.nodes if node.role == "ps")
    rate = job.outcome.curve[-1].rate
    job.fleet.move_partitions({hot.name: 0.5})
    simulation.queue.run(1000.0)
    job._recompute(1000.0)
    assert job.outcome.curve[-1].rate > 1.5 * rate
    assert job.history(0.0).nodes


def test_seats_of_virtual_workers_are_kept_at_their_sum_or_not_given_at_all() -> None:
    truth = AllreduceTruth(records=10**9, virtual_workers=16, noise=QUIET)
    simulation = Simulation(World(), [spec_of(truth)], Scripted(workers(2)), 1)
    simulation.queue.run(100.0)
    fleet = simulation.jobs["job"].fleet
    fleet.give_seats({"worker-0": 10, "worker-1": 5})
    assert [node.seats for node in fleet.ready("worker")] == [8, 8]
    fleet.give_seats({"worker-0": 10, "worker-1": 6})
    assert [node.seats for node in fleet.ready("worker")] == [10, 6]


def test_lost_reports_leave_fewer_samples_and_the_right_rate() -> None:
    def samples(lost: float) -> tuple[int, float]:
        policy = Scripted(workers(4))
        simulate(queue_truth(records=24_000, noise=replace(QUIET, lost_reports=lost)), policy)
        periods = policy.histories[-1].periods
        return sum(period.samples for period in periods), periods[-1].rate

    (all_of_them, rate), (some, same_rate) = samples(0.0), samples(0.6)
    assert some < 0.7 * all_of_them
    assert same_rate == pytest.approx(rate, rel=0.02)


def test_a_rollout_that_ends_is_measured_although_nothing_else_happens() -> None:
    policy = Scripted(workers(4), (300.0, workers(4, cpu=2.0)))
    truth = queue_truth(wait_s=0.0, cpu_s=0.1)
    simulate(truth, policy, world=World(grants=Grants(can_resize=False)))
    assert {p.configuration.worker.cpu: round(p.rate) for p in policy.histories[-1].periods} == {1.0: 40, 2.0: 76}
