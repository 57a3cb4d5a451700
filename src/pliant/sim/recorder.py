"""What is measured of a simulated job, as the master would: samples for the real ``PeriodBook``.

A sample is taken every five seconds while something has changed. Once the rate has settled they become longer: between two
events the rate is constant, so one sample of a minute has the spread that the mean of twelve would have.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from random import Random

from pliant.core.planning.configuration import Configuration
from pliant.core.planning.history import Period, StepParts
from pliant.core.planning.periods import PeriodBook
from pliant.sim.truth.base import Noise

SAMPLE_S = 5.0
SETTLED_SAMPLE_S = 30.0  # once nothing changes any more
SETTLED_AFTER_S = 180.0  # without a change


class PeriodRecorder:
    def __init__(self, noise: Noise, random: Random, now: float) -> None:
        self._noise, self._random = noise, random
        self._book = PeriodBook()
        self._records = 0.0  # as they are reported
        self._changed_at = now
        self._next = now  # sample
        self._was_ready = False

    def changed(self, now: float) -> None:
        """Something came or went: what was measured before is over."""
        self._changed_at, self._next, self._was_ready = now, min(self._next, now + SAMPLE_S), False

    def observe(
        self, began: float, ended: float, configuration: Configuration, rate: float, parts: StepParts, *, is_whole: bool
    ) -> None:
        """The rate was constant in this time. ``is_whole``: all nodes of the configuration worked."""
        seen = configuration.to_json()
        shares = asdict(parts)
        at = began
        while self._next <= ended:
            self._records += self._seen(rate, self._next - at)
            at = self._next
            if not self._noise.lost_reports or self._random.random() >= self._noise.lost_reports:
                ready = is_whole and self._was_ready
                self._book.observe(at, configuration=seen, records=self._records, parts=shares, ready=ready)
                self._was_ready = is_whole
            if not is_whole and ended - at > SAMPLE_S:  # it stays so until then
                self._next = ended
            else:
                self._next = at + (SAMPLE_S if at - self._changed_at < SETTLED_AFTER_S else SETTLED_SAMPLE_S)
        self._records += self._seen(rate, ended - at)

    def _seen(self, rate: float, seconds: float) -> float:
        """Records that are accepted in this time, as they happen to fall into it."""
        if seconds <= 0 or rate <= 0:
            return 0.0
        spread = self._noise.sample_sigma / math.sqrt(seconds / SAMPLE_S)
        return rate * seconds * max(0.0, 1.0 + self._random.gauss(0.0, spread))

    def periods(self) -> tuple[Period, ...]:
        return self._book.periods()

    @property
    def settling_since(self) -> float | None:
        return self._book.settling_since
