"""What a configuration is worth: its speed against its cost, by the user's objective, and whether a change pays.

The *score* is in logarithms of the rate, so that a difference of scores is a gain that can be compared with time: balanced
takes one percent more cores for a tenth of a percent more speed and not for less (the knee of rate and cost), fastest for next
to nothing, cheapest for a full percent. A *change pays* if (lower bound of the gain) x (what remains) exceeds what the change
itself costs, and only then; small gains are never worth a change (hysteresis). Where running nodes cannot be resized, other
resources are *rolled out* node by node: that takes the start of each of them, one after the other, and the gain comes with it.
"""

from __future__ import annotations

from dataclasses import replace
from math import exp, log

from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.history import JobHistory, JobKind, Objective, Period

WORKER, SERVER = "worker", "ps"  # the roles
COST_WEIGHT = {Objective.FASTEST: 0.01, Objective.BALANCED: 0.1, Objective.CHEAPEST: 0.95}
MIN_GAIN = 0.05  # of the score: less is not worth a change
IN_STEP = frozenset({JobKind.ALLREDUCE, JobKind.PS_SYNC})  # all workers wait for the slowest
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
            seconds += costs.replace_s + _share_missing(history, before, after) * _rolling_s(history, after)
        if before is old.server and after.replicas != before.replicas:
            seconds += costs.move_partitions_s
    return seconds


def delay_s(history: JobHistory, new: Configuration) -> float:
    """For which a change to ``new`` brings nothing yet: at once where nodes wait for each other, a node at a time elsewhere."""
    seconds = sum(_rolling_s(history, after) for _, after in _resized(history.configuration, new))
    return seconds if history.kind in IN_STEP else seconds / 2


def rollout_s(history: JobHistory, old: Configuration, new: Configuration) -> float:
    """Within which nodes that get other resources are surely replaced, one by one."""
    each = history.costs.replace_s + (0.0 if history.can_resize else history.costs.start_s)
    return 2 * each * sum(after.replicas for _, after in _resized(old, new))


def worth_s(history: JobHistory, new: Configuration, gain: float, remaining: float) -> float:
    """Seconds that a change to ``new`` saves of those that remain; negative: it costs more than it brings."""
    return max(0.0, remaining - delay_s(history, new)) * (1.0 - exp(-gain)) - change_s(history, new)


def _resized(old: Configuration, new: Configuration) -> list[tuple[Shape, Shape]]:
    pairs = ((old.worker, new.worker), (old.server, new.server))
    return [(b, a) for b, a in pairs if b is not None and a is not None and _is_resized(b, a)]


def _rolling_s(history: JobHistory, after: Shape) -> float:
    return 0.0 if history.can_resize else history.costs.start_s * after.replicas


def _share_missing(history: JobHistory, before: Shape, after: Shape) -> float:
    """Of the speed, while one node after the other is replaced: where there may be no more nodes, one leaves first."""
    bounds = history.bounds.worker if before is history.configuration.worker else history.bounds.server
    if bounds is None or after.replicas < bounds.max_replicas:
        return 0.0
    if before is not history.configuration.worker or history.kind is not JobKind.ALLREDUCE or after.replicas < 2:
        return 1.0 / after.replicas
    units = [-(-history.virtual_workers // count) for count in (after.replicas, after.replicas - 1)]
    return 1.0 - units[0] / units[1] if history.virtual_workers else 1.0 / after.replicas


def _is_resized(before: Shape, after: Shape) -> bool:
    return (before.cpu, before.memory_mb, before.gpu) != (after.cpu, after.memory_mb, after.gpu)


def pays(history: JobHistory, new: Configuration, gain: float, remaining: float) -> bool:
    """``gain``: of the score, its lower bound. ``remaining``: seconds without the change."""
    return gain >= MIN_GAIN and worth_s(history, new, gain, remaining) > 0


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
