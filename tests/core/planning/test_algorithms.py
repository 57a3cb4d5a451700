"""Each algorithm: what it looks at, what it proposes, and when it stays quiet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pliant.core.errors import NotFound
from pliant.core.planning import registry
from pliant.core.planning.algorithms.create_from_history import CreateFromHistory
from pliant.core.planning.algorithms.hot_ps import HotPs
from pliant.core.planning.algorithms.judge import Judge, Measured
from pliant.core.planning.algorithms.memory_forecast import MemoryForecast
from pliant.core.planning.algorithms.oom_recover import OomRecover
from pliant.core.planning.algorithms.pending_fit import PendingFit
from pliant.core.planning.algorithms.plan_job import Option, PlanJob, pareto_front
from pliant.core.planning.algorithms.probe import Probe
from pliant.core.planning.algorithms.right_size import RightSize
from pliant.core.planning.algorithms.straggler import Straggler
from pliant.core.planning.candidates import MAX_CANDIDATES, candidates
from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.history import (
    FinishedJob,
    JobHistory,
    JobKind,
    NodeView,
    Objective,
    OutOfMemory,
    Period,
    Room,
    StepParts,
)
from pliant.core.planning.objectives import rollout_s
from pliant.core.planning.proposal import Prediction, Proposal

NOW = 10_000.0


def workers(count: int, cpu: float = 0.0, memory: int = 0) -> Configuration:
    return Configuration(Shape(count, cpu, memory))


def with_servers(count: int, servers: Shape, worker_cpu: float = 1.0) -> Configuration:
    return Configuration(Shape(count, worker_cpu), servers, 32)


def period(configuration: Configuration, rate: float, index: int = 0, **more: Any) -> Period:
    began = NOW - 5000.0 + 200.0 * index
    return Period(configuration, began, began + 100.0, rate, 0.01 * rate, 20, **more)


def queue(rates: list[tuple[int, float]], **more: Any) -> JobHistory:
    """A queue job; its present configuration is the last of those that were measured."""
    periods = tuple(period(workers(count), rate, i) for i, (count, rate) in enumerate(rates))
    job = JobHistory(JobKind.QUEUE, periods[-1].configuration, Bounds(RoleBounds(1, 64)), periods=periods)
    return replace(job, **more)


def servers(load: list[float], **more: Any) -> JobHistory:
    nodes = tuple(
        NodeView(f"ps-{i}", "ps", cpu=used, cpu_limit=1.0, age_s=600.0, partition_load=((2 * i, 0.5), (2 * i + 1, 0.5)))
        for i, used in enumerate(load)
    )
    job = JobHistory(
        JobKind.PS_ASYNC,
        with_servers(4, Shape(len(load), 1.0, 1000)),
        Bounds(RoleBounds(1, 16), RoleBounds(1, 8, max_cpu=4.0, max_memory_mb=4000)),
        nodes=nodes,
    )
    return replace(job, **more)


def proposed(found: Proposal | None) -> Proposal:
    assert found is not None
    return found


# --- candidates and plan_job


def test_candidates_stay_within_bounds_room_and_twice_what_was_tried() -> None:
    job = queue([(4, 40.0), (8, 70.0)])
    counts = {candidate.worker.replicas for candidate in candidates(job)}
    assert max(counts) == 16
    assert min(counts) == 2
    tight = replace(
        job, room=Room(0.0, 1000.0), configuration=workers(8, 1.0), periods=(period(workers(8, 1.0), 70.0),)
    )
    assert max(candidate.cpu for candidate in candidates(tight)) <= 8.0
    large = servers([0.1] * 4, bounds=Bounds(RoleBounds(1, 500, max_cpu=64), RoleBounds(1, 100, max_cpu=64)))
    wide = replace(large, periods=tuple(period(with_servers(2**i, Shape(2**i, 2.0)), 9.0, i) for i in range(7)))
    assert 100 < len(candidates(wide)) <= MAX_CANDIDATES


def test_candidates_of_an_allreduce_job_give_the_slowest_worker_less_to_do() -> None:
    job = replace(queue([(4, 40.0)]), kind=JobKind.ALLREDUCE, virtual_workers=8)
    assert [candidate.worker.replicas for candidate in candidates(job)] == [2, 3, 8]


def test_servers_are_not_so_few_that_their_rows_would_not_fit() -> None:
    job = servers([0.3, 0.3, 0.3, 0.3])
    full = replace(job, nodes=tuple(replace(node, memory_peak_mb=700.0) for node in job.nodes))
    assert min(c.server.replicas for c in candidates(job) if c.server) == 2
    assert min(c.server.replicas for c in candidates(full) if c.server) == 4


def test_plan_job_takes_what_is_surely_better_and_says_why() -> None:
    job = queue([(1, 10.0), (2, 20.0), (4, 40.0), (16, 160.0), (4, 40.0)])
    found = proposed(PlanJob()(job, NOW))
    assert found.configuration.worker.replicas >= 16
    assert found.prediction is not None
    assert found.prediction.low > 100.0
    assert "instead of 4 workers" in found.reason
    assert "times as fast" in found.reason


def test_plan_job_lets_go_of_workers_that_bring_nothing() -> None:
    job = queue([(2, 20.0), (4, 40.0), (8, 42.0), (32, 42.0)])
    found = proposed(PlanJob()(job, NOW))
    assert 4 <= found.configuration.worker.replicas <= 8
    assert "cheaper" in found.reason


def test_plan_job_leaves_a_job_alone_that_ends_before_the_change_pays() -> None:
    job = queue([(1, 10.0), (2, 20.0), (4, 40.0), (16, 160.0), (4, 40.0)])
    assert PlanJob()(replace(job, remaining_records=100), NOW) is None
    assert PlanJob()(replace(job, remaining_records=1_000_000), NOW) is not None


def test_plan_job_waits_until_the_rate_has_settled() -> None:
    job = queue([(1, 10.0), (16, 160.0), (4, 40.0)])
    assert PlanJob()(replace(job, settling_since=NOW), NOW) is None
    assert PlanJob()(replace(job, configuration=workers(5)), NOW) is None, "of that nothing was measured"


SATURATING = [(1, 10.0), (2, 19.0), (4, 33.0), (8, 50.0), (16, 66.0), (32, 78.0)]


def test_objectives_choose_from_fast_to_cheap() -> None:
    chosen = {}
    for objective in Objective:
        job = queue([*SATURATING, (8, 50.0)], objective=objective)
        found = PlanJob()(job, NOW)
        chosen[objective] = (found.configuration if found is not None else job.configuration).worker.replicas
    assert chosen[Objective.CHEAPEST] < chosen[Objective.BALANCED] <= chosen[Objective.FASTEST]
    assert chosen[Objective.FASTEST] >= 32


def test_a_deadline_takes_the_cheapest_that_meets_it_or_the_fastest() -> None:
    job = queue([*SATURATING, (4, 33.0)], remaining_records=60_000)
    missed = proposed(PlanJob()(replace(job, deadline=NOW + 1000.0), NOW))
    assert 12 <= missed.configuration.worker.replicas <= 24
    assert "deadline" in missed.reason
    early = proposed(PlanJob()(replace(job, configuration=workers(4), deadline=NOW + 5000.0), NOW))
    assert early.configuration.worker.replicas < 4
    hopeless = proposed(PlanJob()(replace(job, deadline=NOW + 10.0), NOW))
    assert hopeless.configuration.worker.replicas >= 32
    assert "may still be missed" in hopeless.reason


def test_a_budget_takes_the_best_that_it_pays_for() -> None:
    job = queue([*SATURATING, (4, 33.0)], remaining_records=60_000, objective=Objective.FASTEST)
    rich = proposed(PlanJob()(job, NOW)).configuration.worker.replicas
    poor = proposed(PlanJob()(replace(job, budget_node_s=11_000.0), NOW)).configuration.worker.replicas
    assert poor < rich


def test_the_pareto_front_has_no_option_that_another_one_beats() -> None:
    options = [
        Option(workers(w), rate, rate, rate) for w, rate in [(1, 10.0), (2, 9.0), (3, 20.0), (4, 20.0), (5, 30.0)]
    ]
    assert [option.configuration.worker.replicas for option in pareto_front(options)] == [1, 3, 5]


# --- probe


def test_probe_doubles_what_was_never_tried_and_at_most_that() -> None:
    found = proposed(Probe()(queue([(4, 40.0)]), NOW))
    assert found.configuration.worker.replicas == 8
    assert "never measured" in found.reason
    assert found.prediction is not None
    assert found.prediction.low < 40.0 * 1.1


def test_probe_ends_when_doubling_brings_nothing() -> None:
    assert Probe()(queue([(4, 40.0), (8, 41.0), (6, 41.0), (5, 40.5), (2, 21.0), (3, 30.0), (4, 40.0)]), NOW) is None


def test_probe_looks_between_and_below_what_was_tried() -> None:
    between = proposed(Probe()(queue([(8, 80.0), (32, 150.0), (8, 80.0)], bounds=Bounds(RoleBounds(8, 32))), NOW))
    assert between.configuration.worker.replicas == 16
    below = proposed(Probe()(queue([(8, 40.0), (16, 38.0), (8, 40.0)], bounds=Bounds(RoleBounds(1, 16))), NOW))
    assert below.configuration.worker.replicas == 4


def test_probe_tries_fewer_workers_if_they_mostly_wait() -> None:
    job = queue([(16, 100.0)], bounds=Bounds(RoleBounds(1, 16)))
    assert Probe()(job, NOW) is None
    waiting = replace(job, periods=(period(workers(16), 100.0, parts=StepParts(data=0.7)),))
    assert proposed(Probe()(waiting, NOW)).configuration.worker.replicas == 8


def test_probe_gives_servers_more_and_not_workers_while_servers_are_busy() -> None:
    job = servers([0.95, 0.95])
    busy = replace(job, periods=(period(job.configuration, 100.0),))
    found = proposed(Probe()(busy, NOW)).configuration
    assert found.worker == job.configuration.worker
    assert found.server is not None
    assert found.server != job.configuration.server


def test_probe_does_not_try_what_the_job_is_too_short_or_too_poor_for() -> None:
    job = queue([(4, 40.0)])
    assert Probe()(replace(job, remaining_records=400), NOW) is None
    assert Probe()(replace(job, remaining_records=40_000, budget_node_s=5000.0), NOW) is None
    assert Probe()(replace(job, remaining_records=40_000, deadline=NOW + 2000.0), NOW) is None


# --- the first configuration


def finished(count: int, similarity: float, **more: Any) -> FinishedJob:
    return FinishedJob(similarity, 0.0, workers(count), 100.0, **more)


def test_the_first_configuration_is_what_similar_jobs_ended_with() -> None:
    job = JobHistory(JobKind.QUEUE, workers(1), Bounds(RoleBounds(1, 64)))
    memory = {"worker_memory_p95_mb": 1000.0}
    alike = (finished(12, 0.9, **memory), finished(14, 0.8, **memory), finished(64, 0.31, **memory))
    found = proposed(CreateFromHistory()(replace(job, similar=alike), NOW))
    assert found.configuration == workers(14, 0.0, 1150)
    few = proposed(CreateFromHistory()(replace(job, similar=alike[:1]), NOW))
    assert few.configuration == workers(12, 0.0, 1300), "few are trusted less"


def test_without_a_similar_job_it_starts_between_the_bounds_and_higher_the_more_speed_counts() -> None:
    job = JobHistory(JobKind.QUEUE, workers(1), Bounds(RoleBounds(1, 64)), similar=(finished(5, 0.1),))
    found = proposed(CreateFromHistory()(job, NOW))
    assert found.configuration.worker.replicas == 23, "one or two doublings below the most"
    counts = {
        objective: proposed(CreateFromHistory()(replace(job, objective=objective), NOW)).configuration.worker.replicas
        for objective in Objective
    }
    assert counts[Objective.CHEAPEST] == 8 < counts[Objective.BALANCED] < counts[Objective.FASTEST] < 64
    assert "no similar job" in found.reason
    failed = replace(job, similar=(finished(60, 0.9, succeeded=False, worker_memory_p95_mb=2000.0),))
    found = proposed(CreateFromHistory()(failed, NOW))
    assert found.configuration == workers(23, 0.0, 2600), "of a job that failed only the memory counts"


def test_the_first_configuration_respects_the_sum_of_all_nodes() -> None:
    job = JobHistory(
        JobKind.QUEUE, workers(1, 2.0), Bounds(RoleBounds(1, 64), max_cpu=8.0), similar=(finished(32, 1.0),)
    )
    assert proposed(CreateFromHistory()(job, NOW)).configuration.worker.replicas == 4


# --- servers


def test_a_hot_server_among_cool_ones_loses_partitions_first() -> None:
    found = proposed(HotPs()(servers([0.95, 0.3, 0.3]), NOW))
    assert found.configuration == servers([0.95, 0.3, 0.3]).configuration
    assert found.moves == {"ps-0": pytest.approx(0.46, abs=0.02)}


def test_the_load_of_new_servers_is_spread_before_what_they_bring_is_judged() -> None:
    job = servers([0.95, 0.3, 0.3])
    old = tuple(replace(node, age_s=3600.0) for node in job.nodes)
    assert not proposed(HotPs()(replace(job, nodes=old), NOW)).urgent
    young = (*old[:-1], replace(old[-1], age_s=100.0))
    assert proposed(HotPs()(replace(job, nodes=young), NOW)).urgent


def test_servers_that_are_all_hot_get_more_cpu_and_then_another_server() -> None:
    found = proposed(HotPs()(servers([0.9, 0.92]), NOW)).configuration
    assert found.server is not None
    assert (found.server.replicas, found.server.cpu > 1.3) == (2, True)
    tight = Bounds(RoleBounds(1, 16), RoleBounds(1, 8, max_cpu=1.0))
    more = proposed(HotPs()(servers([0.9, 0.92], bounds=tight), NOW)).configuration
    assert more.server is not None
    assert more.server.replicas == 3


def test_one_partition_that_is_the_whole_load_is_not_moved() -> None:
    job = servers([0.95, 0.3, 0.3])
    single = replace(job.nodes[0], partition_load=((0, 1.0),))
    found = proposed(HotPs()(replace(job, nodes=(single, *job.nodes[1:])), NOW))
    assert not found.moves
    assert found.configuration.server != job.configuration.server


def test_cool_servers_are_left_alone() -> None:
    assert HotPs()(servers([0.5, 0.6]), NOW) is None


# --- memory


def growing(per_point: float, limit: float = 1000.0, role: str = "worker", base: float = 300.0) -> NodeView:
    points = tuple((1000.0 * i, base + per_point * i) for i in range(20))
    return NodeView(f"{role}-0", role, memory_mb=points[-1][1], memory_limit_mb=limit, memory_points=points)


def test_memory_that_will_not_suffice_grows_before_it_runs_out() -> None:
    job = replace(
        queue([(1, 10.0)]), configuration=workers(1, 0.0, 1000), periods=(period(workers(1, 0.0, 1000), 10.0),)
    )
    found = proposed(MemoryForecast()(replace(job, nodes=(growing(30.0),)), NOW))
    assert found.urgent
    assert found.configuration.worker.memory_mb > 1500
    assert "worker-0 grows" in found.reason
    assert MemoryForecast()(replace(job, nodes=(growing(0.5),)), NOW) is None
    assert MemoryForecast()(replace(job, nodes=(growing(30.0),), remaining_records=200), NOW) is None, "it ends before"


def test_one_outlier_does_not_look_like_growth() -> None:
    flat = growing(0.0, base=600.0)
    spike = replace(flat, memory_points=(*flat.memory_points[:-3], (17_000.0, 880.0), *flat.memory_points[-2:]))
    job = replace(
        queue([(1, 10.0)]), configuration=workers(1, 0.0, 1000), periods=(period(workers(1, 0.0, 1000), 10.0),)
    )
    assert MemoryForecast()(replace(job, nodes=(spike,)), NOW) is None


def test_where_twice_as_many_do_not_fit_some_more_are_tried() -> None:
    """Three workers that mostly wait, each with a core of its own: two more cores are free."""
    job = queue([(3, 30.0)])
    job = replace(
        job,
        configuration=workers(3, 1.0),
        periods=(period(workers(3, 1.0), 30.0),),
        bounds=Bounds(RoleBounds(1, 8, max_cpu=1.0)),
        room=Room(2.0, 10_000.0, 2.0, 10_000.0),
        remaining_records=1_000_000,
    )
    found = proposed(Probe()(job, NOW))
    assert found.configuration.worker.replicas in (4, 5)


def test_memory_that_a_program_takes_at_its_start_does_not_look_like_growth() -> None:
    """As seen on a cluster: 20 MB within the first records, then none; the whole job has a hundred thousand."""
    warm = [
        (5.0, 6.0),
        (20.0, 15.0),
        (40.0, 22.0),
        (60.0, 26.0),
        (80.0, 26.1),
        (100.0, 26.0),
        (120.0, 26.1),
        (140.0, 26.0),
    ]
    node = replace(growing(0.0), memory_limit_mb=256.0, memory_mb=26.0, memory_points=tuple(warm))
    job = replace(queue([(1, 20.0)]), configuration=workers(1, 0.0, 256), periods=(period(workers(1, 0.0, 256), 20.0),))
    assert MemoryForecast()(replace(job, nodes=(node,), remaining_records=100_000), NOW) is None


def test_at_the_maximum_one_more_server_takes_rows() -> None:
    job = servers([0.1, 0.1], bounds=Bounds(RoleBounds(1, 16), RoleBounds(1, 8, max_memory_mb=1000)))
    full = replace(job, nodes=(growing(30.0, role="ps"),), periods=(period(job.configuration, 10.0),))
    found = proposed(MemoryForecast()(full, NOW)).configuration
    assert found.server == Shape(3, 1.0, 1000)


def test_after_an_oom_the_role_gets_half_as_much_again_and_then_twice() -> None:
    job = replace(queue([(2, 10.0)]), configuration=workers(2, 0.0, 1000))
    once = (OutOfMemory(NOW, "worker", 1000.0, 990.0),)
    assert proposed(OomRecover()(replace(job, out_of_memory=once), NOW)).configuration.worker.memory_mb == 1500
    twice = (OutOfMemory(NOW - 60, "worker", 700.0, 700.0), *once)
    assert proposed(OomRecover()(replace(job, out_of_memory=twice), NOW)).configuration.worker.memory_mb == 2000
    grown = replace(job, configuration=workers(2, 0.0, 1500), out_of_memory=once)
    assert OomRecover()(grown, NOW) is None, "it has more by now"


def test_at_the_maximum_an_allreduce_job_is_advised_of_smaller_micro_batches_and_servers_get_another_one() -> None:
    job = replace(
        queue([(2, 10.0)]),
        kind=JobKind.ALLREDUCE,
        configuration=Configuration(Shape(2, 0.0, 1000), None, 32),
        bounds=Bounds(RoleBounds(1, 8, max_memory_mb=1000)),
        out_of_memory=(OutOfMemory(NOW, "worker", 1000.0, 990.0),),
    )
    advice = proposed(OomRecover()(job, NOW))
    assert advice.configuration.micro_batch == 16
    assert advice.advice, "it would change the numbers of training"
    assert "micro_batch=16 and twice as many virtual workers, which is the same global batch" in advice.reason
    known = proposed(OomRecover()(replace(job, virtual_workers=8), NOW))
    assert "micro_batch=16 and virtual_workers=16" in known.reason
    odd = replace(job, configuration=replace(job.configuration, micro_batch=27))
    assert "micro_batch=9 and 3 times as many" in proposed(OomRecover()(odd, NOW)).reason
    full = servers(
        [0.1, 0.1],
        bounds=Bounds(RoleBounds(1, 8), RoleBounds(1, 4, max_memory_mb=1000)),
        out_of_memory=(OutOfMemory(NOW, "ps", 1000.0, 990.0),),
    )
    found = proposed(OomRecover()(full, NOW)).configuration
    assert found.server is not None
    assert found.server.replicas == 3


def test_right_size_asks_for_less_memory_at_the_next_restart_only_and_leaves_cpu_to_what_is_measured() -> None:
    node = NodeView("worker-0", "worker", cpu_p95=0.5, cpu_limit=2.0, memory_peak_mb=400.0, age_s=4000.0)
    job = replace(queue([(1, 10.0)]), configuration=workers(1, 2.0, 2000), nodes=(node,))
    found = proposed(RightSize()(job, NOW))
    assert found.at_next_restart
    assert found.configuration == workers(1, 2.0, 460)
    oom = replace(job, out_of_memory=(OutOfMemory(NOW, "worker", 900.0, 900.0),))
    assert proposed(RightSize()(oom, NOW)).configuration.worker.memory_mb == 1080
    assert RightSize()(replace(job, nodes=(replace(node, age_s=60.0),)), NOW) is None
    busy = replace(node, cpu_p95=1.9, memory_peak_mb=1900.0)
    assert RightSize()(replace(job, nodes=(busy,)), NOW) is None


def test_right_size_leaves_memory_that_the_job_will_still_need() -> None:
    points = tuple((1000.0 * i, 200.0 + 20.0 * i) for i in range(11))  # 20 MB for each thousand records
    node = NodeView(
        "worker-0", "worker", memory_mb=400.0, memory_peak_mb=400.0, age_s=4000.0, memory_points=points, cpu_p95=1.9
    )
    job = replace(queue([(1, 10.0)]), configuration=workers(1, 2.0, 2000), nodes=(node,))
    nearly_done = proposed(RightSize()(replace(job, remaining_records=1000), NOW))
    assert 400 * 1.15 < nearly_done.configuration.worker.memory_mb < 600
    assert RightSize()(replace(job, remaining_records=100_000), NOW) is None
    assert RightSize()(replace(job, remaining_records=None), NOW) is None, "nobody knows how much it will need"


def test_a_rollout_may_take_as_long_as_its_nodes_one_by_one() -> None:
    job = servers([0.5, 0.5])
    resized = replace(job.configuration, server=Shape(2, 2.0, 1000))
    assert rollout_s(job, job.configuration, resized) == 2 * 2 * job.costs.replace_s
    assert rollout_s(job, job.configuration, with_servers(8, Shape(4, 1.0, 1000))) == 0.0, "only numbers change"


# --- nodes


def allreduce(unit_seconds: list[float], seats: int = 4, **more: Any) -> JobHistory:
    nodes = tuple(
        NodeView(f"worker-{i}", "worker", unit_seconds=seconds, virtual_workers=seats, age_s=600.0)
        for i, seconds in enumerate(unit_seconds)
    )
    job = replace(queue([(len(nodes), 10.0)]), kind=JobKind.ALLREDUCE, nodes=nodes, virtual_workers=seats * len(nodes))
    return replace(job, **more)


def test_a_slow_worker_gets_fewer_seats_and_their_sum_stays_if_a_replacement_would_hardly_be_better() -> None:
    many = allreduce([1.0] * 7 + [1.6], seats=16)
    found = proposed(Straggler()(many, NOW))
    assert sum(found.seats.values()) == 8 * 16
    assert found.seats["worker-7"] < 16
    assert not found.replace
    assert found.urgent, "all wait for it"


def test_a_slow_worker_gets_fewer_seats_first_and_is_replaced_if_they_are_not_enough() -> None:
    job = allreduce([1.0, 1.0, 1.0, 2.5])
    found = proposed(Straggler()(job, NOW))
    assert not found.replace
    assert found.seats["worker-3"] < 4
    assert sum(found.seats.values()) == 16
    relieved = replace(job, nodes=tuple(replace(node, virtual_workers=found.seats[node.name]) for node in job.nodes))
    assert proposed(Straggler()(relieved, NOW)).replace == ("worker-3",)
    assert Straggler()(replace(relieved, replaced_stragglers=3), NOW) is None, "it is not the node"


def test_a_slow_worker_with_seats_that_keep_nobody_waiting_is_left_alone() -> None:
    many = allreduce([1.0] * 7 + [1.6], seats=16)
    seats = proposed(Straggler()(many, NOW)).seats
    relieved = replace(many, nodes=tuple(replace(node, virtual_workers=seats[node.name]) for node in many.nodes))
    assert Straggler()(relieved, NOW) is None


def test_all_slow_workers_are_replaced_at_once_since_those_that_are_left_keep_all_waiting() -> None:
    job = replace(allreduce([1.0] * 13 + [2.0, 2.1, 2.5], seats=0), kind=JobKind.PS_SYNC)
    found = proposed(Straggler()(job, NOW))
    assert set(found.replace) == {"worker-13", "worker-14", "worker-15"}
    assert found.urgent
    assert "worker-15, worker-14 and worker-13 need up to 2.5 times as long" in found.reason
    assert Straggler()(replace(job, replaced_stragglers=4), NOW) is None, "if new nodes are as slow, it is not the node"


def test_nodes_with_less_cpu_are_no_stragglers_while_resources_are_rolled_out() -> None:
    job = replace(allreduce([1.0, 1.0, 1.0, 2.5], seats=0), kind=JobKind.PS_SYNC)
    nodes = tuple(replace(node, cpu_limit=1.0 if node.name == "worker-3" else 2.0) for node in job.nodes)
    assert Straggler()(replace(job, nodes=nodes), NOW) is None


def test_a_slow_worker_with_a_single_seat_is_replaced_if_that_pays_and_only_so_often() -> None:
    job = allreduce([1.0, 1.0, 1.0, 2.5], seats=1)
    assert proposed(Straggler()(job, NOW)).replace == ("worker-3",)
    assert Straggler()(replace(job, remaining_records=50), NOW) is None
    assert Straggler()(replace(job, replaced_stragglers=3), NOW) is None


def test_workers_of_synchronous_servers_have_one_rate_and_the_slow_one_is_known_by_its_units() -> None:
    job = replace(allreduce([1.0, 1.0, 1.0, 2.5], seats=0), kind=JobKind.PS_SYNC)
    alike = replace(job, nodes=tuple(replace(node, records_per_second=10.0) for node in job.nodes))
    assert proposed(Straggler()(alike, NOW)).replace == ("worker-3",)
    blind = replace(alike, nodes=tuple(replace(node, unit_seconds=0.0) for node in alike.nodes))
    assert Straggler()(blind, NOW) is None


def test_a_spread_that_all_have_is_no_straggler() -> None:
    assert Straggler()(allreduce([0.8, 1.0, 1.3, 1.6, 1.1, 0.7]), NOW) is None
    young = allreduce([1.0, 1.0, 1.0, 2.5])
    assert Straggler()(replace(young, nodes=(*young.nodes[:3], replace(young.nodes[3], age_s=5.0))), NOW) is None


def test_nodes_that_wait_for_room_are_given_up_down_to_what_fits() -> None:
    job = replace(queue([(8, 10.0)]), configuration=workers(8, 1.0), bounds=Bounds(RoleBounds(2, 8)))
    waiting = replace(
        job, pending=("worker-5", "worker-6", "worker-7"), pending_since=NOW - 100, room=Room(1.5, 10_000.0)
    )
    found = proposed(PendingFit()(waiting, NOW))
    assert found.configuration.worker.replicas == 6
    assert found.urgent
    assert PendingFit()(replace(waiting, pending_since=NOW - 10), NOW) is None
    blind = replace(waiting, room=None)
    assert PendingFit()(blind, NOW) is None, "nobody says what is free: wait longer"
    assert proposed(PendingFit()(replace(blind, pending_since=NOW - 400), NOW)).configuration.worker.replicas == 5


def test_at_the_minimum_number_nodes_get_smaller() -> None:
    job = replace(queue([(2, 10.0)]), configuration=workers(2, 4.0), bounds=Bounds(RoleBounds(2, 8, min_cpu=0.5)))
    waiting = replace(job, pending=("worker-0", "worker-1"), pending_since=NOW - 100, room=Room(3.0, 10_000.0))
    assert proposed(PendingFit()(waiting, NOW)).configuration == workers(2, 1.5)


# --- the judge and the registry


def test_the_judge_keeps_what_is_no_worse_than_the_noise_and_blames_only_what_was_claimed() -> None:
    judge, before = Judge(), Measured(workers(4), 100.0, 2.0)
    predicted = Prediction(200.0, 180.0, 220.0)
    better = judge.judge(Objective.BALANCED, before, Measured(workers(8), 190.0, 2.0), predicted)
    assert (better.is_kept, better.error) == (True, 0.0)
    worse = judge.judge(Objective.BALANCED, before, Measured(workers(8), 90.0, 2.0), predicted)
    assert not worse.is_kept
    assert worse.error == pytest.approx(0.43, abs=0.02)
    unsure = judge.judge(Objective.BALANCED, before, Measured(workers(8), 90.0, 2.0), Prediction(200.0, 80.0, 220.0))
    assert (unsure.is_kept, unsure.error) == (False, 0.0)
    noisy = judge.judge(Objective.FASTEST, before, Measured(workers(4), 97.0, 5.0), None)
    assert noisy.is_kept
    assert "90 records per second, predicted 200, 100 before" in worse.reason


def test_twice_the_cost_for_the_same_speed_is_worse() -> None:
    before = Measured(workers(4), 100.0, 0.5)
    found = Judge().judge(Objective.BALANCED, before, Measured(workers(8), 101.0, 0.5), Prediction(200.0, 50.0, 250.0))
    assert not found.is_kept


def test_algorithms_are_found_by_name() -> None:
    assert {each.name for each in registry.chain()} <= set(registry.algorithm_names())
    assert all(registry.algorithm(name).name == name for name in registry.BUILT_IN)
    with pytest.raises(NotFound, match="unknown algorithm 'magic'"):
        registry.algorithm("magic")


def test_a_team_adds_its_own_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    entry = EntryPoint("ours", f"{Straggler.__module__}:Straggler", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry] if group == registry.GROUP else [])
    assert "ours" in registry.algorithm_names()
    assert isinstance(registry.algorithm("ours"), Straggler)


@pytest.mark.parametrize("objective", [Objective.FASTEST, Objective.BALANCED])
def test_a_job_that_would_use_more_than_its_budget_gets_fewer_nodes(objective: Objective) -> None:
    """A million records: eight workers would use 22,222 node seconds, one 10,000."""
    rates = {1: 100.0, 2: 190.0, 4: 300.0, 8: 360.0}
    job = replace(
        queue(list(rates.items())), configuration=workers(8), remaining_records=1_000_000, objective=objective
    )
    assert PlanJob()(replace(job, budget_node_s=1e9), NOW) is None
    for budget in (20_000.0, 12_000.0, 0.0):
        found = proposed(PlanJob()(replace(job, budget_node_s=budget), NOW))
        assert found.configuration.worker.replicas < 8
        assert "to keep to the budget" in found.reason


def test_a_slow_worker_of_a_queue_is_not_replaced_by_one_on_the_same_machine() -> None:
    rates = (10.0, 10.0, 10.0, 4.0)
    nodes = tuple(NodeView(f"worker-{i}", "worker", records_per_second=r, age_s=600.0) for i, r in enumerate(rates))
    job = replace(queue([(4, 34.0)]), nodes=nodes, remaining_records=1_000_000)
    assert proposed(Straggler()(job, NOW)).replace == ("worker-3",)
    assert Straggler()(replace(job, is_single_machine=True), NOW) is None
