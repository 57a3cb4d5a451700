"""What a Trainer's worker reports of its loops."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from pliant.client.job import Job
from pliant.core.progress import TrainingProgress
from pliant.torch.loop_progress import LoopProgress
from pliant.torch.plan import StepPlan
from pliant.torch.position import Position


class Training:
    def __init__(self) -> None:
        self.reports: list[tuple[TrainingProgress, int]] = []
        self.position = Position()
        self.progress = LoopProgress(self.position)
        job = SimpleNamespace(elastic=True, report_progress=lambda found, own=0: self.reports.append((found, own)))
        self.progress.report_to(cast(Job, job))

    def run(self, plan: StepPlan, loop: int, steps: int, *, units: range) -> None:
        self.progress.begin_loop(plan, loop, plan.steps)
        for step in range(self.position.step, steps):
            self.position.commit_step()
            self.position.loss = 1 / self.position.total
            self.progress.committed(step, units)
        self.progress.end_loop()
        self.position.end_loop()

    @property
    def last(self) -> TrainingProgress:
        return self.reports[-1][0]


def test_each_step_is_reported_of_how_many_with_the_records_of_all_and_those_of_this_worker() -> None:
    training = Training()
    training.run(StepPlan(70, 4, 4, epochs=2), 0, 10, units=range(2))
    first, own = training.reports[0]
    assert first == TrainingProgress(1, 10, 0, 16, 140, {"loss": 1.0})
    assert own == 8
    assert training.last == TrainingProgress(10, 10, 2, 140, 140, {"loss": 0.1})
    assert sum(own for _, own in training.reports) == 2 * (4 * 8 + 6), "the last step of an epoch is short"


def test_steps_and_records_go_on_over_several_loops() -> None:
    training = Training()
    plan = StepPlan(32, 4, 4)
    training.run(plan, 0, 2, units=range(4))
    training.run(plan, 1, 2, units=range(4))
    shown = [(found.step, found.total_steps) for found, _ in training.reports]
    assert shown == [(1, 2), (2, 2), (2, 2), (3, 4), (4, 4), (4, 4)]
    assert (training.last.records_done, training.last.records_total) == (64, 64)


def test_a_loop_that_was_stopped_early_is_done() -> None:
    training = Training()
    training.run(StepPlan(160, 4, 4), 0, 3, units=range(4))
    assert (training.last.step, training.last.total_steps, training.last.records_total) == (3, 3, 48)


def test_a_loop_that_the_checkpoint_had_done_is_reported_as_done() -> None:
    training = Training()
    training.position.load_state({"loop": 1, "step": 0, "total": 10, "loss": 0.5, "ended_at": 10})
    training.progress.begin_loop(StepPlan(160, 4, 4), 0, 10)
    training.progress.end_loop()
    assert training.last == TrainingProgress(10, 10, 1, 160, 160, {"loss": 0.5})


def test_an_earlier_loop_than_that_of_the_checkpoint_is_not_reported() -> None:
    training = Training()
    training.position.load_state({"loop": 1, "step": 4, "total": 14, "loss": math.nan})
    training.progress.begin_loop(StepPlan(160, 4, 4), 0, 10)
    training.progress.end_loop()
    assert training.reports == []


@given(st.integers(0, 60), st.integers(1, 5), st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_the_records_of_steps_are_those_of_their_units(
    records: int, micro_batch: int, units: int, epochs: int, drop_last: bool
) -> None:
    plan = StepPlan(records, micro_batch, units, epochs, drop_last=drop_last)
    done = 0
    for step in range(plan.steps):
        assert [plan.unit_size(step, unit) for unit in range(units)] == [
            len(plan.indices(step, unit)) for unit in range(units)
        ]
        done += plan.size(step)
        assert plan.records_of(step + 1) == done
