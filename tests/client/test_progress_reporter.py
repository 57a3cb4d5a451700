"""Reports that wait are sent as one, which the master takes."""

from __future__ import annotations

from pliant.client.progress_reporter import _with_metrics_of
from pliant.core.progress import MAX_METRICS, TrainingProgress


def test_reports_that_wait_are_joined() -> None:
    older, newer = TrainingProgress(1, metrics={"loss": 2.0, "lr": 0.1}), TrainingProgress(2, metrics={"loss": 1.0})
    assert _with_metrics_of(older, newer) == TrainingProgress(2, metrics={"loss": 1.0, "lr": 0.1})


def test_many_names_do_not_make_a_report_that_is_refused() -> None:
    older = TrainingProgress(1, metrics={f"old-{number}": 0.0 for number in range(MAX_METRICS)})
    joined = _with_metrics_of(older, TrainingProgress(2, metrics={"loss": 1.0}))
    assert joined.step == 2
    assert joined.metrics["loss"] == 1.0
    assert len(joined.metrics) == MAX_METRICS
