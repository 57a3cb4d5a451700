"""Least squares for times that are made of two overlapping parts, with coefficients that are never negative.

All models of speed here have one form. The time of a step is a worker's *own* part and a *shared* one (servers, network, peers),
each a sum of known features with unknown non-negative coefficients, and the two overlap more or less:

    T = (own^g + shared^g)^(1/g),   own = sum of c_k f_k,   shared = sum of d_k h_k

With g = 1 nothing overlaps: plain non-negative least squares. A large g is the larger of both: a hard knee. Since T is
homogeneous of degree one, T = (own/T)^(g-1) own + (shared/T)^(g-1) shared, which is also its linearisation: a Gauss-Newton step is
a non-negative least-squares problem with reweighted features.

Such a problem has few unknowns (at most 7), so it is solved exactly, for all draws at once: a few batched solves instead of
hundreds of small ones.

The *draws* are what is uncertain: each repeats the fit with errors added to the data and a random prior (randomised maximum a
posteriori, a parametric bootstrap that also covers what the data say nothing about). Invariants: coefficients are >= 0; the same
input and seed give the same result; what no datum speaks about stays at its prior, 0 for the estimate (optimistic, as in Pollux)
and anything up to about twice the whole time in the draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

OVERLAPS = (1.0, 1.5, 2.5, 5.0, 12.0)  # values of g that are tried
DRAWS = 48
_PRIOR = 3.0  # standard deviation of a term, in units of the whole time: hardly any prior for the estimate
_DRAW_PRIOR = 1.0
_STEPS = 8  # of Gauss-Newton, for the estimate
_DRAW_STEPS = 4
_EXCHANGES = 8  # of which most problems need two or three


@dataclass(frozen=True, slots=True)
class Problem:
    features: Array  # (data, terms)
    is_shared: NDArray[np.bool_]  # (terms,)
    times: Array  # (data,)
    errors: Array  # (data,), relative
    reference: Array  # (terms,): features of a typical configuration, for terms that no datum has
    penalties: Array  # (terms,): of chi square for a term that is the whole time; decides where the data do not
    overlap_penalty: float = (
        0.02  # of chi square, for each step to a larger overlap: the simplest, if nothing speaks for another
    )


@dataclass(frozen=True, slots=True)
class Solution:
    coefficients: Array  # (terms,)
    overlap: float
    drawn: Array  # (draws, terms)
    drawn_overlaps: Array  # (draws,)
    misfit: float  # relative, root mean square
    inflation: float  # by which errors are larger than the data claim


def nnls(gram: Array, target: Array) -> Array:
    """Minimise x'Gx - 2 t'x over x >= 0, for a stack of problems: (..., k, k) and (..., k). G is positive definite.

    By exchanging all that violate the conditions of optimality at once (block principal pivoting), which nearly always takes a
    few solutions; it could go round in circles, so what is left after that is solved by trying every set."""
    count = gram.shape[-1]
    flat_gram, flat_target = gram.reshape(-1, count, count), target.reshape(-1, count)
    found = np.zeros_like(flat_target)
    left = np.arange(len(flat_target))
    positive = np.ones(flat_target.shape, dtype=bool)
    for _ in range(_EXCHANGES):
        there, goal = flat_gram[left], flat_target[left]
        reduced = np.where(positive[:, :, None] & positive[:, None, :], there, np.eye(count))
        trial = np.linalg.solve(reduced, np.where(positive, goal, 0.0)[..., None])[..., 0]
        slope = (there @ trial[..., None])[..., 0] - goal
        wrong = np.where(positive, trial < -1e-12, slope < -1e-12)
        is_done = ~np.any(wrong, axis=1)
        found[left[is_done]] = trial[is_done]
        left, positive = left[~is_done], (positive ^ wrong)[~is_done]
        if not len(left):
            break
    if len(left):
        found[left] = _best_subset(flat_gram[left], flat_target[left])
    clipped: Array = np.maximum(found, 0.0).reshape(target.shape)
    return clipped


def _best_subset(gram: Array, target: Array) -> Array:
    subsets, both, unit = _subsets(gram.shape[-1])
    reduced = np.where(both, gram[..., None, :, :], unit)
    right = np.where(subsets, target[..., None, :], 0.0)
    found = np.linalg.solve(reduced, right[..., None])[..., 0]  # (..., 2^k, k)
    value = -np.sum(found * right, axis=-1)  # of the objective, at the solution of each subset
    value = np.where(np.all(found >= -1e-12, axis=-1), value, np.inf)
    best = np.argmin(value, axis=-1)
    chosen: Array = np.take_along_axis(found, best[..., None, None], axis=-2)[..., 0, :]
    return chosen


@cache
def _subsets(count: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Array]:
    """All sets of terms (2^k, k), the pairs of terms that are in each, and the identity."""
    subsets = np.array(list(product((False, True), repeat=count)))
    return subsets, subsets[:, :, None] & subsets[:, None, :], np.eye(count)


def times_of(features: Array, is_shared: NDArray[np.bool_], coefficients: Array, overlaps: Array) -> Array:
    """(draws, data) of coefficients (draws, terms), overlaps (draws,) and features (data, terms)."""
    own = coefficients[:, ~is_shared] @ features[:, ~is_shared].T
    shared = coefficients[:, is_shared] @ features[:, is_shared].T
    return _smooth_max(own, shared, overlaps[:, None])


def _smooth_max(own: Array, shared: Array, overlap: Array) -> Array:
    larger, smaller = np.maximum(own, shared), np.minimum(own, shared)
    ratio = np.divide(smaller, larger, out=np.zeros_like(larger), where=larger > 0)
    result: Array = larger * (1.0 + ratio**overlap) ** (1.0 / overlap)
    return result


def weights_of(features: Array, is_shared: NDArray[np.bool_], coefficients: Array, overlaps: Array) -> Array:
    """(draws, data, terms): by how much the time grows with each term's product of feature and coefficient."""
    own = coefficients[:, ~is_shared] @ features[:, ~is_shared].T
    shared = coefficients[:, is_shared] @ features[:, is_shared].T
    power = overlaps[:, None] - 1.0
    whole = np.maximum(_smooth_max(own, shared, overlaps[:, None]), 1e-300)
    own_weight = np.where(power > 0, (own / whole) ** power, 1.0)
    shared_weight = np.where(power > 0, (shared / whole) ** power, 1.0)
    result: Array = np.where(is_shared, shared_weight[:, :, None], own_weight[:, :, None])
    return result


