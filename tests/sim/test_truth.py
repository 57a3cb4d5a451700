"""Truths have the hardships that they are named for, and limits that hold for any set of nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.history import JobKind
from pliant.sim.random_jobs import KINDS, random_job
from pliant.sim.truth.allreduce import AllreduceTruth
from pliant.sim.truth.base import Cores, Memory, NodeGroup, soft_min
from pliant.sim.truth.queue import QueueTruth
from pliant.sim.truth.servers import ServersTruth


def rates(truth: QueueTruth | AllreduceTruth, counts: list[int]) -> list[float]:
    return [truth.rate_of(Configuration(Shape(count, 2.0))) for count in counts]


def test_beyond_the_knee_of_a_shared_source_more_workers_are_slower() -> None:
    truth = QueueTruth(wait_s=0.01, cpu_s=0.0, source_limit=500, thrash=0.3)
    few, right, many = rates(truth, [2, 6, 32])
    assert few < right
    assert many < 0.7 * right


def test_virtual_workers_make_a_saw_tooth_that_no_smooth_model_has() -> None:
    truth = AllreduceTruth(virtual_workers=12, sync_s=0.0, sync_step_s=0.0, spread=0.0)
    six, seven, twelve = rates(truth, [6, 7, 12])
    assert seven == pytest.approx(six)
    assert twelve == pytest.approx(2 * six)


def test_one_straggler_holds_all_workers_of_a_world_up_unless_it_has_fewer_seats() -> None:
    truth = AllreduceTruth(virtual_workers=16, sync_s=0.0, sync_step_s=0.0, spread=0.0)
    healthy = truth.throughput([NodeGroup(4, 1.0)]).rate
    held_up = truth.throughput([NodeGroup(3, 1.0), NodeGroup(1, 1.0, speed=0.5)]).rate
    relieved = truth.throughput(
        [NodeGroup(2, 1.0, seats=5), NodeGroup(1, 1.0, seats=4), NodeGroup(1, 1.0, 0.5, seats=2)]
    ).rate
    assert held_up == pytest.approx(healthy / 2)
    assert relieved == pytest.approx(healthy * 4 / 5)


def test_the_hottest_server_decides() -> None:
    even = ServersTruth(cpu_s=0.0001, apply_s=0.001)
    skewed = replace(even, skew=1.0)
    configuration = Configuration(Shape(32, 4.0), Shape(4, 1.0))
    assert skewed.rate_of(configuration) == pytest.approx(even.rate_of(configuration) / 2, rel=0.1)


def test_a_worker_that_pulls_and_pushes_needs_a_server() -> None:
    assert ServersTruth().throughput([NodeGroup(4, 1.0)]).rate == 0.0


def test_cores_beyond_what_a_program_can_use_do_not_help() -> None:
    cores = Cores(limit=2.0, serial=0.1)
    assert cores.speedup(8.0) == cores.speedup(2.0) == cores.speedup(0.0)
    assert cores.speedup(0.5) == 0.5


@given(st.floats(10, 1000), st.floats(0, 5000), st.booleans(), st.floats(0.01, 0.99), st.integers(1, 8))
def test_the_moment_of_out_of_memory_is_the_one_at_which_memory_is_the_limit(
    start: float, growth: float, saturates: bool, progress: float, nodes: int
) -> None:
    memory = Memory(start, growth, saturates)
    used = memory.at(progress, nodes)
    found = memory.progress_at(used, nodes)
    assert growth < 1e-3 or found == pytest.approx(progress, rel=1e-3)
    assert memory.progress_at(start + growth + 1.0, nodes) > 1.0


@given(st.floats(0.1, 1e6), st.floats(0.1, 1e6), st.floats(1, 10))
def test_a_soft_minimum_is_below_both_limits_and_near_the_smaller(one: float, other: float, sharpness: float) -> None:
    assert min(one, other) / 2.0001 <= soft_min(one, other, sharpness) <= min(one, other)


@pytest.mark.parametrize("seed", range(12))
def test_a_random_job_makes_progress_within_its_bounds_and_is_the_same_for_the_same_seed(seed: int) -> None:
    job, again = random_job(seed, max_workers=16), random_job(seed, max_workers=16)
    assert job == again
    assert job.truth.kind in KINDS
    assert (job.bounds.server is not None) == (job.truth.kind in (JobKind.PS_ASYNC, JobKind.PS_SYNC))
    server = Shape(1, job.bounds.server.max_cpu) if job.bounds.server is not None else None
    assert job.truth.rate_of(Configuration(Shape(1, job.bounds.worker.max_cpu), server)) > 0
