"""Jobs whose true speed no model can express: the planner comes to rest, near the best, within the bounds, and replays."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from tests.core.planning.truths import Truth, allreduce_truth, ps_truth, queue_truth
from tests.core.planning.world import STARTED, World

from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.history import JobHistory, JobKind
from pliant.core.planning.planner import Planner

HOURS = 1.5
SEEDS = range(5)


def queue(seed: int) -> World:
    truth = queue_truth(random.Random(seed))
    return World(JobKind.QUEUE, Configuration(Shape(8)), Bounds(RoleBounds(1, 64)), truth, Planner(), seed=seed)


def allreduce(seed: int) -> World:
    rng = random.Random(seed)
    count = rng.choice([8, 16, 32])
    start, bounds = Configuration(Shape(4), None, 32), Bounds(RoleBounds(1, 32))
    truth = allreduce_truth(rng, count)
    return World(JobKind.ALLREDUCE, start, bounds, truth, Planner(), seed=seed, virtual_workers=count)


def servers(seed: int) -> World:
    start = Configuration(Shape(4, 1.0), Shape(2, 1.0), 32)
    bounds = Bounds(RoleBounds(1, 32, min_cpu=0.5, max_cpu=4.0), RoleBounds(1, 8, min_cpu=0.5, max_cpu=4.0))
    return World(JobKind.PS_ASYNC, start, bounds, ps_truth(random.Random(seed)), Planner(), seed=seed)


def best_rate(world: World, truth: Truth) -> float:
    start, bounds = world.configuration, world.bounds
    found = 0.0
    for workers in range(1, bounds.worker.max_replicas + 1):
        if start.server is None:
            found = max(found, truth(replace(start, worker=Shape(workers))))
            continue
        assert bounds.server is not None
        for count in range(1, bounds.server.max_replicas + 1):
            found = max(found, truth(Configuration(Shape(workers, 4.0), Shape(count, 4.0), 32)))
    return found


def check(worlds: list[World], mean_regret: float, worst_regret: float) -> None:
    regrets = []
    for world in worlds:
        best = best_rate(world, world.truth)
        world.run(3600 * HOURS)
        assert len(world.changes) <= 14, [str(configuration) for _, configuration in world.changes]
        late = [when for when, _ in world.changes if when > STARTED + 0.6 * 3600 * HOURS]
        assert len(late) <= 3, "it comes to rest"
        regrets.append(1.0 - world.truth(world.configuration) / best)
        replayed = Planner()
        for method, now, text in world.journal:
            replayed.apply(method, now, json.loads(text))
        assert replayed.snapshot() == world.planner.snapshot()
    assert sum(regrets) / len(regrets) <= mean_regret, regrets
    assert max(regrets) <= worst_regret, regrets


def test_a_queue_job_comes_to_rest_near_its_best() -> None:
    check([queue(seed) for seed in SEEDS], 0.10, 0.25)


def test_an_allreduce_job_comes_to_rest_near_its_best() -> None:
    check([allreduce(seed) for seed in SEEDS], 0.10, 0.25)


def test_a_job_with_servers_comes_to_rest_near_its_best() -> None:
    check([servers(seed) for seed in SEEDS[:3]], 0.10, 0.25)


def test_a_planner_that_is_killed_at_any_moment_goes_on_as_if_it_was_not() -> None:
    one, other = queue(1), queue(1)
    for _ in range(200):
        one.tick()
        other.tick()
        reborn = Planner()
        reborn.restore(json.loads(json.dumps(other.planner.snapshot())))
        other.planner = reborn
    assert other.planner.snapshot() == one.planner.snapshot()
    assert other.changes == one.changes
    assert len(one.changes) >= 3


def test_a_person_who_scales_in_the_middle_wins() -> None:
    world = queue(1)
    world.run(300.0)
    world.apply("person_changed", {"reason": "scaled to 3 workers"})
    world.change(Configuration(Shape(3)))
    count = len(world.changes)
    world.run(800.0)
    assert len(world.changes) == count
    assert world.configuration == Configuration(Shape(3))
    world.run(1500.0)
    assert len(world.changes) > count, "after the pause it goes on"


def test_nodes_without_room_do_not_make_it_go_to_and_fro() -> None:
    """Beyond 10 workers nodes stay pending, and nobody says what is free."""
    world = queue(9)
    world.truth = lambda configuration: 10.0 * min(configuration.worker.replicas, 10)

    def pending(history: JobHistory) -> JobHistory:
        count = history.configuration.worker.replicas
        if count <= 10:
            return history
        since = world.changes[-1][0]
        names = tuple(f"worker-{i}" for i in range(10, count))
        return replace(history, pending=names, pending_since=since, settling_since=since)

    world.more = pending
    world.run(3600 * 3)
    assert world.configuration.worker.replicas in (8, 9, 10)
    assert len(world.changes) <= 14


@pytest.mark.parametrize("remaining", [2_000, 2_000_000])
def test_a_job_that_is_nearly_done_is_left_alone(remaining: int) -> None:
    world = queue(1)
    world.configuration = Configuration(Shape(23))  # where a job begins
    world.remaining = remaining
    world.run(300.0)
    assert bool(world.changes) == (remaining > 1_000_000)
