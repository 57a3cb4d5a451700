"""A fitted model of a job's speed, and what it predicts: a rate with an interval that holds in 90 of 100 cases.

A model is never quite true. So what it misses where the job has been is added back there and nearby (the residuals, smoothed over
the logarithms of replicas and cores), and the interval is as narrow there as what was measured: a configuration that was tried is
predicted as it was, whatever the model says of it. Away from that, the interval is that of the draws (``smooth_max.py``), and
grows with the distance.

Two parts of the time are measured by themselves, where somebody measures them: what workers compute, and how long the busiest
server works. Each is a datum of its own, of one term or of the shared terms alone, so one configuration already says what
other cores, workers or servers would bring; rates alone need several.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray

from pliant.core.planning.configuration import Configuration
from pliant.core.planning.fits.model import COMPUTE, SpeedModel
from pliant.core.planning.fits.smooth_max import Array, Problem, Solution, solve, times_of, weights_of
from pliant.core.planning.proposal import Prediction

_QUANTILE = 1.645  # of the normal distribution: 90 of 100 cases lie within
_NEAR = 0.12  # doublings: how far what was measured holds for its neighbours
_RESIDUAL = 0.1  # what a model is expected to miss, relative
_DISTRUST = 0.06  # relative error of a model for each doubling away from what was measured
_UNSEEN = (
    0.1  # relative, for each doubling away from what was measured: what no model knows, of new nodes and places ...
)
_MAX_UNSEEN = 2.0  # ... up to so many
MIN_ERROR = 0.02  # relative: no measured rate is known better
_PART_ERROR = 0.1  # relative, of a part of the time: what it is made of is a matter of definition, and ...
_SHARE_ERROR = 0.03  # ... of the whole time, what is lost on its borders


@dataclass(frozen=True, slots=True)
class Datum:
    configuration: Configuration
    rate: float
    error: float  # relative
    compute: float = 0.0  # share of the workers' time; 0: unknown
    shared: float = 0.0  # share of the time in which what all share (the busiest server) is busy; 0: unknown
    distrust: float = 0.0  # relative: what a model may miss there, in favour of where it matters


@dataclass(frozen=True, slots=True)
class Rates:
    """Of many configurations: arrays of one length."""

    rate: Array
    low: Array
    high: Array


class Fit:
    """Of one job's data; made by ``fit_rates``. Never changes."""

    def __init__(self, model: SpeedModel, data: Sequence[Datum], solution: Solution, wander: float = 0.0) -> None:
        self.model = model
        self.data = tuple(data)
        self._solution = solution
        self._wander = wander
        self._is_shared = np.array([term.is_shared for term in model.terms])
        self._places = _places([datum.configuration for datum in data])
        self._errors = np.array([datum.error for datum in data])
        self._misses = np.log([datum.rate for datum in data]) - np.log(self._modelled([d.configuration for d in data]))

    @property
    def misfit(self) -> float:
        """What the model misses at the data, relative, before it is corrected by them."""
        return self._solution.misfit

    def coefficients(self) -> Mapping[str, float]:
        return {term.name: float(c) for term, c in zip(self.model.terms, self._solution.coefficients, strict=True)}

    @property
    def overlap(self) -> float:
        return self._solution.overlap

    def predict(self, configuration: Configuration) -> Prediction:
        """What is claimed of it: wider than the bounds that decisions are made by. A rate differs from time to time, both when it
        was measured and when it will be, and new nodes, hosts and partitions are not alike. That may go either way."""
        rates = self.predict_all([configuration])
        rate, low, high = (float(each[0]) for each in (rates.rate, rates.low, rates.high))
        nearest = min(float(np.min(np.linalg.norm(self._places - _places([configuration]), axis=1))), _MAX_UNSEEN)
        more = 2 * (_QUANTILE * self._wander) ** 2 + (_QUANTILE * _UNSEEN * nearest) ** 2
        below, above = (sqrt(log(ends) ** 2 + more) for ends in (rate / max(low, 1e-12), max(high, 1e-12) / rate))
        return Prediction(rate, rate * exp(-below), rate * exp(above))

    def predict_all(self, configurations: Sequence[Configuration]) -> Rates:
        features, work = self._tables(configurations)
        solution = self._solution
        modelled = work / self._times(features, solution.coefficients[None, :], np.array([solution.overlap]))[0]
        drawn = work / self._times(features, solution.drawn, solution.drawn_overlaps)
        below, above = np.quantile(np.log(drawn), [0.05, 0.95], axis=0)
        centre = np.log(modelled)
        wide = np.stack([np.maximum(0.0, centre - below), np.maximum(0.0, above - centre)])

        distances = np.sqrt(np.sum((_places(configurations)[:, None, :] - self._places[None, :, :]) ** 2, axis=2))
        near = np.exp(-0.5 * (distances / _NEAR) ** 2)  # (configurations, data)
        trust = near / self._errors**2
        correction = trust @ self._misses / (np.sum(trust, axis=1) + 1.0 / _RESIDUAL**2)
        known = np.max(near, axis=1)
        measured = 1.0 / np.sqrt(np.maximum(np.sum(near * (near > 0.5) / self._errors**2, axis=1), 1e-12))
        measured = np.maximum(np.minimum(measured, np.max(self._errors)), MIN_ERROR)
        distrust = np.minimum(_DISTRUST * np.min(distances, axis=1), 3 * _DISTRUST)
        spread = np.sqrt(
            ((1 - known) * wide) ** 2
            + (_QUANTILE * known * measured * solution.inflation) ** 2
            + (_QUANTILE * (1 - known) * distrust) ** 2
        )
        centre = centre + correction
        low = np.exp(centre - spread[0])
        return Rates(
            np.exp(centre), np.minimum(low, self._without_more_cores(configurations, low)), np.exp(centre + spread[1])
        )

    def _without_more_cores(self, configurations: Sequence[Configuration], low: Array) -> Array:
        """The lower bound, if a worker's cores beyond what was tried bring nothing: nobody knows how many it can use."""
        most = max(datum.configuration.worker.cpu for datum in self.data)
        beyond = [i for i, configuration in enumerate(configurations) if configuration.worker.cpu > most > 0]
        found = low.copy()
        if beyond:
            clipped = [replace(c, worker=replace(c.worker, cpu=most)) for c in (configurations[i] for i in beyond)]
            found[beyond] = self.predict_all(clipped).low
        return found

    def shares(self, configuration: Configuration) -> Mapping[str, float]:
        """Where the time of a step goes; they add up to 1."""
        features, _ = self._tables([configuration])
        coefficients, overlap = self._solution.coefficients[None, :], np.array([self._solution.overlap])
        weights = weights_of(features, self._is_shared, coefficients, overlap)[0, 0]
        parts = weights * features[0] * self._solution.coefficients
        whole = float(np.sum(parts)) or 1.0
        return {term.name: float(part) / whole for term, part in zip(self.model.terms, parts, strict=True)}

    def identified(self, configuration: Configuration) -> Mapping[str, float]:
        """By term: 1 if its part of the time there is known, 0 if it may be anything."""
        features, _ = self._tables([configuration])
        whole = self._times(features, self._solution.coefficients[None, :], np.array([self._solution.overlap]))[0, 0]
        low, high = np.quantile(self._solution.drawn * features[0], [0.05, 0.95], axis=0)
        known = 1.0 - np.minimum(1.0, (high - low) / whole)
        return {term.name: float(value) for term, value in zip(self.model.terms, known, strict=True)}

    def _modelled(self, configurations: Sequence[Configuration]) -> Array:
        features, work = self._tables(configurations)
        solution = self._solution
        found: Array = work / self._times(features, solution.coefficients[None, :], np.array([solution.overlap]))[0]
        return found

    def _times(self, features: Array, coefficients: Array, overlaps: Array) -> Array:
        floor: Array = np.maximum(times_of(features, self._is_shared, coefficients, overlaps), 1e-12)
        return floor

    def _tables(self, configurations: Sequence[Configuration]) -> tuple[Array, Array]:
        features = np.array([self.model.features(configuration) for configuration in configurations])
        return features, np.array([self.model.work(configuration) for configuration in configurations])


