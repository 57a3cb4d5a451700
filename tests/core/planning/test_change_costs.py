"""What a change costs where nodes cannot be resized while they run, and whether it still pays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pliant.core.nodes.states import Node
from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.history import ChangeCosts, JobHistory, JobKind
from pliant.core.planning.objectives import change_s, delay_s, pays, rollout_s
from pliant.core.planning.start_time import with_measured_start
from pliant.core.resources import Resources

COSTS = ChangeCosts(replace_s=10.0, start_s=60.0)
GAIN = 0.5


def workers(count: int, cpu: float) -> Configuration:
    return Configuration(Shape(count, cpu))


def job(kind: JobKind = JobKind.QUEUE, count: int = 32, most: int = 64) -> JobHistory:
    bounds = Bounds(RoleBounds(1, most, max_cpu=8.0))
    return JobHistory(kind, workers(count, 2.0), bounds, virtual_workers=32, costs=COSTS, can_resize=False)


def test_replacing_nodes_one_by_one_can_take_longer_than_other_cores_bring() -> None:
    rolling, in_place = job(), replace(job(), can_resize=True)
    new = workers(32, 4.0)
    assert pays(in_place, new, GAIN, 900.0)
    assert not pays(rolling, new, GAIN, 900.0)
    assert pays(rolling, new, GAIN, 3600.0), "while a long job still gains by it"
    assert rollout_s(rolling, rolling.configuration, new) > rollout_s(in_place, in_place.configuration, new)


def test_where_all_wait_for_each_other_the_gain_comes_with_the_last_node() -> None:
    new = workers(32, 4.0)
    assert delay_s(job(JobKind.QUEUE), new) == 16 * 60.0
    assert delay_s(job(JobKind.ALLREDUCE), new) == 32 * 60.0
    assert delay_s(job(), workers(40, 2.0)) == 0.0, "more nodes of the same kind are no rollout"


def test_without_room_for_one_more_node_one_is_missing_all_the_time() -> None:
    new = workers(32, 4.0)
    assert change_s(job(), new) == 10.0
    assert change_s(job(most=32), new) == pytest.approx(10.0 + 60.0), "a thirty-second of the speed, for 32 starts"
    assert change_s(job(JobKind.ALLREDUCE, most=32), new) == pytest.approx(10.0 + 32 * 30.0), "31 take two units each"


def test_how_long_a_node_takes_to_start_is_measured() -> None:
    def node(number: int, started: float | None) -> Node:
        name = f"worker-{number}"
        return Node(name, "worker", number, name, Resources(1.0), "new", 100.0, 110.0, started_at=started)

    assert with_measured_start(COSTS, [node(0, None)]) == COSTS
    nodes = [node(0, 120.0), node(1, 150.0), node(2, 140.0), node(3, None)]
    assert with_measured_start(COSTS, nodes) == replace(COSTS, start_s=30.0)
