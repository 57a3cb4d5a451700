"""What a configuration is worth: its speed against its cost, by the user's objective, and whether a change pays.

The *score* is in logarithms of the rate, so that a difference of scores is a gain that can be compared with time: balanced
takes one percent more cores for a tenth of a percent more speed and not for less (the knee of rate and cost), fastest for next
to nothing, cheapest for a full percent. A *change pays* if (lower bound of the gain) x (what remains) exceeds what the change
itself costs, and only then; small gains are never worth a change (hysteresis).
"""

from __future__ import annotations

from dataclasses import replace
from math import exp, log

from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.history import JobHistory, Objective, Period

WORKER, SERVER = "worker", "ps"  # the roles
COST_WEIGHT = {Objective.FASTEST: 0.01, Objective.BALANCED: 0.1, Objective.CHEAPEST: 0.95}
MIN_GAIN = 0.05  # of the score: less is not worth a change
MIN_REMAINING_S = 600.0  # of a job that does not know how much remains


def score(objective: Objective, rate: float, configuration: Configuration) -> float:
    """Higher is better."""
    return log(max(rate, 1e-9)) - COST_WEIGHT[objective] * log(max(configuration.cpu, 1e-9))


def remaining_s(history: JobHistory, rate: float, now: float) -> float:
    """Of the job at this rate. If nobody knows: as long again as it has run, as is fair to guess."""
    if history.remaining_records is not None:
        return history.remaining_records / max(rate, 1e-9)
    return max(MIN_REMAINING_S, now - history.started)


def change_s(history: JobHistory, new: Configuration, replaced: int = 0) -> float:
    """Seconds without a record that a change to ``new`` costs, by what changes cost before."""
    old, costs = history.configuration, history.costs
    seconds = costs.replace_s if replaced else 0.0
    for before, after in ((old.worker, new.worker), (old.server, new.server)):
        if before is None or after is None or before == after:
            continue
        if after.replicas > before.replicas:
            seconds += costs.scale_up_s
        elif after.replicas < before.replicas:
            seconds += costs.scale_down_s
        if _is_resized(before, after):
            seconds += costs.replace_s
        if before is old.server and after.replicas != before.replicas:
            seconds += costs.move_partitions_s
    return seconds


def rollout_s(history: JobHistory, old: Configuration, new: Configuration) -> float:
    """Within which nodes that get other resources are surely replaced, one by one."""
    pairs = ((old.worker, new.worker), (old.server, new.server))
    resized = [
        after for before, after in pairs if before is not None and after is not None and _is_resized(before, after)
    ]
    return 2 * history.costs.replace_s * sum(shape.replicas for shape in resized)


def _is_resized(before: Shape, after: Shape) -> bool:
    return (before.cpu, before.memory_mb, before.gpu) != (after.cpu, after.memory_mb, after.gpu)


def pays(gain: float, remaining: float, cost_s: float) -> bool:
    """``gain``: of the score, its lower bound. ``remaining``: seconds without the change."""
    return gain >= MIN_GAIN and remaining * (1.0 - exp(-gain)) > cost_s


def is_alike(one: Configuration, other: Configuration) -> bool:
    """Equal in all that decides the speed: memory does not."""
    return _speed_key(one) == _speed_key(other)


def current_period(history: JobHistory) -> Period | None:
    """The newest period, if it is settled and of the present configuration; nodes may still have the CPU they started with."""
    if history.settling_since is not None or not history.periods:
        return None
    newest = history.periods[-1]
    return newest if _sizes(newest.configuration) == _sizes(history.configuration) else None


def shape_of(configuration: Configuration, role: str) -> Shape | None:
    return configuration.worker if role == WORKER else configuration.server if role == SERVER else None


def with_shape(configuration: Configuration, role: str, shape: Shape) -> Configuration:
    return replace(configuration, worker=shape) if role == WORKER else replace(configuration, server=shape)


def difference(old: Configuration, new: Configuration) -> str:
    """What changes, for people."""
    parts = []
    for name, before, after in (("worker", old.worker, new.worker), ("server", old.server, new.server)):
        if before is None or after is None:
            continue
        if before.replicas != after.replicas:
            parts.append(f"{after.replicas} instead of {before.replicas} {name}s")
        if before.cpu != after.cpu:
            parts.append(f"{after.cpu:g} instead of {before.cpu:g} CPU for each {name}")
        if before.memory_mb != after.memory_mb:
            parts.append(f"{after.memory_mb} instead of {before.memory_mb} MB for each {name}")
    if old.micro_batch != new.micro_batch:
        parts.append(f"micro-batches of {new.micro_batch} instead of {old.micro_batch} records")
    return " and ".join(parts) or "the same configuration"


def _sizes(configuration: Configuration) -> tuple[int, int, int]:
    server = configuration.server
    return (configuration.worker.replicas, server.replicas if server is not None else 0, configuration.micro_batch)


def _speed_key(configuration: Configuration) -> tuple[float, ...]:
    worker, server = configuration.worker, configuration.server
    servers = (server.replicas, server.cpu, server.gpu) if server is not None else ()
    return (configuration.micro_batch, worker.replicas, worker.cpu, worker.gpu, *servers)