def fit_rates(model: SpeedModel, data: Sequence[Datum], *, wander: float = 0.0, seed: int = 0) -> Fit | None:
    """``wander``: relative, by which the rate of one configuration differs from time to time. None: there is nothing to fit."""
    return _fit_rates(model, tuple(data), wander, seed)


@lru_cache(maxsize=8)  # several algorithms look at the same periods
def _fit_rates(model: SpeedModel, data: tuple[Datum, ...], wander: float, seed: int) -> Fit | None:
    usable = [replace(datum, error=max(datum.error, MIN_ERROR)) for datum in data if _is_usable(model, datum)]
    if not usable:
        return None
    features = np.array([model.features(datum.configuration) for datum in usable])
    times = np.array([model.work(datum.configuration) / datum.rate for datum in usable])
    errors = np.array([(datum.error**2 + datum.distrust**2) ** 0.5 for datum in usable])
    distrusts = np.array([datum.distrust for datum in usable])
    is_shared = np.array([term.is_shared for term in model.terms])
    parts = list(_parts(model, usable, features, times, is_shared, distrusts))
    problem = Problem(
        features=np.concatenate([features, *(part[0] for part in parts)]),
        is_shared=is_shared,
        times=np.concatenate([times, *(part[1] for part in parts)]),
        errors=np.concatenate([errors, *(part[2] for part in parts)]),
        reference=np.ones(len(model.terms)),
        penalties=np.array([term.penalty for term in model.terms]),
        overlap_penalty=model.overlap_penalty,
    )
    return Fit(model, usable, solve(problem, seed=seed), wander)


