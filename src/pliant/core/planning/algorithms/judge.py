"""Predicted against achieved: keep a plan, roll it back, and trust its algorithm less or more.

A plan is rolled back if what it achieved is worse than what was before, by the objective and beyond the noise of both
measurements; what costs more must have brought something, noise or not. An algorithm's error is by how much the achieved rate lies
outside the interval it claimed: being unsure is no error, being wrong is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

from pliant.core.planning.configuration import Configuration
from pliant.core.planning.history import Objective
from pliant.core.planning.objectives import difference, score
from pliant.core.planning.proposal import Prediction, Proposal

NOISE = 1.645  # standard errors
MIN_NOISE = 0.03  # of the score: less is no difference


@dataclass(frozen=True, slots=True)
class Measured:
    configuration: Configuration
    rate: float
    error: float  # standard error


@dataclass(frozen=True, slots=True)
class Judgement:
    is_kept: bool
    gain: float  # of the score; negative: worse than before
    error: float  # relative, outside the interval; 0 without a prediction
    reason: str  # for people


@dataclass(frozen=True, slots=True)
class Judge:
    name: str = "judge"

    def judge(
        self, objective: Objective, before: Measured, after: Measured, prediction: Prediction | None
    ) -> Judgement:
        gain = score(objective, after.rate, after.configuration) - score(objective, before.rate, before.configuration)
        if prediction is None or not prediction.rate:  # it was not about cost: only the speed must not suffer
            gain = log(max(after.rate, 1e-9) / max(before.rate, 1e-9))
        relative = [m.error / m.rate if m.rate > 0 else 0.0 for m in (before, after)]
        noise = max(MIN_NOISE, NOISE * sqrt(relative[0] ** 2 + relative[1] ** 2))
        outside = 0.0
        if prediction is not None and prediction.rate:
            slack = NOISE * after.error
            miss = max(0.0, prediction.low - after.rate - slack, after.rate - slack - prediction.high)
            outside = miss / prediction.rate
        costs_more = (
            prediction is not None and prediction.rate > 0 and after.configuration.cpu > before.configuration.cpu
        )
        is_kept = gain >= (0.0 if costs_more else -noise)
        expected = f", predicted {prediction.rate:.4g}" if prediction is not None and prediction.rate else ""
        speed = f"{after.rate:.4g} records per second{expected}, {before.rate:.4g} before"
        how = "better" if gain > noise else "no worse than the noise" if is_kept else "worse than before"
        how = "not worth what it costs" if costs_more and -noise <= gain < 0 else how
        return Judgement(is_kept, gain, outside, f"{how}: {speed}")

    def rollback(self, present: Configuration, before: Configuration, reason: str) -> Proposal:
        return Proposal(self.name, f"back to {difference(present, before)}: {reason}", before)
