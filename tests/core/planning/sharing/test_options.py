"""The demand of a job from its history."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.history import JobHistory, JobKind, NodeView, Objective, Period, Room
from pliant.core.planning.sharing.demand import Amount, Knowledge, Option, Quota
from pliant.core.planning.sharing.options import demand_of, knowledge_of, minimum_of, options_of, under_grant

WORKERS = RoleBounds(2, 32, unit=2, min_cpu=1.0, max_cpu=4.0)


def of(workers: int, cpu: float = 1.0, memory_mb: int = 500) -> Configuration:
    return Configuration(Shape(workers, cpu, memory_mb))


def period(workers: int, rate: float, began: float = 0.0, samples: int = 12) -> Period:
    return Period(of(workers), began, began + 100, rate, 0.01 * rate, samples)


def history(*periods: Period, now: Configuration | None = None, bounds: RoleBounds = WORKERS) -> JobHistory:
    current = now or (periods[-1].configuration if periods else of(4))
    return JobHistory(JobKind.QUEUE, current, Bounds(bounds), periods=periods, remaining_records=100_000)


def rates(options: tuple[Option, ...], cpu: float = 1.0) -> dict[int, float]:
    return {o.configuration.worker.replicas: o.rate for o in options if o.configuration.worker.cpu == cpu}


def test_without_a_measurement_speed_is_linear_up_to_twice_what_it_has() -> None:
    assert rates(options_of(history())) == {2: 2.0, 4: 4.0, 6: 6.0, 8: 8.0}


def test_options_are_within_the_bounds_and_in_units_and_contain_minimum_and_present() -> None:
    found = options_of(history(period(4, 40.0), period(8, 70.0)))
    sizes = [option.configuration.worker.replicas for option in found]
    assert all(size % 2 == 0 and 2 <= size <= 32 for size in sizes)
    assert {2, 8} <= set(sizes)
    assert minimum_of(history()) in [option.configuration for option in found]
    assert len(found) <= 20


def test_a_job_that_gains_nothing_by_more_has_no_option_of_more() -> None:
    flat = history(period(4, 100.0), period(8, 101.0, 100.0), period(16, 99.0, 200.0), period(8, 101.0, 300.0))
    found = options_of(flat)
    assert max(option.configuration.cpu for option in found) <= 8
    linear = history(period(4, 40.0), period(8, 80.0, 100.0), period(16, 159.0, 200.0))
    assert max(rates(options_of(linear))) == 32


def test_room_that_others_take_now_is_no_limit() -> None:
    full = replace(
        history(period(4, 40.0), period(8, 80.0, 100.0)),
        room=Room(0.0, 0.0),
        nodes=tuple(NodeView(f"worker-{n}", "worker", cpu=0.9, cpu_limit=1.0) for n in range(8)),
    )
    found = rates(options_of(full))
    assert found[16] == pytest.approx(160, rel=0.15)


def test_a_change_of_nodes_costs_more_than_one_of_their_number() -> None:
    found = {option.configuration: option.change_s for option in options_of(history(period(8, 80.0, samples=40)))}
    assert found[of(8)] == 0
    resized = min(cost or 0 for new, cost in found.items() if new.worker.cpu != 1.0)
    assert resized > (found[of(16)] or 0) > 0


def test_the_minimum_of_servers_holds_their_rows() -> None:
    now = Configuration(Shape(4, 1.0, 500), Shape(8, 2.0, 1000))
    job = JobHistory(
        JobKind.PS_ASYNC,
        now,
        Bounds(WORKERS, RoleBounds(1, 8, min_cpu=1.0)),
        nodes=tuple(NodeView(f"ps-{n}", "ps", memory_mb=400.0) for n in range(8)),
    )
    assert minimum_of(job) == Configuration(Shape(2, 1.0, 500), Shape(4, 1.0, 1000))
    assert minimum_of(replace(job, nodes=())).server == Shape(1, 1.0, 1000)


@pytest.mark.parametrize(
    ("job", "known"),
    [
        (history(), Knowledge.ENOUGH),
        (history(period(8, 80.0, samples=2)), Knowledge.ENOUGH),
        (history(period(8, 80.0)), Knowledge.ONE_SIZE),
        (history(period(8, 80.0), now=of(4)), Knowledge.TRYING),
        (history(period(8, 80.0), period(4, 60.0, 100.0)), Knowledge.ENOUGH),
    ],
)
def test_what_is_known_of_a_job_is_told_by_the_sizes_that_were_measured(job: JobHistory, known: Knowledge) -> None:
    assert knowledge_of(job, 200.0) is known


def test_a_size_that_never_settles_is_given_up() -> None:
    stuck = replace(history(period(8, 80.0), now=of(4)), settling_since=100.0)
    assert knowledge_of(stuck, 200.0) is Knowledge.TRYING
    assert knowledge_of(stuck, 2000.0) is Knowledge.ENOUGH


def test_a_demand_says_what_the_job_has_and_how_long_it_takes() -> None:
    demand = demand_of(history(period(8, 80.0)), 100.0, job="a", priority=3, is_running=True)
    assert (demand.current, demand.priority, demand.remaining_s) == (of(8), 3, 1250.0)
    assert demand_of(history(), 0.0, job="a", is_running=False).current is None


def test_a_grant_bounds_what_the_quota_limits_and_nothing_else() -> None:
    bounds = Bounds(WORKERS, max_cpu=100.0)
    by_cpu = under_grant(bounds, of(8), Quota("q", Amount(cpu=50.0)))
    assert (by_cpu.max_cpu, by_cpu.max_memory_mb, by_cpu.worker) == (8.0, 0, WORKERS)
    by_nodes = under_grant(bounds, of(8), Quota("q", Amount(memory_mb=9000.0, nodes=9.0)))
    assert (by_nodes.max_cpu, by_nodes.max_memory_mb, by_nodes.worker.max_replicas) == (100.0, 4000, 8)


def test_a_job_with_options_by_its_objective_is_modest_if_it_is_to_be_cheap() -> None:
    job = history(period(4, 40.0), period(8, 60.0, 100.0), period(16, 80.0, 200.0))
    fast = options_of(replace(job, objective=Objective.FASTEST))
    cheap = options_of(replace(job, objective=Objective.CHEAPEST, configuration=of(4)))
    assert max(o.configuration.cpu for o in fast) > max(o.configuration.cpu for o in cheap)
