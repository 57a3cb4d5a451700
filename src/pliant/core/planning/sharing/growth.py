"""What is left after the minimums: step by step to the job that gains most by it.

The utility of a job is ``-weight / speed-up``, so the sum over all jobs is the weighted power mean with p = -1 of their
speed-ups: twice the speed for a slow job is worth more than for a fast one. The *speed-up* of a configuration is its rate against
that of the job's fair share of the quota (one n-th for each of n jobs, at least its minimum). Greedy: the next step is the one
with the largest gain of utility per dominant share of the quota, over all jobs and all of their larger options that still fit.

A change costs something: configurations other than the present one count with their rate less the share of the remaining time
that the change takes, and less the hysteresis. So equal jobs do not swap, noise in predictions moves nothing, and a job near its
end keeps what it has. The greedy choice starts once from the minimums and once from what jobs have (if that fits); the better one
is taken, and what jobs have if both are equal.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from pliant.core.planning.sharing.demand import EPSILON, Amount, Demand, Option, Quota, SharingSettings

MIN_SPEEDUP = 1e-6
MAX_WEIGHT_LEVELS = 16  # of priority, up or down: beyond, a weight is as good as infinite
SMALL_SHARE = 1e-9


@dataclass(frozen=True, slots=True)
class _Point:
    """An option of a job as the greedy choice sees it."""

    share: float  # dominant, of the quota
    takes: tuple[float, ...]  # of each resource that the quota limits
    speedup: float  # less the cost of the change
    utility: float
    option: Option


def grow(
    quota: Quota, demands: Sequence[Demand], free: Amount, settings: SharingSettings, *, others: int = 0
) -> list[Option]:
    """One option for each of the admitted jobs, in their order. ``free``: beside their minimums. ``others``: jobs that share
    the quota and are not changed."""
    if not demands:
        return []
    limited = [number for number, limit in enumerate(quota.limit.values) if limit]
    fair = 1.0 / (len(demands) + others)
    curves = [_curve(quota, limited, demand, fair, settings) for demand in demands]
    room = [free.values[number] for number in limited]
    fresh, stay = [0] * len(curves), [_present(curve, demand) for curve, demand in zip(curves, demands, strict=True)]
    rooms = [list(room), _left(curves, room, stay)]
    for chosen, left in zip((fresh, stay), rooms, strict=True):
        _fill(curves, chosen, left, settings.min_gain)
    is_possible = all(value >= -EPSILON for value in _left(curves, room, stay))
    best = stay if is_possible and _total(curves, stay) >= _total(curves, fresh) else fresh
    return [curve[index].option for curve, index in zip(curves, best, strict=True)]


def _curve(
    quota: Quota, limited: Sequence[int], demand: Demand, fair: float, settings: SharingSettings
) -> list[_Point]:
    """The minimum, then those larger ones that are also better."""
    sized = []
    for option in demand.options:
        amount = Amount.of(option.configuration)
        values = amount.values
        sized.append((quota.share(amount), tuple(values[number] for number in limited), option))
    least = next(entry for entry in sized if entry[2].configuration == demand.minimum)
    larger = [entry for entry in sized if entry[0] > least[0] + SMALL_SHARE or not limited]
    reference = max(entry[2].rate for entry in [least, *(e for e in larger if e[0] <= fair)])
    if reference <= 0:  # even at its fair share it does nothing that anybody knows of
        reference = max((entry[2].rate for entry in sized), default=0.0) or 1.0
    level = max(-MAX_WEIGHT_LEVELS, min(MAX_WEIGHT_LEVELS, demand.priority))
    weight = settings.priority_weight**level
    points: list[_Point] = []
    for share, takes, option in [least, *sorted(larger, key=lambda entry: (entry[0], -entry[2].rate, entry[1]))]:
        is_kept = demand.current is None or option.configuration == demand.current
        speedup = max(
            MIN_SPEEDUP, option.rate / reference * (1.0 if is_kept else _after_change(demand, option, settings))
        )
        if not points or speedup > points[-1].speedup:
            points.append(_Point(share, takes, speedup, -weight / speedup, option))
    return points


def _after_change(demand: Demand, option: Option, settings: SharingSettings) -> float:
    """What is left of a rate."""
    remaining = settings.default_remaining_s if demand.remaining_s is None else demand.remaining_s
    cost = demand.change_s if option.change_s is None else option.change_s
    lost = min(1.0, cost / remaining) if remaining > 0 else 1.0
    return max(0.0, 1.0 - lost) * (1.0 - settings.hysteresis)


def _present(curve: Sequence[_Point], demand: Demand) -> int:
    """What the job has now; if that is no point of its curve, the largest one that is not larger; else the minimum."""
    if demand.current is None:
        return 0
    for index, point in enumerate(curve):
        if point.option.configuration == demand.current:
            return index
    held = Amount.of(demand.current)
    smaller = [i for i, point in enumerate(curve) if Amount.of(point.option.configuration).fits(held)]
    return max(smaller, default=0)


def _left(curves: Sequence[Sequence[_Point]], room: Sequence[float], chosen: Sequence[int]) -> list[float]:
    left = list(room)
    for curve, index in zip(curves, chosen, strict=True):
        for number, (now, least) in enumerate(zip(curve[index].takes, curve[0].takes, strict=True)):
            left[number] -= now - least
    return left


def _total(curves: Sequence[Sequence[_Point]], chosen: Sequence[int]) -> float:
    return sum(curve[index].utility for curve, index in zip(curves, chosen, strict=True))


def _fill(curves: Sequence[Sequence[_Point]], chosen: list[int], left: list[float], min_gain: float) -> None:
    """Room only shrinks, so a step that no longer fits is replaced by one that brings less: the heap stays in order."""
    heap: list[tuple[float, int, int]] = []
    for job, curve in enumerate(curves):
        _push(heap, job, curve, chosen[job], left, min_gain)
    while heap:
        _, job, index = heapq.heappop(heap)
        curve, before = curves[job], curves[job][chosen[job]]
        after = curve[index]
        if _fits(before, after, left):
            for number, (old, new) in enumerate(zip(before.takes, after.takes, strict=True)):
                left[number] -= new - old
            chosen[job] = index
        _push(heap, job, curve, chosen[job], left, min_gain)


def _push(
    heap: list[tuple[float, int, int]], job: int, curve: Sequence[_Point], now: int, left: list[float], min_gain: float
) -> None:
    before, best, ratio = curve[now], -1, 0.0
    for index in range(now + 1, len(curve)):
        after = curve[index]
        if after.speedup < before.speedup * (1.0 + min_gain) or not _fits(before, after, left):
            continue
        found = (after.utility - before.utility) / max(after.share - before.share, SMALL_SHARE)
        if found > ratio:
            best, ratio = index, found
    if best >= 0:
        heapq.heappush(heap, (-ratio, job, best))


def _fits(before: _Point, after: _Point, left: Sequence[float]) -> bool:
    for old, new, room in zip(before.takes, after.takes, left, strict=True):
        if new > old and new - old > room + EPSILON:
            return False
    return True
