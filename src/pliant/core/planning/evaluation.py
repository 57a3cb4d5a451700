"""Judging an algorithm by jobs that were recorded, before it may touch one.

Each job is replayed (``replay.py``): at the end of every period the algorithm is asked. If it proposes a configuration that the
job came to have later, its prediction is *compared* with the rate that was measured then. A configuration that was *not tried* has
no truth; where it lies close to what was measured, a fit over all periods estimates its rate, which is given by itself and never
mixed with what was measured. One that was only *tried before* was known to the algorithm and proves nothing.

*Regret* is what a choice costs against the best configuration that was ever measured in the job, by the job's objective: 0.1 is a
tenth of the speed. No proposal is a choice, too: the present configuration.

A prediction is *inside* its interval as the judge of plans sees it, with the error of the measurement allowed for. Its *direction*
is right if the job became faster, slower or neither (less than 3 %), as predicted.

Pure: ``evaluate`` asks an algorithm in this process, and what it raises is raised. The Brain asks in processes of its executor
(``brain/evaluation.py``) with the same ``moments``, ``judged`` and ``summed_up``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from math import exp, log
from statistics import mean, median
from typing import Any

from pliant.core.decoding import plain
from pliant.core.planning.algorithms.judge import MIN_NOISE, NOISE
from pliant.core.planning.configuration import Configuration
from pliant.core.planning.fits import Fit, distance, fit_history
from pliant.core.planning.history import JobHistory, Period
from pliant.core.planning.objectives import is_alike, score
from pliant.core.planning.proposal import Algorithm, Prediction, Proposal
from pliant.core.planning.proposal_check import problem_of
from pliant.core.planning.replay import Moment, RecordedJob, moments

MAX_DISTANCE = 1.0  # doublings from what was measured: no estimate beyond


class Kind(StrEnum):
    COMPARED = "compared"
    NOT_TRIED = "not tried"
    TRIED_BEFORE = "tried before"  # and not later
    NO_PREDICTION = "no prediction"  # of the rate: nothing to compare
    SAME_SPEED = "same speed"  # memory, nodes, advice: the configuration is alike the present one


@dataclass(frozen=True, slots=True)
class Answer:
    """Of an algorithm at one moment."""

    proposal: Proposal | None = None
    failure: str = ""  # in a word, as "raised"; empty: none


@dataclass(frozen=True, slots=True)
class JudgedProposal:
    period: int  # at whose end it was made
    kind: Kind
    configuration: Configuration
    reason: str
    before: float  # records per second
    prediction: Prediction | None
    achieved: float | None = None  # measured later
    error: float | None = None  # relative
    is_inside: bool | None = None  # of its interval
    is_right_direction: bool | None = None
    estimated: float | None = None  # by a fit over all periods: nobody measured it
    estimated_error: float | None = None  # of the prediction, against that


@dataclass(frozen=True, slots=True)
class JobRow:
    job: str
    asked: int
    proposals: tuple[JudgedProposal, ...]
    failures: Mapping[str, int]
    regrets: tuple[float, ...]  # of choices that were measured, oldest first
    final_regret: float | None  # of the choice at the last moment; None: it was not measured

    @property
    def regret(self) -> float | None:
        return mean(self.regrets) if self.regrets else None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """None: nothing to say it by."""

    algorithm: str
    jobs: int
    asked: int
    proposals: int
    compared: int
    not_tried: int
    failures: Mapping[str, int]
    median_error: float | None  # relative, of what was compared
    p90_error: float | None
    coverage: float | None  # share inside the interval
    right_direction: float | None  # share
    estimated: int  # of those that were not tried
    median_estimated_error: float | None
    regret: float | None  # mean over jobs
    final_regret: float | None
    rows: tuple[JobRow, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = plain(self)
        for row, value in zip(self.rows, found["rows"], strict=True):
            value["regret"] = row.regret
        return found


def evaluate(algorithm: Algorithm, jobs: Iterable[RecordedJob]) -> Evaluation:
    rows = []
    for job in jobs:
        seen = list(moments(job))
        rows.append(judged(job, seen, [checked(algorithm(each.history, each.now), each.history) for each in seen]))
    return summed_up(algorithm.name, rows)


def checked(proposal: Proposal | None, history: JobHistory) -> Answer:
    """A proposal that makes no sense is a failure."""
    if proposal is not None and problem_of(proposal, history):
        return Answer(failure="unsound")
    return Answer(proposal)


def judged(job: RecordedJob, seen: Sequence[Moment], answers: Sequence[Answer]) -> JobRow:
    fit = cache(lambda: fit_history(job.history))
    rates = _measured_rates(job.history.periods)
    proposals, regrets = [], []
    for moment, answer in zip(seen, answers, strict=True):
        if answer.proposal is not None:
            proposals.append(_judged(job, moment, answer.proposal, fit))
        regrets.append(None if answer.failure else _regret(job.history, _choice(moment, answer.proposal), rates))
    failures = Counter(answer.failure for answer in answers if answer.failure)
    measured = tuple(regret for regret in regrets if regret is not None)
    return JobRow(job.name, len(seen), tuple(proposals), dict(failures), measured, regrets[-1] if regrets else None)


def summed_up(algorithm: str, rows: Sequence[JobRow]) -> Evaluation:
    made = [proposal for row in rows for proposal in row.proposals]
    compared = [proposal for proposal in made if proposal.kind is Kind.COMPARED]
    errors = [proposal.error for proposal in compared if proposal.error is not None]
    estimated = [proposal.estimated_error for proposal in made if proposal.estimated_error is not None]
    failures: Counter[str] = Counter()
    for row in rows:
        failures.update(row.failures)
    return Evaluation(
        algorithm,
        jobs=len(rows),
        asked=sum(row.asked for row in rows),
        proposals=len(made),
        compared=len(compared),
        not_tried=sum(proposal.kind is Kind.NOT_TRIED for proposal in made),
        failures=dict(failures),
        median_error=median(errors) if errors else None,
        p90_error=sorted(errors)[min(len(errors) - 1, int(0.9 * len(errors)))] if errors else None,
        coverage=_share([proposal.is_inside for proposal in compared]),
        right_direction=_share([proposal.is_right_direction for proposal in compared]),
        estimated=len(estimated),
        median_estimated_error=median(estimated) if estimated else None,
        regret=_mean([row.regret for row in rows]),
        final_regret=_mean([row.final_regret for row in rows]),
        rows=tuple(rows),
    )


def _judged(job: RecordedJob, moment: Moment, proposal: Proposal, fit: Callable[[], Fit | None]) -> JudgedProposal:
    new, prediction = proposal.configuration, proposal.prediction
    common = (new, proposal.reason, moment.rate, prediction)
    if proposal.advice or is_alike(new, moment.history.configuration):
        return JudgedProposal(moment.period, Kind.SAME_SPEED, *common)
    if prediction is None or not prediction.rate:
        return JudgedProposal(moment.period, Kind.NO_PREDICTION, *common)
    later = [each for each in job.history.periods[moment.period + 1 :] if is_alike(each.configuration, new)]
    if not later and any(is_alike(each.configuration, new) for each in moment.history.periods):
        return JudgedProposal(moment.period, Kind.TRIED_BEFORE, *common)
    if not later or later[0].rate <= 0:
        is_last = moment.period == len(job.history.periods) - 1  # then a fit knows no more than the algorithm did
        estimated = _estimate(job.history, new, fit) if not is_last else None
        error = abs(prediction.rate - estimated) / estimated if estimated else None
        return JudgedProposal(moment.period, Kind.NOT_TRIED, *common, estimated=estimated, estimated_error=error)
    achieved = later[0]
    slack = NOISE * achieved.error
    return JudgedProposal(
        moment.period,
        Kind.COMPARED,
        *common,
        achieved.rate,
        abs(prediction.rate - achieved.rate) / achieved.rate,
        prediction.low - slack <= achieved.rate <= prediction.high + slack,
        _is_right_direction(moment.rate, prediction.rate, achieved.rate),
    )


def _is_right_direction(before: float, predicted: float, achieved: float) -> bool:
    if before <= 0:
        return True
    ways = [_direction(log(rate / before)) for rate in (predicted, achieved)]
    return ways[0] == ways[1] or abs(log(predicted / achieved)) < MIN_NOISE


def _direction(gain: float) -> int:
    return 0 if abs(gain) < MIN_NOISE else 1 if gain > 0 else -1


def _estimate(history: JobHistory, new: Configuration, fit: Callable[[], Fit | None]) -> float | None:
    nearest = min(distance(period.configuration, new) for period in history.periods)
    found = fit() if nearest <= MAX_DISTANCE else None
    return found.predict(new).rate if found is not None else None


def _measured_rates(periods: Sequence[Period]) -> list[tuple[Configuration, float]]:
    """Of each configuration, over all of its periods by their length."""
    found: list[list[Period]] = []
    for period in periods:
        same = next((group for group in found if is_alike(group[0].configuration, period.configuration)), None)
        if same is None:
            found.append([period])
        else:
            same.append(period)
    return [(group[0].configuration, _mean_rate(group)) for group in found]


def _mean_rate(group: Sequence[Period]) -> float:
    seconds = [max(period.ended - period.began, 1e-9) for period in group]
    return sum(period.rate * each for period, each in zip(group, seconds, strict=True)) / sum(seconds)


def _choice(moment: Moment, proposal: Proposal | None) -> Configuration:
    return proposal.configuration if proposal is not None and not proposal.advice else moment.history.configuration


def _regret(history: JobHistory, chosen: Configuration, rates: Sequence[tuple[Configuration, float]]) -> float | None:
    """None: the choice was never measured."""
    rate = next((rate for configuration, rate in rates if is_alike(configuration, chosen)), None)
    if rate is None:
        return None
    best = max(score(history.objective, rate, configuration) for configuration, rate in rates)
    return 1.0 - exp(min(0.0, score(history.objective, rate, chosen) - best))


def _share(answers: Sequence[bool | None]) -> float | None:
    return _mean([float(answer) for answer in answers if answer is not None])


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known else None
