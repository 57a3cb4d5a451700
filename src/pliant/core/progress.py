"""How far the training is by the programs' own word: steps, records, loss and other metrics.

Each worker reports the newest state that it knows (``StepReport``); a ``ProgressTracker`` makes one ``TrainingProgress`` of all
reports. It lives in the master's memory, since a report per worker several times a second is not worth a write to disk each;
``ProgressBook`` is what the journal keeps of it, every few seconds and when the last step is done, so that neither a restarted
master nor a reader of the journal begins at zero.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any

from pliant.core.errors import InvalidRequest
from pliant.core.shards.datasets import MAX_RECORDS
from pliant.core.state_machine import StateMachine

LOSS = "loss"  # the metric that is shown first
MAX_METRICS = 1000  # of one report; and names that are kept, the first ones
MAX_RUNS = 10_000  # programs whose records are told apart
NOTE_INTERVAL_S = 5.0  # between two notes in the journal
RATE_WINDOW_S = 10.0  # over which the rate of steps is taken, or longer if steps are slower


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """As the worker that is ahead reported it. A metric that is not a finite number is None."""

    step: int = 0  # committed steps
    total_steps: int = 0  # 0: not known
    epoch: int = 0  # epochs that are done
    records_done: int = 0  # of the whole job
    records_total: int = 0  # of all epochs; 0: not known
    metrics: Mapping[str, float | None] = field(default_factory=dict)  # last values, the loss among them

    @property
    def is_complete(self) -> bool:
        """The last step is done."""
        return 0 < self.total_steps <= self.step


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one worker reports."""

    node: str
    progress: TrainingProgress
    run: str = ""  # of its program
    records: int = 0  # that this run has trained on so far
    acknowledged: int = 0  # of these, those in reports that were answered

    def check(self) -> None:
        progress = self.progress
        numbers = (progress.step, progress.total_steps, progress.epoch, progress.records_done, progress.records_total)
        if any(number < 0 for number in numbers) or not 0 <= self.records <= MAX_RECORDS:
            raise InvalidRequest(
                f"step {progress.step} of {progress.total_steps}, {self.records} records: out of range"
            )
        if len(progress.metrics) > MAX_METRICS:
            raise InvalidRequest(f"{len(progress.metrics)} metrics in one report; the maximum is {MAX_METRICS}")
        if not 0 <= self.acknowledged <= self.records:
            raise InvalidRequest(f"{self.acknowledged} of {self.records} records are said to be reported before")


class StepRate:
    """Steps per second over the last ``RATE_WINDOW_S`` seconds, or the last two reports if those are further apart."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, now: float, step: int) -> None:
        if self._seen and step < self._seen[-1][1]:
            self._seen.clear()  # training went back to a checkpoint
        if self._seen and step == self._seen[-1][1]:
            return
        self._seen.append((now, step))
        while len(self._seen) > 2 and self._seen[1][0] <= now - RATE_WINDOW_S:
            self._seen.popleft()

    def per_second(self, now: float) -> float:
        if len(self._seen) < 2:
            return 0.0
        (began, first), (ended, last) = self._seen[0], self._seen[-1]
        seconds = ended - began
        if now - ended > max(seconds, RATE_WINDOW_S):  # it stands still
            seconds = now - began
        return (last - first) / max(seconds, 0.001)


class ProgressTracker:
    """One progress of many reports.

    Shown is what the worker that is ahead reported. A report of another that is behind it counts only for metrics that are not
    known yet; once the one that is ahead is gone, or went back itself, training may have gone back to a checkpoint, and the
    next report is shown.
    """

    def __init__(self) -> None:
        self.progress = TrainingProgress()
        self._ahead = ""  # the node
        self._runs: dict[str, tuple[str, int]] = {}  # by node: its run, and the records of it that were counted
        self._rate = StepRate()

    def resume(self, progress: TrainingProgress) -> None:
        """Begin with what an earlier master knew."""
        self.progress = progress

    def report(self, now: float, report: StepReport, *, is_alive: Callable[[str], bool]) -> int:
        """Returns how many records of the worker were not counted before."""
        report.check()
        reported, known = report.progress, self.progress
        records = self._count(report)
        metrics = self._kept(reported.metrics)
        if reported.step >= known.step or report.node == self._ahead or not is_alive(self._ahead):
            self._ahead = report.node
            self.progress = replace(
                reported,
                total_steps=reported.total_steps or known.total_steps,
                epoch=reported.epoch or known.epoch,
                records_done=reported.records_done if reported.records_total else known.records_done,
                records_total=reported.records_total or known.records_total,
                metrics={**known.metrics, **metrics},
            )
            self._rate.add(now, reported.step)
        else:
            self.progress = replace(known, metrics={**metrics, **known.metrics})
        if not self.progress.records_total:  # nobody knows it of the whole job: the sum of what all workers did
            done = min(MAX_RECORDS, self.progress.records_done + records)
            self.progress = replace(self.progress, records_done=done)
        return records

    def steps_per_second(self, now: float) -> float:
        return self._rate.per_second(now)

    def _kept(self, metrics: Mapping[str, float | None]) -> dict[str, float | None]:
        """Names beyond the first ``MAX_METRICS`` are left out: they must not keep the step from being known."""
        known = self.progress.metrics
        room = MAX_METRICS - len(known)
        new = set(islice((name for name in metrics if name not in known), max(0, room)))
        return {name: _finite(value) for name, value in metrics.items() if name in known or name in new}

    def _count(self, report: StepReport) -> int:
        """A report may arrive twice, and a new master knows of no run: what was answered before was counted before."""
        run, counted = self._runs.get(report.node, ("", 0))
        before = counted if run == report.run and report.run else report.acknowledged
        if report.node not in self._runs and len(self._runs) >= MAX_RUNS:
            del self._runs[next(iter(self._runs))]
        self._runs[report.node] = (report.run, max(before, report.records))
        return max(0, report.records - before)


class ProgressBook(StateMachine):
    """The newest progress that the journal has."""

    def __init__(self) -> None:
        self.latest = TrainingProgress()
        self.noted_at = -math.inf

    def note(self, now: float, *, progress: dict[str, Any]) -> None:
        self.latest, self.noted_at = TrainingProgress(**progress), now

    def is_due(self, now: float, progress: TrainingProgress) -> bool:
        """Whether this is to be noted now."""
        if progress == self.latest:
            return False
        return progress.is_complete or not 0 <= now - self.noted_at < NOTE_INTERVAL_S

    def snapshot(self) -> dict[str, Any]:
        return {
            "latest": progress_to_json(self.latest),
            "noted_at": None if math.isinf(self.noted_at) else self.noted_at,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.latest = TrainingProgress(**state["latest"])
        self.noted_at = -math.inf if state["noted_at"] is None else state["noted_at"]


def progress_to_json(progress: TrainingProgress) -> dict[str, Any]:
    return {**asdict(progress), "metrics": dict(progress.metrics)}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
