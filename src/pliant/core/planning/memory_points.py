"""Memory of a node against the records that the job has accepted, thinned out: what ``memory_forecast`` fits a slope to.

The number of points is bounded and they stay evenly spread over all records so far: when there are too many, every other one is
dropped, and later ones have to be further apart. Records that fall (a dataset was restored) drop the points that lie ahead of them.
The peak is of all that was ever added, whether it became a point or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_MEMORY_POINTS = 40


class MemoryPoints:
    def __init__(self) -> None:
        self._points: list[tuple[float, float]] = []  # (records, MB), ascending
        self._apart = 0.0  # records between two points
        self.peak = 0.0  # MB

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """(records accepted by the job, MB), oldest first."""
        return tuple(self._points)

    def is_due(self, records: float) -> bool:
        """Whether memory at this number of records would become a point."""
        if not self._points:
            return True
        last = self._points[-1][0]
        return records < last or records - last >= max(self._apart, 1e-9)

    def add(self, records: float, memory_mb: float) -> None:
        self.peak = max(self.peak, memory_mb)
        if not self.is_due(records):
            return
        while self._points and self._points[-1][0] >= records:
            self._points.pop()
        self._points.append((records, memory_mb))
        if len(self._points) > MAX_MEMORY_POINTS:
            self._points = self._points[::2]
            self._apart = (self._points[-1][0] - self._points[0][0]) / (MAX_MEMORY_POINTS / 2)

    def copy(self) -> MemoryPoints:
        made = MemoryPoints()
        made._points, made._apart, made.peak = list(self._points), self._apart, self.peak
        return made

    def to_json(self) -> dict[str, Any]:
        return {"points": [list(point) for point in self._points], "apart": self._apart, "peak": self.peak}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> MemoryPoints:
        made = cls()
        made._points = [(records, memory) for records, memory in value["points"]]
        made._apart, made.peak = value["apart"], value["peak"]
        return made
