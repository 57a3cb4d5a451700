"""Reports that are passed on to a tracker never hold up, nor end, the training."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from pliant.client.job import Job
from pliant.client.report_listener import MAX_WAITING, ReportListener


class Tracker:
    def __init__(self) -> None:
        self.got: list[tuple[int, Mapping[str, float]]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.fails = False
        self.closed = False

    def __call__(self, step: int, metrics: Mapping[str, float]) -> None:
        self.gate.wait()
        if self.fails:
            raise ConnectionError("the tracker is away")
        self.got.append((step, metrics))

    def close(self) -> None:
        self.closed = True


def test_each_report_with_metrics_is_passed_on_also_without_a_master() -> None:
    tracker, job = Tracker(), Job()
    job.on_report(tracker, when=lambda: True)
    ignored = Tracker()
    job.on_report(ignored, when=lambda: False)
    job.report(1, loss=0.5, metrics={"val/top-1": 0.9})
    job.report(2)
    job.report(3, loss=float("nan"), lr=0.1)
    job.close()
    assert tracker.got[0] == (1, {"val/top-1": 0.9, "loss": 0.5})
    assert tracker.got[1][0] == 3
    assert len(tracker.got) == 2
    assert tracker.closed
    assert ignored.got == []


def test_a_tracker_that_is_away_is_logged_once_and_gets_what_comes_later(caplog: pytest.LogCaptureFixture) -> None:
    tracker = Tracker()
    tracker.fails = True
    failing = ReportListener(tracker, lambda: True)
    for step in range(5):
        failing.put(step, {"loss": 1.0})
    failing.close()
    assert caplog.text.count("the tracker is away") == 1
    assert tracker.got == []


def test_a_slow_tracker_loses_the_oldest_reports_and_holds_nobody_up() -> None:
    tracker = Tracker()
    tracker.gate.clear()
    listener = ReportListener(tracker, lambda: True)
    for step in range(3 * MAX_WAITING):
        listener.put(step, {"loss": 1.0})
    tracker.gate.set()
    listener.close()
    assert len(tracker.got) <= MAX_WAITING + 1
    assert tracker.got[-1][0] == 3 * MAX_WAITING - 1
