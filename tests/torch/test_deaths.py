"""A worker may be gone at any point of a step: the others go on in their process, and the result is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torch.crew import Crew, alone_result, bits

POINTS = ("before the collective", "in the collective", "before the optimizer", "after the optimizer")


@pytest.fixture(scope="module")
def expected() -> dict[str, bytes]:
    return bits(alone_result().trainer.model)


@pytest.mark.parametrize("workers", [2, 3, 4, 8])
def test_the_result_does_not_depend_on_the_number_of_workers(tmp_path: Path, workers: int, expected: dict[str, bytes]) -> None:
    with Crew(tmp_path, workers=workers) as crew:
        crew.work()
        crew.assert_all_equal(expected)
        crew.assert_each_record_once(38)


@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("point", POINTS)
def test_a_worker_that_dies_at_any_point_changes_nothing(
    tmp_path: Path, point: str, victim: int, expected: dict[str, bytes]
) -> None:
    with Crew(tmp_path, workers=3) as crew:
        crew.workers[victim].dies(point, step=3)
        crew.work()
        assert [w.died for w in crew.workers] == [i == victim for i in range(3)]
        crew.assert_all_equal(expected)
        crew.assert_each_record_once(38)
