"""The best that could be done by somebody who knows the truth, found by trying everything.

Of one job: all configurations within its bounds, each with its true rate. Of a cluster: an integer program gives every job one
of its best configurations, so that the sum of remaining times is the least and the cores suffice. ``policies/oracle.py`` acts by
both.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.optimize import Bounds as VariableBounds
from scipy.optimize import LinearConstraint, milp

from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.history import Objective
from pliant.core.planning.objectives import score
from pliant.sim.truth.base import Memory, Truth

MEMORY_MARGIN = 1.1
MAX_OPTIONS = 12  # of one job in the integer program
EQUAL = 0.01  # times that differ by less are equal: the cheaper one is enough
SOLVE_S = 5.0


@dataclass(frozen=True, slots=True)
class Option:
    configuration: Configuration
    rate: float
    seconds: float  # from the start to the end of the job
    node_seconds: float


@dataclass(frozen=True, slots=True)
class SpeedCurve:
    """How fast a job can end, by the cores that it may have."""

    steps: tuple[tuple[float, float], ...]  # (cores, seconds): more of the one, less of the other

    @classmethod
    def of(cls, found: Sequence[Option]) -> SpeedCurve:
        steps: list[tuple[float, float]] = []
        for option in sorted(found, key=lambda o: (o.configuration.cpu, o.seconds)):
            if not steps or option.seconds < steps[-1][1]:
                steps.append((option.configuration.cpu, option.seconds))
        return cls(tuple(steps))

    def seconds(self, cores: float = float("inf")) -> float:
        """Less than its least: as much longer as cores are missing."""
        fitting = [seconds for least, seconds in self.steps if least <= cores + 1e-9]
        return fitting[-1] if fitting else self.steps[0][1] * self.steps[0][0] / cores


def options(truth: Truth, bounds: Bounds, *, max_replicas: int = 0) -> list[Option]:
    """Every configuration of a grid within the bounds that makes progress, its load spread as well as it can be.

    ``max_replicas``: of a role; 0: of the bounds.
    """
    found, balanced = [], truth.balanced()
    for configuration in configurations(truth, bounds, max_replicas):
        rate = balanced.rate_of(configuration)
        if rate > 0:
            seconds = truth.costs.start_s + truth.records / rate + truth.tail_s
            found.append(Option(configuration, rate, seconds, seconds * configuration.nodes))
    return found


def configurations(truth: Truth, bounds: Bounds, max_replicas: int = 0) -> list[Configuration]:
    workers = _shapes(bounds.worker, truth.worker_memory, shared=False, most=max_replicas)
    servers: Sequence[Shape | None] = [None]
    if bounds.server is not None:
        servers = _shapes(bounds.server, truth.server_memory, shared=True, most=max_replicas)
    both = (Configuration(worker, server) for worker, server in itertools.product(workers, servers))
    return [configuration for configuration in both if bounds.allows(configuration)]


def _shapes(bounds: RoleBounds, memory: Memory, *, shared: bool, most: int) -> list[Shape]:
    top = min(bounds.max_replicas, most) if most else bounds.max_replicas
    counts = [n for n in range(max(1, bounds.min_replicas), top + 1) if n % bounds.unit == 0]
    if len(counts) > 24:  # all small ones, then a geometric grid
        counts = sorted({*counts[:16], *(counts[round(i)] for i in np.geomspace(15, len(counts) - 1, 16))})
    found = []
    for count, cpu in itertools.product(counts, cpu_grid(bounds)):
        needed = memory.at(1.0, count if shared else 1) * MEMORY_MARGIN
        found.append(bounds.clip(Shape(count, cpu, int(np.ceil(needed)))))
    return found


def cpu_grid(bounds: RoleBounds) -> list[float]:
    if not bounds.max_cpu:
        return [0.0]
    low, high = bounds.min_cpu or min(1.0, bounds.max_cpu), bounds.max_cpu
    grid = {low, high, *(2.0**power for power in range(-2, 8) if low < 2.0**power < high)}
    return sorted(grid)


def best(found: Sequence[Option], objective: Objective) -> Option:
    """By the score of the planner itself, with the true rates."""
    return max(found, key=lambda option: score(objective, option.rate, option.configuration))


def share_out(
    jobs: Mapping[str, Sequence[Option]], remaining: Mapping[str, float], total_cpu: float
) -> dict[str, Option]:
    """One option for each job: the least sum of remaining times that the cores allow. Empty: the minimums do not fit."""
    entries = [(name, option) for name, found in jobs.items() for option in found]
    if not entries:
        return {}
    seconds = np.array([remaining[name] / option.rate for name, option in entries])
    cores = np.array([option.configuration.cpu for _, option in entries])
    rows = np.array([[float(name == job) for name, _ in entries] for job in jobs])
    answer = milp(
        seconds + 1e-6 * cores,
        constraints=[LinearConstraint(rows, 1, 1), LinearConstraint(cores[None, :], -np.inf, total_cpu)],
        integrality=np.ones(len(entries)),
        bounds=VariableBounds(0, 1),
        options={"time_limit": SOLVE_S, "mip_rel_gap": 0.01},
    )
    if answer.x is None:
        return {}
    return {name: option for (name, option), taken in zip(entries, answer.x, strict=True) if taken > 0.5}


def share_out_greedily(
    jobs: Mapping[str, Sequence[Option]], remaining: Mapping[str, float], total_cpu: float
) -> dict[str, Option]:
    """The same by steps along the convex hull of each job's times, the largest gain per core first: optimal for cores that could
    be divided at will, so off by less than the last step. ``jobs``: each a front, cheapest first."""
    chosen = {name: 0 for name, found in jobs.items() if found}
    free = total_cpu - sum(jobs[name][0].configuration.cpu for name in chosen)
    heap: list[tuple[float, str, int]] = []

    def push(name: str) -> None:
        found, now = jobs[name], jobs[name][chosen[name]]
        steps = [
            (
                -remaining[name] * (1 / now.rate - 1 / after.rate) / (after.configuration.cpu - now.configuration.cpu),
                index,
            )
            for index, after in enumerate(found[chosen[name] + 1 :], start=chosen[name] + 1)
            if now.configuration.cpu < after.configuration.cpu <= now.configuration.cpu + free
        ]
        if steps and min(steps)[0] < 0:
            heapq.heappush(heap, (min(steps)[0], name, min(steps)[1]))

    for name in chosen:
        push(name)
    while heap:
        _, name, index = heapq.heappop(heap)
        more = jobs[name][index].configuration.cpu - jobs[name][chosen[name]].configuration.cpu
        if more <= free:
            chosen[name], free = index, free - more
        push(name)
    return {name: jobs[name][index] for name, index in chosen.items()} if free >= 0 else {}


Weigh: TypeAlias = Callable[[Sequence[Option], float], float]  # of a job, by its options and what remains
OBJECTIVES: Mapping[str, Weigh] = {
    "the least sum of remaining times": lambda found, left: left,
    "the least mean slowdown": lambda found, left: found[-1].rate,
    "the shortest first": lambda found, left: found[-1].rate / max(left, 1e-9) * found[-1].rate,
}


def weights(jobs: Mapping[str, Sequence[Option]], remaining: Mapping[str, float], objective: str) -> dict[str, float]:
    """What ``share_out`` takes for the remaining records of each job."""
    return {name: OBJECTIVES[objective](found, remaining[name]) for name, found in jobs.items()}


def best_objective(jobs: Mapping[str, Sequence[Option]], remaining: Mapping[str, float], total_cpu: float) -> str:
    """By which the sum of completion times is the least, if no further job comes: each is followed to the last job's end, all of
    it shared out again whenever a job ends."""

    def total(objective: str) -> float:
        left, now, found = {name: records for name, records in remaining.items() if records > 0}, 0.0, 0.0
        while left:
            present = {name: jobs[name] for name in left}
            chosen = share_out_greedily(present, weights(present, left, objective), total_cpu)
            if not chosen:
                return float("inf")
            step = min(records / chosen[name].rate for name, records in left.items())
            now, found = now + step, found + step * len(left)
            left = {name: records - step * chosen[name].rate for name, records in left.items()}
            left = {name: records for name, records in left.items() if records > 1e-6 * remaining[name]}
        return found

    return min(OBJECTIVES, key=total)


def front(found: Sequence[Option], objective: Objective) -> list[Option]:
    """The Pareto front of time and cores, thinned out; none that is more than what the job would take alone."""
    limit = best(found, objective).configuration.cpu if objective is not Objective.FASTEST else float("inf")
    chosen: list[Option] = []
    for option in sorted(found, key=lambda o: (o.configuration.cpu, o.seconds)):
        is_better = not chosen or option.seconds < chosen[-1].seconds * (1 - EQUAL)
        if is_better and (option.configuration.cpu <= limit or not chosen):
            chosen.append(option)
    if len(chosen) <= MAX_OPTIONS:
        return chosen
    return [chosen[round(i)] for i in np.linspace(0, len(chosen) - 1, MAX_OPTIONS)]
