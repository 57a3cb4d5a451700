"""The values of a job as records of a TensorBoard event file (``tfevents``): which ones are written, and when.

The values of an interval become their mean, at the newest step. The interval grows with the age of the job, so that the records
of a year take some 50 MB with ten metrics, and not a gigabyte. Where training went back to an earlier step, that is marked, so
that readers replace what they had by the repetition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pliant.core.series.curve import by_step
from pliant.core.series.job_series import JobSeries
from pliant.core.series.tfevents import restart_record, scalars_record, version_record

FIRST_INTERVAL_S = 1.0
RECORDS_OF_INTERVAL = 20_000  # the interval is the job's age divided by this, once that is longer
SPEED = "pliant/"  # before the tags of what is not the program's own


@dataclass(slots=True)
class _Sum:
    total: float = 0.0
    count: int = 0


class EventLog:
    def __init__(self, began: float, *, step: int = 0) -> None:
        """``began``: when the job did; ``step``: that an earlier master wrote."""
        self._began = began
        self._step = self._written_step = step
        self._sums: dict[str, _Sum] = {}
        self._summed_at = -float("inf")
        self._records: list[bytes] = []

    def add(self, time: float, step: int, values: Mapping[str, float]) -> None:
        """Finite numbers by tag, at the job's step."""
        if step < self._step:
            self.finish(time)  # what was before the training went back
        self._step = step
        for tag, value in values.items():
            found = self._sums.setdefault(tag, _Sum())
            found.total += value
            found.count += 1
        if time - self._summed_at >= max(FIRST_INTERVAL_S, (time - self._began) / RECORDS_OF_INTERVAL):
            self.finish(time)

    def add_result(self, time: float, step: int, values: Mapping[str, float]) -> None:
        """Of an evaluation: at the version of the model, and all of them."""
        self._records.append(scalars_record(time, step, values))

    def finish(self, time: float) -> None:
        """Turn what was added into records."""
        if not self._sums:
            return
        self._summed_at = time
        if self._step < self._written_step:
            self._records.append(restart_record(time, self._step))
        self._written_step = self._step
        means = {tag: found.total / found.count for tag, found in self._sums.items()}
        self._records.append(scalars_record(time, self._step, means))
        self._sums.clear()

    def take(self) -> bytes:
        """The records since the last call, to be appended to the file."""
        content = b"".join(self._records)
        self._records.clear()
        return content


def file_of(series: JobSeries) -> bytes:
    """A whole event file of what is kept of a job."""
    speed = {"records_per_second": series.records_per_second, "steps_per_second": series.steps_per_second}
    curves = {**series.metrics, **{SPEED + name: curve for name, curve in {**speed, "workers": series.workers}.items()}}
    first = min((curve[0].time for curve in curves.values() if curve), default=series.time)
    return version_record(first) + b"".join(
        scalars_record(point.time, point.step, {tag: point.mean})
        for tag, curve in curves.items()
        for point in by_step(curve)
    )
