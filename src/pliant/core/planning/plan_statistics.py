"""How well algorithms predicted, by what became of their plans.

An *error* is relative to what was achieved. A prediction is *inside* its interval as the judge of plans sees it, with the error of
the measurement allowed for. Plans that take back another one predict nothing and are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mean, median

from pliant.core.planning.algorithms.judge import NOISE
from pliant.core.planning.plan_record import Outcome, PlanRecord


@dataclass(frozen=True, slots=True)
class Comparison:
    """Of one plan: what was predicted against what was achieved."""

    error: float
    is_inside: bool


@dataclass(frozen=True, slots=True)
class AlgorithmStatistics:
    """None: nothing to say it by."""

    algorithm: str
    plans: int
    kept: int
    rolled_back: int
    compared: int
    median_error: float | None
    coverage: float | None  # share inside the interval


def comparison_of(record: PlanRecord) -> Comparison | None:
    """None: nothing was predicted, or nothing is achieved yet."""
    prediction, achieved = record.proposal.prediction, record.achieved_rate
    if prediction is None or not prediction.rate or not achieved:
        return None
    slack = NOISE * (record.achieved_error or 0.0)
    return Comparison(
        abs(prediction.rate - achieved) / achieved, prediction.low - slack <= achieved <= prediction.high + slack
    )


def statistics_of(records: Iterable[PlanRecord]) -> tuple[AlgorithmStatistics, ...]:
    """By algorithm, the one with the most plans first."""
    found: dict[str, list[PlanRecord]] = {}
    for record in records:
        if not record.rolls_back:
            found.setdefault(record.proposal.algorithm, []).append(record)
    summed = [_of_one(algorithm, plans) for algorithm, plans in found.items()]
    return tuple(sorted(summed, key=lambda each: (-each.plans, each.algorithm)))


def _of_one(algorithm: str, plans: list[PlanRecord]) -> AlgorithmStatistics:
    compared = [each for plan in plans if (each := comparison_of(plan)) is not None]
    return AlgorithmStatistics(
        algorithm,
        len(plans),
        sum(plan.outcome is Outcome.KEPT for plan in plans),
        sum(plan.outcome is Outcome.ROLLED_BACK for plan in plans),
        len(compared),
        median(each.error for each in compared) if compared else None,
        mean(float(each.is_inside) for each in compared) if compared else None,
    )
