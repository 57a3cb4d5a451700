from __future__ import annotations

import asyncio

import pytest
from tests.brain.executor.bad_algorithms import named
from tests.core.planning.recorded_jobs import KNEE, Doubles, recorded

from pliant.brain.evaluation import evaluate_isolated
from pliant.brain.executor.algorithm_executor import AlgorithmExecutor
from pliant.core.planning.evaluation import Evaluation, evaluate

JOBS = [recorded("up", KNEE, [1, 2, 4, 8]), recorded("down", KNEE, [32, 16])]


def isolated(algorithm: str, time_limit_s: float = 120.0) -> Evaluation:
    async def main() -> Evaluation:
        async with AlgorithmExecutor(time_limit_s=time_limit_s, load_limit_s=120.0, start_timeout_s=250.0) as executor:
            return await evaluate_isolated(executor, algorithm, JOBS)

    return asyncio.run(main())


def test_in_processes_of_their_own_algorithms_are_judged_alike() -> None:
    here = evaluate(Doubles(), JOBS).to_json()
    there = isolated("tests.core.planning.recorded_jobs:Doubles").to_json()
    assert there == {**here, "algorithm": "tests.core.planning.recorded_jobs:Doubles"}


@pytest.mark.parametrize(
    ("name", "failures"),
    [
        ("Raises", {"raised": 3, "set-aside": 3}),
        ("Exits", {"died": 3, "set-aside": 3}),
        ("ReturnsText", {"unsound": 3, "set-aside": 3}),
        ("SeesNothing", {}),
    ],
)
def test_failures_are_counted(name: str, failures: dict[str, int]) -> None:
    found = isolated(named(name))
    assert (found.asked, found.proposals, found.failures) == (6, 0, failures)


def test_a_hanging_algorithm_ends_the_evaluation_after_a_few_time_limits() -> None:
    assert isolated(named("Spins"), time_limit_s=0.5).failures == {"timed-out": 3, "set-aside": 3}