class _Fitter:
    """One problem, with columns and rows scaled so that all numbers are about one."""

    def __init__(self, problem: Problem) -> None:
        self.is_shared = problem.is_shared
        self.typical = float(np.exp(np.mean(np.log(problem.times))))
        extent = np.maximum(np.max(problem.features, axis=0), problem.reference)
        self.scale = self.typical / np.where(extent > 0, extent, 1.0)  # of a coefficient whose term is the whole time
        self.features = problem.features * self.scale / self.typical
        self.times = problem.times / self.typical
        self.sigma = problem.errors * self.times
        self.penalties = problem.penalties

    def descend(
        self, start: Array, overlaps: Array, times: Array, sigma: Array, prior: Array | None, steps: int
    ) -> tuple[Array, Array]:
        """From (draws, terms) downhill: the best coefficients that were met, and chi square with the prior's part.

        ``prior``: of draws, (draws, terms); None: the estimate, which is optimistic by its penalties."""
        loose = _PRIOR if prior is None else _DRAW_PRIOR
        penalties = self.penalties if prior is None else np.zeros_like(self.penalties)
        expected = prior if prior is not None else np.zeros_like(start)
        current = best = start
        lowest = np.full(len(start), np.inf)
        for step in range(steps + 1):
            modelled = times_of(self.features, self.is_shared, current, overlaps)
            misses = (modelled - times) / sigma
            value = (
                np.sum(misses**2, axis=1) + np.sum(((current - expected) / loose) ** 2, axis=1) + current @ penalties
            )
            better = value < lowest
            best = np.where(better[:, None], current, best)
            lowest = np.where(better, value, lowest)
            if step == steps:
                break
            slopes = weights_of(self.features, self.is_shared, current, overlaps) * self.features
            rows = slopes / sigma[..., None]
            gram = np.swapaxes(rows, 1, 2) @ rows + np.eye(self.features.shape[1]) / loose**2
            target = np.einsum("dnk,dn->dk", rows, times / sigma) + expected / loose**2 - penalties / 2
            # Later steps are shorter: with a large overlap, the weights would jump to and fro.
            share = 1.0 if step < 2 else 0.6
            current = (1 - share) * current + share * nnls(gram, target)
        return best, lowest

    def estimate(self) -> tuple[Array, Array]:
        """Coefficients (overlaps, terms) and chi square of each overlap, all at once, from two starts."""
        count = len(OVERLAPS)
        overlaps, none = np.array(OVERLAPS), np.zeros((1, self.features.shape[1]))
        times, sigma = self.times[None, :], self.sigma[None, :]
        flat, _ = self.descend(none, np.ones(1), times, sigma, None, 1)
        halves = np.where(self.is_shared, 0.5 / max(1, self.is_shared.sum()), 0.5 / max(1, (~self.is_shared).sum()))
        found, values = [], []
        for start in (np.maximum(flat[0], 0.02), halves):
            best, value = self.descend(np.tile(start, (count, 1)), overlaps, times, sigma, None, _STEPS)
            found.append(best)
            values.append(value)
        first = values[0] <= values[1]
        return np.where(first[:, None], found[0], found[1]), np.where(first, values[0], values[1])


