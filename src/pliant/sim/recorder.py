"""What is measured of a simulated job, as the master would: periods of constant configuration and views of nodes.

Samples are not drawn one by one. Between two events the rate is constant, so the mean of the samples of that stretch is drawn
once, with the spread that so many samples have: an hour of waiting costs what five seconds cost.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from random import Random

from pliant.core.planning.configuration import Configuration
from pliant.core.planning.history import Period, StepParts
from pliant.sim.truth.base import Noise

SAMPLE_S = 5.0
SETTLE_S = 10.0  # after the last change of any kind; what was measured before does not count
MIN_SAMPLES = 3  # of a period
MAX_PERIOD_S = 600.0
MAX_PERIODS = 60
MAX_MEMORY_POINTS = 40


@dataclass(slots=True)
class _Open:
    """A period that still goes on."""

    configuration: Configuration
    began: float
    ended: float
    parts: StepParts
    samples: float = 0.0
    total: float = 0.0  # of rates, weighted by samples
    squares: float = 0.0

    def close(self) -> Period | None:
        if self.samples < MIN_SAMPLES:
            return None
        mean = self.total / self.samples
        variance = max(0.0, self.squares / self.samples - mean * mean)
        error = math.sqrt(variance / self.samples)
        return Period(self.configuration, self.began, self.ended, mean, error, int(self.samples), self.parts)


class PeriodRecorder:
    def __init__(self, noise: Noise, random: Random) -> None:
        self._noise, self._random = noise, random
        self._done: deque[Period] = deque(maxlen=MAX_PERIODS)
        self._open: _Open | None = None
        self._unsettled_until = 0.0
        self._changed_at: float | None = 0.0

    def changed(self, now: float, *, is_new_configuration: bool = False) -> None:
        """Something came or went: what follows has to settle first."""
        self._unsettled_until = now + SETTLE_S
        if is_new_configuration:
            self._close()
            self._changed_at = now

    def observe(
        self, began: float, ended: float, configuration: Configuration, rate: float, parts: StepParts, *, is_whole: bool
    ) -> None:
        """The rate was constant in this time. ``is_whole``: all nodes of the configuration worked."""
        if not is_whole:
            self._unsettled_until = ended + SETTLE_S
            return
        began = max(began, self._unsettled_until)
        if ended <= began:
            return
        if self._open is not None and (
            self._open.configuration != configuration or ended - self._open.began > MAX_PERIOD_S
        ):
            self._close()
        if self._open is None:
            self._open = _Open(configuration, began, ended, parts)
        found, sigma = self._open, self._noise.sample_sigma
        samples = (ended - began) / SAMPLE_S * (1.0 - self._noise.lost_reports)
        if samples <= 0:
            return
        value = rate * (1.0 + sigma * self._random.gauss(0.0, 1.0) / math.sqrt(samples))
        found.samples += samples
        found.total += samples * value
        found.squares += samples * (value * value + (sigma * rate) ** 2)
        found.ended, found.parts = ended, parts
        if self._changed_at is not None and found.samples >= MIN_SAMPLES:
            self._changed_at = None

    def periods(self) -> tuple[Period, ...]:
        last = self._open.close() if self._open is not None else None
        return (*self._done, last) if last is not None else tuple(self._done)

    @property
    def settling_since(self) -> float | None:
        return self._changed_at

    def _close(self) -> None:
        if self._open is not None and (period := self._open.close()) is not None:
            self._done.append(period)
        self._open = None


class MemoryPoints:
    """Of one role: the memory of its fullest node against the records of the job, thinned out."""

    def __init__(self) -> None:
        self._points: list[tuple[float, float]] = []
        self._apart = 0.0  # records between two points
        self.peak = 0.0

    def add(self, records: float, memory_mb: float) -> None:
        self.peak = max(self.peak, memory_mb)
        if self._points and records - self._points[-1][0] < self._apart:
            return
        self._points.append((records, memory_mb))
        if len(self._points) > MAX_MEMORY_POINTS:
            self._points = self._points[::2]
            self._apart = (self._points[-1][0] - self._points[0][0]) / (MAX_MEMORY_POINTS / 2)

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        return tuple(self._points)
