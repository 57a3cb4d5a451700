"""The step plan gives each record once per epoch, whatever the numbers are."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.core.errors import InvalidRequest
from pliant.torch.plan import StepPlan, unit_seed

plans = st.builds(
    StepPlan,
    records=st.integers(0, 300),
    micro_batch=st.integers(1, 17),
    units=st.integers(1, 9),
    epochs=st.integers(1, 3),
    seed=st.integers(0, 1 << 70),
    shuffle=st.booleans(),
)


def records_of(plan: StepPlan, step: int) -> list[int]:
    return [record for unit in range(plan.units) for record in plan.indices(step, unit)]


@given(plans)
def test_each_record_comes_once_per_epoch(plan: StepPlan) -> None:
    seen = Counter((plan.epoch_and_step(step)[0], r) for step in range(plan.steps) for r in records_of(plan, step))
    assert seen == Counter((epoch, record) for epoch in range(plan.epochs) for record in range(plan.records))


@given(plans)
def test_only_the_last_step_of_an_epoch_is_short_and_none_is_empty(plan: StepPlan) -> None:
    whole = plan.units * plan.micro_batch
    for step in range(plan.steps):
        size = plan.size(step)
        assert size == len(records_of(plan, step))
        assert plan.indices(step, 0), "unit 0, whose buffers count, always has records"
        assert size == whole or (0 < size < whole and plan.epoch_and_step(step)[1] == plan.steps_per_epoch - 1)


@given(plans)
def test_drop_last_leaves_out_only_what_does_not_fill_a_step(plan: StepPlan) -> None:
    dropped = StepPlan(plan.records, plan.micro_batch, plan.units, drop_last=True)
    assert all(dropped.size(step) == plan.units * plan.micro_batch for step in range(dropped.steps))
    assert dropped.steps == plan.records // (plan.units * plan.micro_batch)


def test_epochs_have_different_orders_and_the_same_seed_the_same_ones() -> None:
    plan = StepPlan(64, 4, 4, epochs=2, seed=3)
    first, second = ([records_of(plan, step) for step in range(at, at + 4)] for at in (0, 4))
    assert first != second
    assert first == [records_of(StepPlan(64, 4, 4, epochs=9, seed=3), step) for step in range(4)]
    assert first != [records_of(StepPlan(64, 4, 4, seed=4), step) for step in range(4)]


def test_seeds_differ_for_each_step_and_unit_and_fit_torch_and_numpy() -> None:
    seeds = {unit_seed(7, step, unit) for step in range(100) for unit in range(50)}
    assert len(seeds) == 5000
    assert all(0 <= seed < 1 << 63 for seed in seeds)


@pytest.mark.parametrize("wrong", [{"records": -1}, {"micro_batch": 0}, {"units": 0}, {"epochs": 0}])
def test_a_plan_that_makes_no_sense_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidRequest, match=next(iter(wrong))):
        replace(StepPlan(records=4, micro_batch=1, units=1), **wrong)  # type: ignore[arg-type]
