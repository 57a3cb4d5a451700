"""Find out what the model does not know: double what may be the bottleneck, and see; then look in between.

The fit is optimistic about what was never tried (``fits/``), so the best doubling by its expectation is the one to try. What is
tried is known from then on, so each is tried once, and it ends when the expected gain does not pay for its cost. Never more
than twice the largest that was tried. What is seen of nodes excludes doublings that cannot help: more workers while servers are
busy, more CPU for nodes that do not use what they have.

Where doubling ended, the best may lie between what was tried, or below: such configurations are tried by the upper half of
their interval (upper confidence bound), as long as what was tried there lies far apart; and so are doublings of which the model
expects little, since it may put the time down to the wrong part of a step. Half of the
fewest workers are a try if more of them hardly helped, or if they mostly wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from math import log, sqrt

from pliant.core.planning.candidates import fewest_workers, is_possible, role_bounds, useful_workers
from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.fits import Fit, fit_history
from pliant.core.planning.history import JobHistory, Objective, Period
from pliant.core.planning.objectives import (
    MIN_GAIN,
    SERVER,
    WORKER,
    change_s,
    current_period,
    difference,
    is_alike,
    remaining_s,
    score,
    shape_of,
    with_shape,
    worth_s,
)
from pliant.core.planning.proposal import Prediction, Proposal

MIN_SAMPLES = 6  # of the present period
MAX_ERROR = 0.1  # relative, of its rate
BUSY = 0.9  # share of the CPU limit
IDLE = 0.5
WAITING = 0.5  # share of a worker's time
CHANCE = 0.5  # that the optimism is right
TRY_S = 120.0  # until a try is judged and taken back
SUBLINEAR = 0.5  # percent more speed by a percent more workers: fewer might do
MIN_DISTANCE = 1.4  # times as many: nothing in between is looked for


@dataclass(frozen=True, slots=True)
class Try:
    configuration: Configuration
    gain: float  # of the score, hoped for
    prediction: Prediction


@dataclass(frozen=True, slots=True)
class Probe:
    name: str = "probe"
    seed: int = 0

    def __call__(self, history: JobHistory, now: float) -> Proposal | None:
        current = current_period(history)
        if current is None or current.samples < MIN_SAMPLES or current.error > MAX_ERROR * current.rate:
            return None
        if _meets_deadline(history, now, current):
            return None
        fit = fit_history(history, seed=self.seed)
        if fit is None:
            return None
        for best in _tries(history, now, current, fit):
            if best is not None and _is_worth_it(history, now, current, best):
                return self._proposal(history, now, current, best)
        return None

    def _proposal(self, history: JobHistory, now: float, current: Period, best: Try) -> Proposal:
        new = best.configuration
        predicted = replace(
            best.prediction,
            node_seconds=new.nodes * remaining_s(history, best.prediction.rate, now),
            change_s=change_s(history, new),
        )
        if new.cpu < history.configuration.cpu:
            hope = f"may be nearly as fast as now, or faster (up to {predicted.high:.4g} records per second)"
        else:
            hope = f"may be {best.prediction.rate / current.rate:.2g} times as fast"
        return Proposal(
            self.name,
            f"trying {difference(history.configuration, new)}: {hope}, which was never measured",
            new,
            predicted,
        )


def _tries(history: JobHistory, now: float, current: Period, fit: Fit) -> Iterator[Try | None]:
    """Wide steps first: what lies in between is known better after them."""
    hope = 0.5 if (_utilisation(history, SERVER) or 0.0) >= BUSY else 0.0  # servers are the bottleneck, it seems
    yield _best(history, now, current, fit, list(_doublings(history)), hope)
    yield _best(history, now, current, fit, list(_between(history)), 0.5)
    yield _best(history, now, current, fit, list(_doublings(history)), 0.5)
    yield _half(history, current)


def _best(
    history: JobHistory, now: float, current: Period, fit: Fit, candidates: list[Configuration], hope: float
) -> Try | None:
    """``hope``: how far towards the upper end of the interval a rate is expected, 0 to 1."""
    if not candidates:
        return None
    rates = fit.predict_all(candidates)
    before = score(history.objective, current.rate, history.configuration)
    found = []
    for i, new in enumerate(candidates):
        predicted = Prediction(float(rates.rate[i]), float(rates.low[i]), float(rates.high[i]))
        hoped = predicted.rate ** (1 - hope) * predicted.high**hope
        found.append(Try(new, score(history.objective, hoped, new) - before, predicted))
    best = max(found, key=lambda each: _worth_s(history, now, current, each))
    return replace(best, prediction=fit.predict(best.configuration))


def _is_worth_it(history: JobHistory, now: float, current: Period, best: Try) -> bool:
    new, left = best.configuration, remaining_s(history, current.rate, now)
    is_paid = history.budget_node_s is None or new.nodes * left <= history.budget_node_s  # even if it brings nothing
    return is_paid and best.gain >= MIN_GAIN and _worth_s(history, now, current, best) > 0


def _worth_s(history: JobHistory, now: float, current: Period, each: Try) -> float:
    """There and back again: half of such tries fail, and are as slow as feared until they are taken back."""
    new, left = each.configuration, CHANCE * remaining_s(history, current.rate, now)
    back = change_s(replace(history, configuration=new), history.configuration)
    slower = (1 - CHANCE) * TRY_S * max(0.0, 1.0 - each.prediction.low / current.rate)
    return worth_s(history, new, each.gain, left) - back - slower


def _meets_deadline(history: JobHistory, now: float, current: Period) -> bool:
    """Then there is nothing to find out: ``plan_job`` knows what is cheaper."""
    if history.deadline is None or history.objective is Objective.FASTEST or history.remaining_records is None:
        return False
    return history.remaining_records / max(current.rate, 1e-9) <= history.deadline - now


# --- doublings


def _doublings(history: JobHistory) -> Iterator[Configuration]:
    single = [step for step in _steps(history) if _may_help(history, *step)]
    for steps in (*combinations(single, 1), *combinations(single, 2)):
        new = history.configuration
        for role, what in steps:
            new = _doubled(history, new, role, what)
        if _is_new(history, new):
            yield new


def _steps(history: JobHistory) -> list[tuple[str, str]]:
    return [(role, what) for role in _roles(history) for what in ("replicas", "cpu")]


def _roles(history: JobHistory) -> list[str]:
    return [WORKER] if history.configuration.server is None else [WORKER, SERVER]


def _doubled(history: JobHistory, configuration: Configuration, role: str, what: str) -> Configuration:
    shape, bounds = shape_of(configuration, role), role_bounds(history, role)
    assert shape is not None
    if what == "replicas":
        limit = useful_workers(history, bounds) if role == WORKER else bounds.max_replicas
        more = min(2 * shape.replicas, limit) - shape.replicas
        found = with_shape(configuration, role, _with_count(history, role, shape, shape.replicas + more))
        while more > 1 and not is_possible(history, found):  # where twice as many do not fit, some of them may
            more //= 2
            found = with_shape(configuration, role, _with_count(history, role, shape, shape.replicas + more))
        return found
    is_bounded = bool(bounds.max_cpu or history.bounds.max_cpu or history.room is not None)
    cpu = 2 * shape.cpu if is_bounded else shape.cpu
    return with_shape(configuration, role, bounds.clip(replace(shape, cpu=cpu)))


def _with_count(history: JobHistory, role: str, shape: Shape, count: int) -> Shape:
    fewest = fewest_workers(history, count) if role == WORKER else count
    return role_bounds(history, role).clip(replace(shape, replicas=fewest))


def _may_help(history: JobHistory, role: str, what: str) -> bool:
    """What is seen of the nodes speaks against some doublings; if nothing is seen, nothing does."""
    if what == "cpu":
        used = _utilisation(history, role)
        return used is None or used >= IDLE
    if role == WORKER:
        servers = _utilisation(history, SERVER)
        return servers is None or servers < BUSY
    return True


def _utilisation(history: JobHistory, role: str) -> float | None:
    shares = [node.cpu / node.cpu_limit for node in history.nodes if node.role == role and node.cpu_limit and node.cpu]
    return sum(shares) / len(shares) if shares else None


# --- in between, and below


def _half(history: JobHistory, current: Period) -> Try | None:
    """Of workers that mostly wait, if nobody knows how fast fewer of them are."""
    worker = history.configuration.worker
    is_hopeful = current.parts.data + current.parts.peers >= WAITING or history.objective is Objective.CHEAPEST
    if not is_hopeful or min([worker.replicas, *_tried_counts(history, WORKER)]) < worker.replicas:
        return None
    half = _with_count(history, WORKER, worker, max(1, worker.replicas // 2))
    new = replace(history.configuration, worker=half)
    if not _is_new(history, new):
        return None
    gain = score(history.objective, current.rate, new) - score(history.objective, current.rate, history.configuration)
    return Try(new, gain, Prediction(0.9 * current.rate, 0.45 * current.rate, 1.1 * current.rate))


def _between(history: JobHistory) -> Iterator[Configuration]:
    for role in _roles(history):
        shape = shape_of(history.configuration, role)
        assert shape is not None
        ever = {other.replicas for p in history.periods if (other := shape_of(p.configuration, role)) is not None}
        above = min((count for count in ever if count > shape.replicas), default=0)
        below = max((count for count in ever if count < shape.replicas), default=0)
        counts = [round(sqrt(shape.replicas * other)) for other in (above, below) if _is_apart(shape.replicas, other)]
        counts += [other for other in (above, below) if other]  # it may have been tried with other cores only
        if role == WORKER and _is_sublinear(history):
            counts.append(min([shape.replicas, *_tried_counts(history, role)]) // 2)
        for count in counts:
            new = with_shape(history.configuration, role, _with_count(history, role, shape, max(1, count)))
            if _is_new(history, new):
                yield new


def _is_apart(count: int, other: int) -> bool:
    return other > 0 and max(count, other) >= MIN_DISTANCE * min(count, other)


def _tried_counts(history: JobHistory, role: str) -> set[int]:
    shapes = [shape_of(period.configuration, role) for period in _comparable(history, role)]
    return {shape.replicas for shape in shapes if shape is not None}


def _comparable(history: JobHistory, role: str) -> list[Period]:
    """Those that differ from the present configuration in nothing but the replicas of the role."""
    now = shape_of(history.configuration, role)
    found = []
    for period in history.periods:
        shape = shape_of(period.configuration, role)
        if shape is not None and now is not None:
            same = with_shape(period.configuration, role, replace(shape, replicas=now.replicas))
            if is_alike(same, history.configuration):
                found.append(period)
    return found


def _is_sublinear(history: JobHistory) -> bool:
    """The fewest two numbers of workers that were tried differ little in speed: fewer might do."""
    rates = {period.configuration.worker.replicas: period.rate for period in _comparable(history, WORKER)}
    if len(rates) < 2:
        return False
    (fewest, slow), (more, fast) = sorted(rates.items())[:2]
    return log(fast / slow) < SUBLINEAR * log(more / fewest)


def _is_new(history: JobHistory, new: Configuration) -> bool:
    if is_alike(new, history.configuration) or not is_possible(history, new):
        return False
    return not any(is_alike(period.configuration, new) for period in history.periods)
