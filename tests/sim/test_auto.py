"""The real planner in the simulator: it improves a job, comes to rest, and stays within the bounds."""

from __future__ import annotations

import pytest
from tests.sim.jobs import FAST, WORKERS, queue_truth, simulate

from pliant.core.planning.configuration import Bounds
from pliant.core.planning.history import JobKind
from pliant.sim.policies.auto import Auto
from pliant.sim.policies.static import Static
from pliant.sim.random_jobs import random_job
from pliant.sim.simulation import World
from pliant.sim.truth.base import Memory, Noise


def test_records_that_wait_get_all_workers_that_are_allowed() -> None:
    job = simulate(queue_truth(records=300_000), Auto())
    assert job.configuration.worker.replicas == 8
    assert (job.outcome.completion_s or 0) < 1.2 * (
        simulate(queue_truth(records=300_000), Static(8)).outcome.completion_s or 0
    )


def test_beyond_the_knee_it_returns() -> None:
    truth = queue_truth(records=400_000, source_limit=35.0, knee=20.0, thrash=0.5)
    job = simulate(truth, Auto())
    assert truth.rate_of(job.configuration) > 0.9 * 33.0
    assert job.configuration.worker.replicas < 8


def test_it_predicts_what_comes_and_every_plan_has_a_reason() -> None:
    job = simulate(queue_truth(records=300_000, noise=Noise(sample_sigma=0.05)), Auto())
    assert job.outcome.plans
    assert all(plan.reason and plan.algorithm for plan in job.outcome.plans)
    predicted = [plan for plan in job.outcome.plans if plan.is_covered is not None]
    assert predicted
    assert all(plan.is_covered for plan in predicted)


def test_growing_memory_does_not_kill_a_node() -> None:
    bounds = Bounds(WORKERS)
    truth = queue_truth(records=300_000, worker_memory=Memory(500, 5000), costs=FAST)
    job = simulate(truth, Auto(), bounds=bounds)
    assert job.outcome.succeeded
    assert job.outcome.ooms == 0


@pytest.mark.parametrize("kind", list(JobKind))
def test_a_random_job_ends_within_its_bounds_and_with_few_changes(kind: JobKind) -> None:
    found = random_job(f"auto {kind}", kinds=[kind], shortest_s=1800, longest_s=2400, max_workers=16)
    job = simulate(found.truth, Auto(), bounds=found.bounds, world=World(grants=found.grants))
    assert job.outcome.succeeded
    assert job.outcome.out_of_bounds == 0
    assert len(job.outcome.plans) <= 25
