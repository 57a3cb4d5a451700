"""One value over time, from its first sample to its last, in constant memory: the longer it gets, the coarser it is.

A point adds up the samples of some time. Points begin in different buckets of ``resolution`` seconds, which is ``FINEST_S`` at
first and doubles whenever there would be more than ``capacity`` points: neighbours that fall into one bucket are merged. So

1. the number of points is bounded, and there is a new one for each bucket in which there was a sample, whatever came before;
2. minimum, maximum, mean and number over all points are those of all samples that were ever added;
3. times rise strictly. A sample whose time does not advance (a clock that was set back) counts in the newest point.

A point has the step of its newest sample. Steps may go back, when training continues from a checkpoint: ``by_step`` makes one
continuous curve of that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

FINEST_S = 1.0  # resolution of a new curve
MAX_POINTS = 512


@dataclass(frozen=True, slots=True)
class Point:
    """Samples of some time, added up."""

    time: float  # of the first, seconds since the epoch
    step: int  # of the newest
    mean: float
    minimum: float
    maximum: float
    count: int = 1

    @classmethod
    def of(cls, time: float, step: int, value: float) -> Point:
        return cls(time, step, value, value, value)

    def plus(self, later: Point) -> Point:
        count = self.count + later.count
        low, high = min(self.minimum, later.minimum), max(self.maximum, later.maximum)
        mean = self.mean * (self.count / count) + later.mean * (later.count / count)  # a sum might overflow
        return Point(self.time, later.step, min(high, max(low, mean)), low, high, count)


Curve = tuple[Point, ...]  # by time


class CurveRecorder:
    """A curve that grows."""

    def __init__(self, capacity: int = MAX_POINTS, points: Iterable[Point] = ()) -> None:
        self._capacity = capacity
        self._resolution = FINEST_S
        self._points = list(points)
        self._shrink()

    def add(self, time: float, step: int, value: float) -> None:
        """``value``: a finite number."""
        time = round(time, 3)
        points, added = self._points, Point.of(time, step, value)
        if points and self._bucket(time) <= self._bucket(points[-1].time):
            points[-1] = points[-1].plus(added)
        else:
            points.append(added)
            self._shrink()

    def limit(self, capacity: int) -> None:
        """Keep at most so many points from now on."""
        self._capacity = capacity
        self._shrink()

    @property
    def points(self) -> Curve:
        return tuple(self._points)

    @property
    def last(self) -> Point | None:
        return self._points[-1] if self._points else None

    def _bucket(self, time: float) -> int:
        return math.floor(time / self._resolution)

    def _shrink(self) -> None:
        while len(self._points) > self._capacity:
            self._resolution *= 2
            self._points = list(self._merged())

    def _merged(self) -> Iterator[Point]:
        first, *others = self._points
        for point in others:
            if self._bucket(point.time) <= self._bucket(first.time):
                first = first.plus(point)
            else:
                yield first
                first = point
        yield first


def thinned(curve: Sequence[Point], max_points: int) -> Curve:
    """At most so many points: neighbours are merged."""
    if max_points < 1 or len(curve) <= max_points:
        return tuple(curve)
    size = math.ceil(len(curve) / max_points)
    return tuple(_sum(curve[at : at + size]) for at in range(0, len(curve), size))


def since(curve: Curve, time: float) -> Curve:
    """From the last point on that begins at this time or before: for a reader who has all that began earlier. That one, the
    newest that the reader has, may have grown since."""
    at = next((at for at in range(len(curve) - 1, -1, -1) if curve[at].time <= time), 0)
    return curve[at:]


def by_step(curve: Iterable[Point]) -> Curve:
    """One curve over strictly rising steps: where training went back, the repetition replaces what was there."""
    kept: list[Point] = []
    for point in curve:
        while kept and kept[-1].step >= point.step:
            kept.pop()
        kept.append(point)
    return tuple(kept)


def _sum(points: Sequence[Point]) -> Point:
    total, *others = points
    for point in others:
        total = total.plus(point)
    return total