def _parts(
    model: SpeedModel,
    data: Sequence[Datum],
    features: Array,
    times: Array,
    is_shared: NDArray[np.bool_],
    distrusts: Array,
) -> Iterator[tuple[Array, Array, Array]]:
    """What is known of parts of the time: features in which the other terms are missing, times and errors."""
    is_compute = np.array([term.name == COMPUTE for term in model.terms])
    for terms, shares in (
        (is_compute, np.array([datum.compute for datum in data])),
        (is_shared, np.array([datum.shared for datum in data])),
    ):
        known = (shares > 0) & (np.sum(features * terms, axis=1) > 0)
        share = shares[known]
        errors = np.sqrt(_PART_ERROR**2 + (_SHARE_ERROR / share) ** 2 + distrusts[known] ** 2)
        yield features[known] * terms, times[known] * share, errors


def _is_usable(model: SpeedModel, datum: Datum) -> bool:
    return datum.rate > 0 and datum.configuration.worker.replicas > 0 and model.work(datum.configuration) > 0


def _places(configurations: Sequence[Configuration]) -> Array:
    """Where configurations lie: doublings of replicas, cores and micro-batch."""
    rows = []
    for configuration in configurations:
        server = configuration.server
        rows.append(
            [
                configuration.worker.replicas,
                configuration.worker.cpu or 1.0,
                server.replicas if server is not None else 1.0,
                (server.cpu or 1.0) if server is not None else 1.0,
                configuration.micro_batch or 1.0,
            ]
        )
    found: Array = np.log2(np.maximum(np.array(rows, dtype=np.float64), 1e-3))
    return found


def distance(one: Configuration, other: Configuration) -> float:
    """In doublings."""
    places = _places([one, other])
    return float(np.sqrt(np.sum((places[0] - places[1]) ** 2)))
