"""The demand of a job, from its history: what it could have, and how fast it would be with it.

Rates are those of the fitted model of the job's speed, as ``plan_job`` has them, which is optimistic about what was never tried: so
a job that is still being explored gets room for it. Before anything was measured, speed is taken to be linear in workers, up to
twice as many as it has. What costs more than the best by the job's own objective is no option: the planner of the job would not use
it, and a grant that is not used is lost to others.

``history.bounds`` are those of the spec, not of a grant. Room that happens to be free on the platform is not looked at: others may
shrink.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from pliant.core.planning.candidates import MEMORY_MARGIN, candidates, server_memory_mb, useful_workers
from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.fits import fit_history
from pliant.core.planning.history import JobHistory
from pliant.core.planning.objectives import change_s, current_period, remaining_s, rollout_s, score
from pliant.core.planning.sharing.demand import Amount, Demand, Knowledge, Option, Quota

MAX_OPTIONS = 20
MAX_TRY_S = 900.0  # until a size that does not settle is given up
MIN_SAMPLES, MAX_ERROR = 6, 0.1  # of a period by which a job can be judged; the error is relative
UNKNOWN_RATE = 1.0  # of one worker: only ratios matter


def demand_of(
    history: JobHistory,
    now: float,
    *,
    job: str,
    priority: int = 0,
    is_running: bool,
    is_manual: bool = False,
    is_preemptible: bool = False,
    options: tuple[Option, ...] | None = None,
) -> Demand:
    """``is_running``: it has nodes, or was granted some; ``history.configuration`` is what it has then. ``options``: if they are
    known already, since nothing has changed by which they are made."""
    minimum = minimum_of(history)
    period = current_period(history)
    costs = history.costs
    return Demand(
        job,
        priority,
        history.started,
        minimum,
        options if options is not None else options_of(history, minimum),
        history.configuration if is_running else None,
        change_s=max(costs.scale_up_s, costs.scale_down_s),
        remaining_s=remaining_s(history, period.rate, now) if period is not None else None,
        is_manual=is_manual,
        is_preemptible=is_preemptible,
        knowledge=knowledge_of(history, now),
    )


def knowledge_of(history: JobHistory, now: float) -> Knowledge:
    """By the numbers of workers that were measured."""
    sizes = {period.configuration.worker.replicas for period in history.periods}
    if len(sizes) != 1:
        return Knowledge.ENOUGH
    if history.configuration.worker.replicas not in sizes:
        is_recent = history.settling_since is None or now - history.settling_since < MAX_TRY_S
        return Knowledge.TRYING if is_recent else Knowledge.ENOUGH
    period = current_period(history)
    is_sure = period is not None and period.samples >= MIN_SAMPLES and period.error <= MAX_ERROR * period.rate
    return Knowledge.ONE_SIZE if is_sure else Knowledge.ENOUGH


def minimum_of(history: JobHistory) -> Configuration:
    """The least that the bounds allow, with the memory that nodes have now; servers hold their rows."""
    now, bounds = history.configuration, history.bounds
    server = None
    if now.server is not None and bounds.server is not None:
        server = _least(bounds.server, now.server)
        rows_mb = server_memory_mb(history, 1) * MEMORY_MARGIN
        if server.memory_mb and rows_mb > server.replicas * server.memory_mb:
            needed = -(-rows_mb // server.memory_mb)
            server = replace(server, replicas=min(now.server.replicas, _in_units(bounds.server, int(needed))))
    return Configuration(_least(bounds.worker, now.worker), server, now.micro_batch)


def options_of(
    history: JobHistory, minimum: Configuration | None = None, *, max_options: int = MAX_OPTIONS, seed: int = 0
) -> tuple[Option, ...]:
    """The Pareto front of rate and cores, at most ``max_options`` of it, with the minimum and the present configuration."""
    minimum = minimum or minimum_of(history)
    now = history.configuration
    kept = [minimum, *(one for one in (now, _half(history)) if history.bounds.allows(one))]
    room = replace(history.room, free_cpu=inf, free_memory_mb=inf) if history.room is not None else None
    history = replace(history, room=room)
    fit = fit_history(history, seed=seed)
    if fit is None:
        linear = dict.fromkeys([*kept, *_more(history)])
        found = [Option(one, _linear(history, one), _cost_s(history, one)) for one in linear]
    else:
        possible = list(dict.fromkeys([*kept, *candidates(history)]))
        rates = fit.predict_all(possible).rate
        found = [
            Option(one, max(0.0, float(rate)), _cost_s(history, one)) for one, rate in zip(possible, rates, strict=True)
        ]
    return _front(history, found, kept, max_options)


def under_grant(bounds: Bounds, limit: Configuration, quota: Quota) -> Bounds:
    """The bounds of a job under a grant, in what the quota limits."""
    amount, counted = Amount.of(limit), quota.limit
    worker, server = bounds.worker, bounds.server
    if counted.nodes or counted.gpu:
        worker = _at_most(worker, limit.worker)
        server = _at_most(server, limit.server) if server is not None and limit.server is not None else server
    return Bounds(
        worker,
        server,
        _lower(bounds.max_cpu, amount.cpu) if counted.cpu else bounds.max_cpu,
        int(_lower(bounds.max_memory_mb, amount.memory_mb)) if counted.memory_mb else bounds.max_memory_mb,
    )


def _half(history: JobHistory) -> Configuration:
    """Of the workers that it has: what it tries if only one size was ever measured."""
    now = history.configuration
    return replace(now, worker=replace(now.worker, replicas=_in_units(history.bounds.worker, now.worker.replicas // 2)))


def _cost_s(history: JobHistory, new: Configuration) -> float:
    """Nodes that get other resources are replaced one by one, and others wait for each of them, or do its work."""
    return change_s(history, new) + rollout_s(history, history.configuration, new) / 2


def _lower(one: float, other: float) -> float:
    return min(one, other) if one else other


def _at_most(bounds: RoleBounds, limit: Shape) -> RoleBounds:
    return replace(bounds, max_replicas=max(bounds.min_replicas, min(bounds.max_replicas, limit.replicas)))


def _least(bounds: RoleBounds, now: Shape) -> Shape:
    return replace(now, replicas=_in_units(bounds, max(1, bounds.min_replicas)), cpu=bounds.min_cpu or now.cpu)


def _in_units(bounds: RoleBounds, replicas: int) -> int:
    return min(bounds.max_replicas, -(-max(replicas, bounds.min_replicas) // bounds.unit) * bounds.unit)


def _linear(history: JobHistory, configuration: Configuration) -> float:
    """At the rate that each worker was measured with last, if it ever was."""
    rate = next(
        (p.rate / p.configuration.worker.replicas for p in reversed(history.periods) if p.rate > 0), UNKNOWN_RATE
    )
    cores = configuration.worker.cpu / history.configuration.worker.cpu if history.configuration.worker.cpu else 1.0
    return rate * configuration.worker.replicas * min(1.0, cores or 1.0)


def _more(history: JobHistory) -> list[Configuration]:
    now, bounds = history.configuration, history.bounds
    most = min(useful_workers(history, bounds.worker), 2 * now.worker.replicas)
    counts = range(_in_units(bounds.worker, 1), most + 1, bounds.worker.unit)
    found = [replace(now, worker=replace(now.worker, replicas=count)) for count in counts]
    return [configuration for configuration in found if bounds.allows(configuration)]


def _front(
    history: JobHistory, found: Sequence[Option], kept: Sequence[Configuration], max_options: int
) -> tuple[Option, ...]:
    best = max(found, key=lambda option: score(history.objective, option.rate, option.configuration))
    front: list[Option] = []
    for option in sorted(found, key=lambda one: (one.configuration.cpu, -one.rate, str(one.configuration))):
        is_better = not front or option.rate > front[-1].rate
        if is_better and option.configuration.cpu <= best.configuration.cpu:
            front.append(option)
    must = [option for option in found if option.configuration in kept or option == best]
    free = max(2, max_options - len(must))
    if len(front) > free:
        front = [front[round(number * (len(front) - 1) / (free - 1))] for number in range(free)]
    unique = {option.configuration: option for option in [*must, *front]}
    return tuple(sorted(unique.values(), key=lambda one: (one.configuration.cpu, one.rate, str(one.configuration))))
