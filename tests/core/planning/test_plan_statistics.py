from __future__ import annotations

from dataclasses import replace

import pytest
from tests.brain.store.reporting import plan

from pliant.core.planning.plan_record import Outcome
from pliant.core.planning.plan_statistics import AlgorithmStatistics, comparison_of, statistics_of


def test_an_error_is_relative_to_what_was_achieved_and_the_measurement_may_be_off() -> None:
    far, near = plan("a", achieved_rate=16.0, achieved_error=0.0), plan("a", achieved_rate=16.0, achieved_error=2.0)
    found = comparison_of(far)
    assert found is not None
    assert (found.error, found.is_inside) == (0.25, False)
    allowed = comparison_of(near)
    assert allowed is not None
    assert allowed.is_inside, "18 is within two errors of 16"


def test_what_predicts_nothing_or_achieved_nothing_is_not_compared() -> None:
    made = plan("a", achieved_rate=16.0)
    assert comparison_of(plan("a")) is None
    assert comparison_of(replace(made, proposal=replace(made.proposal, prediction=None))) is None


def test_plans_are_summed_up_by_algorithm_without_those_that_take_another_back() -> None:
    plans = [
        plan("1", outcome=Outcome.KEPT, achieved_rate=25.0, achieved_error=0.0),
        plan("2", outcome=Outcome.ROLLED_BACK, achieved_rate=20.0, achieved_error=0.0),
        plan("3", outcome=Outcome.EXPIRED),
        plan("4", outcome=Outcome.KEPT, rolls_back="2", achieved_rate=10.0),
    ]
    other = plan("5")
    other = replace(other, proposal=replace(other.proposal, algorithm="probe"))
    first, second = statistics_of([other, *plans])
    assert (first.algorithm, first.plans, first.kept, first.rolled_back, first.compared) == ("plan_job", 3, 1, 1, 2)
    assert first.median_error == pytest.approx(0.1)
    assert first.coverage == 0.5
    assert second == AlgorithmStatistics("probe", 1, 0, 0, 0, None, None)