def solve(problem: Problem, *, seed: int = 0) -> Solution:
    fitter = _Fitter(problem)
    count, terms = problem.features.shape
    found, chi = fitter.estimate()
    chi = chi + problem.overlap_penalty * np.arange(len(OVERLAPS))
    chosen = int(np.argmin(chi))
    point, overlap = found[chosen], OVERLAPS[chosen]
    modelled = times_of(fitter.features, fitter.is_shared, point[None, :], np.array([overlap]))[0]
    misses = (modelled - fitter.times) / fitter.sigma
    free = count - int(np.sum(point > 1e-6)) - (overlap > 1.0)
    inflation = float(np.sqrt(max(1.0, np.sum(misses**2) / max(1, free)))) if count > 1 else 1.0

    rng = np.random.default_rng(seed)
    likely = np.exp(-0.5 * (chi - chi.min()) / inflation**2)
    cumulative = np.cumsum(likely) / np.sum(likely)
    which = np.minimum(np.searchsorted(cumulative, (np.arange(DRAWS) + 0.5) / DRAWS), len(OVERLAPS) - 1)
    overlaps = np.array(OVERLAPS)[rng.permutation(which)]
    sigma = fitter.sigma * inflation
    times = np.maximum(fitter.times + sigma * rng.standard_normal((DRAWS, count)), 0.05 * fitter.times)
    prior = _DRAW_PRIOR * np.abs(rng.standard_normal((DRAWS, terms)))
    start = np.maximum(found[np.searchsorted(np.array(OVERLAPS), overlaps)], 0.02)
    drawn, _ = fitter.descend(start, overlaps, times, np.tile(sigma, (DRAWS, 1)), prior, _DRAW_STEPS)
    misfit = float(np.sqrt(np.mean((modelled / fitter.times - 1.0) ** 2)))
    return Solution(point * fitter.scale, overlap, drawn * fitter.scale, overlaps, misfit, inflation)
