"""The rate of a counter that only grows while its program runs, from readings of its total, in constant memory.

A total that falls is of another run: what was before it is forgotten. Readings closer together than ``spacing_s`` are dropped, so
at most ``window_s / spacing_s + 2`` are kept. Time that does not advance is no reading.
"""

from __future__ import annotations

from collections import deque


class CounterRate:
    def __init__(self, *, window_s: float, spacing_s: float) -> None:
        self._window_s, self._spacing_s = window_s, spacing_s
        self._readings: deque[tuple[float, float]] = deque()  # time, total

    def read(self, time: float, total: float) -> None:
        readings = self._readings
        if readings and total < readings[-1][1]:
            readings.clear()
        elif readings and time - readings[-1][0] < self._spacing_s:
            return
        readings.append((time, total))
        while len(readings) > 2 and readings[1][0] <= time - self._window_s:
            readings.popleft()

    @property
    def per_second(self) -> float | None:
        """Between the first and the last reading of the window; None: there is only one."""
        if len(self._readings) < 2:
            return None
        (began, first), (ended, last) = self._readings[0], self._readings[-1]
        return (last - first) / (ended - began)
