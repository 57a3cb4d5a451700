"""One progress of many workers' reports, in any order, twice or never, and what the journal keeps of it."""

from __future__ import annotations

import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pliant.core.errors import InvalidRequest
from pliant.core.progress import (
    MAX_METRICS,
    NOTE_INTERVAL_S,
    ProgressBook,
    ProgressTracker,
    StepRate,
    StepReport,
    TrainingProgress,
    progress_to_json,
)


def report(tracker: ProgressTracker, node: str, step: int, *, alive: bool = True, **fields: object) -> int:
    progress = TrainingProgress(step, **fields)  # type: ignore[arg-type]
    return tracker.report(0.0, StepReport(node, progress), is_alive=lambda name: alive and name != "")


def test_the_worker_that_is_ahead_is_shown_and_others_add_only_metrics_that_are_new() -> None:
    tracker = ProgressTracker()
    report(tracker, "worker-0", 7, total_steps=9, metrics={"loss": 0.5})
    report(tracker, "worker-1", 5, metrics={"loss": 0.9, "accuracy": 0.8})
    assert tracker.progress == TrainingProgress(7, 9, metrics={"loss": 0.5, "accuracy": 0.8})
    report(tracker, "worker-1", 8, metrics={"loss": 0.4})
    assert tracker.progress == TrainingProgress(8, 9, metrics={"loss": 0.4, "accuracy": 0.8})


def test_training_that_went_back_to_a_checkpoint_is_shown_as_it_is() -> None:
    tracker = ProgressTracker()
    report(tracker, "worker-0", 100)
    report(tracker, "worker-1", 60)
    assert tracker.progress.step == 100
    report(tracker, "worker-0", 61)
    assert tracker.progress.step == 61, "the same worker, in another run"
    report(tracker, "worker-0", 80)
    report(tracker, "worker-2", 62, alive=False)
    assert tracker.progress.step == 62, "the one that was ahead is gone"


def test_a_metric_that_is_no_number_is_none() -> None:
    tracker = ProgressTracker()
    report(tracker, "worker-0", 1, metrics={"loss": math.inf, "rate": 0.1})
    assert tracker.progress.metrics == {"loss": None, "rate": 0.1}


@pytest.mark.parametrize(
    "wrong",
    [
        StepReport("w", TrainingProgress(-1)),
        StepReport("w", TrainingProgress(1, total_steps=-1)),
        StepReport("w", TrainingProgress(1), records=-1),
        StepReport("w", TrainingProgress(1), records=1, acknowledged=2),
        StepReport("w", TrainingProgress(1, metrics={str(n): 0.0 for n in range(MAX_METRICS + 1)})),
    ],
)
def test_a_report_that_makes_no_sense_changes_nothing(wrong: StepReport) -> None:
    tracker = ProgressTracker()
    with pytest.raises(InvalidRequest):
        tracker.report(0.0, wrong, is_alive=bool)
    assert tracker.progress == TrainingProgress()


def test_a_name_too_many_is_left_out_and_the_step_is_known() -> None:
    tracker = ProgressTracker()
    for step in range(1, MAX_METRICS + 3):
        report(tracker, "worker-0", step, metrics={f"loss-of-step-{step}": 1.0, "loss-of-step-1": float(step)})
    assert tracker.progress.step == MAX_METRICS + 2
    assert len(tracker.progress.metrics) == MAX_METRICS
    assert tracker.progress.metrics["loss-of-step-1"] == MAX_METRICS + 2, "a name that is kept has its newest value"


def test_the_rate_of_steps_is_that_of_the_last_seconds() -> None:
    rate = StepRate()
    assert rate.per_second(0.0) == 0.0
    for second in range(30):
        rate.add(float(second), second * 4 if second < 15 else 60 + (second - 15) * 8)
    assert rate.per_second(29.0) == pytest.approx(8.0)
    rate.add(30.0, 5)
    assert rate.per_second(30.0) == 0.0, "it went back"


def test_steps_that_take_minutes_have_a_rate_too() -> None:
    rate = StepRate()
    for minute in range(4):
        rate.add(60.0 * minute, minute)
    assert rate.per_second(200.0) == pytest.approx(1 / 60)
    assert rate.per_second(2000.0) < 1 / 600, "it stands still"


def test_the_journal_gets_the_progress_every_few_seconds_and_the_last_step_at_once() -> None:
    book = ProgressBook()
    assert not book.is_due(0.0, TrainingProgress())
    assert book.is_due(0.0, TrainingProgress(1, 9))
    book.note(0.0, progress=progress_to_json(TrainingProgress(1, 9)))
    assert not book.is_due(NOTE_INTERVAL_S - 0.1, TrainingProgress(2, 9))
    assert book.is_due(NOTE_INTERVAL_S, TrainingProgress(2, 9))
    assert book.is_due(0.1, TrainingProgress(9, 9))
    book.note(0.1, progress=progress_to_json(TrainingProgress(9, 9)))
    assert not book.is_due(100.0, TrainingProgress(9, 9))


class Records(RuleBasedStateMachine):
    """Workers that train, restart and report, over calls that fail before or after the master has counted them."""

    def __init__(self) -> None:
        super().__init__()
        self.tracker = ProgressTracker()
        self.trained = dict.fromkeys("abc", 0)  # by worker, in this run
        self.acknowledged = dict.fromkeys("abc", 0)
        self.runs = dict.fromkeys("abc", 0)
        self.reported: dict[str, int] = {}  # by run

    @rule(worker=st.sampled_from("abc"), records=st.integers(0, 50))
    def train(self, worker: str, records: int) -> None:
        self.trained[worker] += records

    @rule(worker=st.sampled_from("abc"), is_answered=st.booleans())
    def report(self, worker: str, is_answered: bool) -> None:
        run, done = f"{worker}{self.runs[worker]}", self.trained[worker]
        told = StepReport(worker, TrainingProgress(1), run, done, self.acknowledged[worker])
        new = done - self.reported.get(run, 0)
        assert self.tracker.report(0.0, told, is_alive=bool) == new
        assert self.tracker.report(0.0, told, is_alive=bool) == 0
        self.reported[run] = done
        if is_answered:
            self.acknowledged[worker] = done

    @rule(worker=st.sampled_from("abc"))
    def restart(self, worker: str) -> None:
        self.report(worker, is_answered=True)
        self.runs[worker] += 1
        self.trained[worker] = self.acknowledged[worker] = 0

    @rule()
    def start_another_master(self) -> None:
        for worker in "abc":
            self.report(worker, is_answered=True)
        book, before = ProgressBook(), self.tracker.progress
        book.note(0.0, progress=progress_to_json(before))
        self.tracker = ProgressTracker()
        self.tracker.resume(book.latest)

    @invariant()
    def each_reported_record_counts_once(self) -> None:
        assert self.tracker.progress.records_done == sum(self.reported.values())


TestRecords = Records.TestCase
TestRecords.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
