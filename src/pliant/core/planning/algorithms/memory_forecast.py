"""Memory that grows: more of it before it runs out.

Memory is followed against the records that the job has accepted, not against time, so a job that stands still is not
extrapolated. The slope is Theil's and Sen's (the median of the slopes of all pairs: one outlier does not turn it), with an
upper bound from the same slopes. It acts before the upper bound passes 90 % of the limit within the lead time, and asks for
what is needed until the end of the job as far as that is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import sqrt
from statistics import median

from pliant.core.planning.candidates import is_possible
from pliant.core.planning.history import JobHistory, NodeView
from pliant.core.planning.objectives import SERVER, shape_of, with_shape
from pliant.core.planning.proposal import Prediction, Proposal

MIN_POINTS = 6
MAX_POINTS = 40
FULL = 0.9  # share of the limit
HEADROOM = 1.15
MAX_GROWTH = 2.0  # times the limit, at once


@dataclass(frozen=True, slots=True)
class MemoryForecast:
    name: str = "memory_forecast"
    lead_s: float = 600.0  # long enough to decide, to be carried out, and to be wrong once
    horizon_s: float = 3600.0  # memory is asked for this long, or until the end of the job

    def __call__(self, history: JobHistory, now: float) -> Proposal | None:
        rate = history.periods[-1].rate if history.periods else 0.0
        if not rate:
            return None
        worst: tuple[float, NodeView, float] | None = None
        for node in history.nodes:
            shape = shape_of(history.configuration, node.role)
            if shape is None or shape.memory_mb > 1.05 * node.memory_limit_mb:
                continue  # more is on its way
            if _is_far_from_full(node, self._ahead(history, rate, self.lead_s)):
                continue
            found = forecast(node, self._ahead(history, rate, self.lead_s))
            if found is None or not node.memory_limit_mb or found < FULL * node.memory_limit_mb:
                continue
            share = found / node.memory_limit_mb
            if worst is None or share > worst[0]:
                needed = forecast(node, self._ahead(history, rate, self.horizon_s)) or found
                worst = (share, node, max(found, needed))
        return self._proposal(history, *worst) if worst is not None else None

    def _ahead(self, history: JobHistory, rate: float, seconds: float) -> float:
        records = rate * seconds
        return records if history.remaining_records is None else min(records, history.remaining_records)

    def _proposal(self, history: JobHistory, share: float, node: NodeView, needed_mb: float) -> Proposal | None:
        shape = shape_of(history.configuration, node.role)
        bounds = history.bounds.worker if node.role != SERVER else history.bounds.server
        if shape is None or bounds is None or not shape.memory_mb:
            return None
        grown = round(min(needed_mb * HEADROOM / FULL, MAX_GROWTH * max(shape.memory_mb, node.memory_limit_mb)))
        larger = bounds.clip(replace(shape, memory_mb=grown))
        new = with_shape(history.configuration, node.role, larger)
        when = f"within {self.lead_s / 60:.0f} minutes" if share > 1 else "soon"
        why = f"memory of {node.name} grows and would pass {FULL:.0%} of its {node.memory_limit_mb:.0f} MB {when}"
        if larger.memory_mb > shape.memory_mb * 1.05 and history.bounds.allows(new):
            prediction = Prediction(0.0, 0.0, 0.0, memory_mb=needed_mb)
            return Proposal(
                self.name, f"{why}: {larger.memory_mb} MB for each {node.role}", new, prediction, urgent=True
            )
        if node.role != SERVER:
            return None  # nothing left to give
        more = with_shape(
            history.configuration, node.role, bounds.clip(replace(shape, replicas=shape.replicas + bounds.unit))
        )
        if more == history.configuration or not is_possible(history, more):
            return None
        return Proposal(self.name, f"{why}, and it has the maximum: one more server takes rows", more, urgent=True)


def forecast(node: NodeView, records: float) -> float | None:
    """Upper bound (95 %) of a node's memory after so many more records; None: too little is known, or it does not grow."""
    trend = _trend(node.memory_points)
    if trend is None:
        return None
    upper, expected = trend
    return max(expected, node.memory_mb) + upper * records


@lru_cache(maxsize=256)  # asked for several horizons, and by several algorithms
def _trend(all_points: tuple[tuple[float, float], ...]) -> tuple[float, float] | None:
    """The upper bound of the slope, and the memory that is expected at the last point."""
    points = all_points[:: max(1, len(all_points) // MAX_POINTS)]
    if len(points) < MIN_POINTS:
        return None
    slopes = sorted(
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for i, earlier in enumerate(points)
        for later in points[i + 1 :]
        if later[0] > earlier[0]
    )
    if not slopes:
        return None
    slope, upper = median(slopes), _upper(slopes, len(points))
    if slope <= 0:
        return None
    levels = sorted(memory - slope * at for at, memory in points)
    level = levels[min(len(levels) - 1, int(0.9 * len(levels)))]
    return upper, level + slope * points[-1][0]


def _is_far_from_full(node: NodeView, records: float) -> bool:
    """A cheap first look, which most nodes pass: four times the slope from end to end is not enough to fill it."""
    if not node.memory_limit_mb or len(node.memory_points) < MIN_POINTS:
        return True
    (first, before), (last, after) = node.memory_points[0], node.memory_points[-1]
    slope = max(0.0, after - before) / max(last - first, 1e-9)
    return max(after, node.memory_mb) + 4 * slope * records < 0.8 * FULL * node.memory_limit_mb


def _upper(slopes: Sequence[float], points: int) -> float:
    """Of Theil's and Sen's slope, by the variance of Kendall's statistic."""
    deviation = 1.645 * sqrt(points * (points - 1) * (2 * points + 5) / 18)
    return slopes[min(len(slopes) - 1, round((len(slopes) + deviation) / 2))]
