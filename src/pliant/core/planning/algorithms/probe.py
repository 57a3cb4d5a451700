"""Find out what the model does not know: double what may be the bottleneck, and see.

The fit is optimistic about what was never tried (``fits/``), so the best doubling by its expectation is the one to try; what is
tried is known from then on, so each doubling is tried once and it ends when the expected gain does not pay for its cost. Never
more than twice the largest that was tried. What is seen of nodes excludes doublings that cannot help: more workers while
servers are busy, more CPU for nodes that do not use what they have. Workers that mostly wait are worth trying with half of
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from pliant.core.planning.candidates import is_possible, role_bounds, useful_workers
from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.fits import fit_history
from pliant.core.planning.history import JobHistory, Objective, Period
from pliant.core.planning.objectives import (
    SERVER,
    WORKER,
    change_s,
    current_period,
    difference,
    is_alike,
    pays,
    remaining_s,
    score,
    shape_of,
    with_shape,
)
from pliant.core.planning.proposal import Prediction, Proposal

MIN_SAMPLES = 6  # of the present period
MAX_ERROR = 0.1  # relative, of its rate
BUSY = 0.9  # share of the CPU limit
IDLE = 0.5
WAITING = 0.5  # share of a worker's time
CHANCE = 0.5  # that the optimism is right


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
        before = score(history.objective, current.rate, history.configuration)
        found = list(self._doublings(history))
        if found:
            rates = fit.predict_all(found).rate
            gains = [score(history.objective, float(r), new) - before for r, new in zip(rates, found, strict=True)]
            gain, new = max(zip(gains, found, strict=True), key=lambda pair: pair[0])
            if self._is_worth_it(history, now, current, gain, new) and _is_paid(history, now, new, current):
                return self._proposal(history, now, current, new, fit.predict(new))
        return self._halving(history, now, current)

    def _is_worth_it(self, history: JobHistory, now: float, current: Period, gain: float, new: Configuration) -> bool:
        """There and back again: half of such tries fail."""
        both_ways = change_s(history, new) + change_s(replace(history, configuration=new), history.configuration)
        return pays(gain, CHANCE * remaining_s(history, current.rate, now), both_ways)

    def _proposal(
        self, history: JobHistory, now: float, current: Period, new: Configuration, found: Prediction
    ) -> Proposal:
        predicted = replace(
            found,
            node_seconds=new.nodes * remaining_s(history, found.rate, now),
            change_s=change_s(history, new),
        )
        times = found.rate / current.rate
        reason = f"trying {difference(history.configuration, new)}: may be {times:.2g} times as fast, which was never measured"
        return Proposal(self.name, reason, new, predicted)

    def _doublings(self, history: JobHistory) -> Iterator[Configuration]:
        now = history.configuration
        single = [step for step in _steps(history) if _may_help(history, *step)]
        for steps in (*combinations(single, 1), *combinations(single, 2)):
            new = now
            for role, what in steps:
                new = _doubled(history, new, role, what)
            if not is_alike(new, now) and is_possible(history, new) and not _was_tried(history, new):
                yield new

    def _halving(self, history: JobHistory, now: float, current: Period) -> Proposal | None:
        waiting = current.parts.data + current.parts.peers
        if waiting < WAITING and history.objective is not Objective.CHEAPEST:
            return None
        worker = history.configuration.worker
        half = role_bounds(history, WORKER).clip(replace(worker, replicas=worker.replicas // 2))
        new = replace(history.configuration, worker=half)
        if half.replicas >= worker.replicas or _was_smaller(history, new) or not is_possible(history, new):
            return None
        gain = score(history.objective, current.rate, new) - score(
            history.objective, current.rate, history.configuration
        )
        if not self._is_worth_it(history, now, current, gain, new):
            return None
        predicted = Prediction(
            current.rate * 0.9, current.rate * 0.45, current.rate * 1.1, change_s=change_s(history, new)
        )
        why = f"workers wait {waiting:.0%} of their time" if waiting >= WAITING else "fewer may be cheaper"
        return Proposal(self.name, f"trying {difference(history.configuration, new)}: {why}", new, predicted)


def _meets_deadline(history: JobHistory, now: float, current: Period) -> bool:
    """Then there is nothing to find out: ``plan_job`` knows what is cheaper."""
    if history.deadline is None or history.objective is Objective.FASTEST or history.remaining_records is None:
        return False
    return history.remaining_records / max(current.rate, 1e-9) <= history.deadline - now


def _is_paid(history: JobHistory, now: float, new: Configuration, current: Period) -> bool:
    """Also if the try brings nothing."""
    left = remaining_s(history, current.rate, now)
    return history.budget_node_s is None or new.nodes * left <= history.budget_node_s


def _steps(history: JobHistory) -> list[tuple[str, str]]:
    roles = [WORKER] if history.configuration.server is None else [WORKER, SERVER]
    return [(role, what) for role in roles for what in ("replicas", "cpu")]


def _doubled(history: JobHistory, configuration: Configuration, role: str, what: str) -> Configuration:
    shape, bounds = shape_of(configuration, role), role_bounds(history, role)
    assert shape is not None
    if what == "replicas":
        limit = useful_workers(history, bounds) if role == WORKER else bounds.max_replicas
        largest = max(shape_.replicas for shape_ in _tried(history, role))
        return with_shape(
            configuration, role, bounds.clip(replace(shape, replicas=min(2 * shape.replicas, 2 * largest, limit)))
        )
    is_bounded = bool(bounds.max_cpu or history.bounds.max_cpu or history.room is not None)
    cpu = 2 * shape.cpu if is_bounded else shape.cpu
    return with_shape(configuration, role, bounds.clip(replace(shape, cpu=cpu)))


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


def _tried(history: JobHistory, role: str) -> list[Shape]:
    shapes = [shape_of(period.configuration, role) for period in history.periods]
    return [shape for shape in (*shapes, shape_of(history.configuration, role)) if shape is not None]


def _was_tried(history: JobHistory, new: Configuration) -> bool:
    return any(is_alike(period.configuration, new) for period in history.periods)


def _was_smaller(history: JobHistory, new: Configuration) -> bool:
    """So many workers or fewer were tried."""
    return any(period.configuration.worker.replicas <= new.worker.replicas for period in history.periods)
