"""What is to be seen of a job without asking an algorithm: cheap looks at its history, each with a key that changes with it.

A symptom only says where to look; whether anything is done about it, and what, is up to the algorithms (``processor.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log
from statistics import median

from pliant.brain.optimize_events import EventKind, OptimizeEvent
from pliant.core.planning.history import JobHistory, JobKind, NodeView
from pliant.core.planning.objectives import MIN_GAIN, SERVER, WORKER

FULL = 0.5  # of the limit of memory: from there on growth is followed
FULL_STEP = 0.05
SLOW = 1.3  # times the median
UNEVEN = 1.5  # load of the busiest server over the mean
BUSY = 0.8  # of the CPU limit of each server
LOOK_AGAIN_S = 600.0  # even if nothing has changed: the job is older
PENDING_STEP_S = 60.0


def symptoms(history: JobHistory, now: float) -> Iterator[OptimizeEvent]:
    """In the order in which they matter."""
    yield from _out_of_memory(history)
    yield from _memory(history)
    yield from _unschedulable(history, now)
    yield from _slow_workers(history)
    yield from _servers(history)
    yield from _measured(history, now)


def _out_of_memory(history: JobHistory) -> Iterator[OptimizeEvent]:
    if history.out_of_memory:
        last = history.out_of_memory[-1]
        facts = f"a {last.role} with {last.limit_mb:.0f} MB ran out of memory"
        yield OptimizeEvent(EventKind.OUT_OF_MEMORY, facts, f"{last.time:.3f}")


def _memory(history: JobHistory) -> Iterator[OptimizeEvent]:
    shares = {node.name: node.memory_mb / node.memory_limit_mb for node in history.nodes if node.memory_limit_mb}
    full = {name: share for name, share in shares.items() if share >= FULL}
    if full:
        fullest = max(full, key=lambda name: full[name])
        key = ",".join(f"{name}:{int(share / FULL_STEP)}" for name, share in sorted(full.items()))
        yield OptimizeEvent(EventKind.MEMORY_GROWS, f"{fullest} uses {full[fullest]:.0%} of its memory", key)


def _unschedulable(history: JobHistory, now: float) -> Iterator[OptimizeEvent]:
    if history.pending and history.pending_since is not None:
        waited = max(0.0, now - history.pending_since)
        facts = f"{len(history.pending)} nodes are unschedulable for {waited:.0f} s"
        room = history.room
        key = f"{','.join(sorted(history.pending))} {int(waited / PENDING_STEP_S)} {int(room.free_cpu) if room else ''}"
        yield OptimizeEvent(EventKind.UNSCHEDULABLE, facts, key)


def _slow_workers(history: JobHistory) -> Iterator[OptimizeEvent]:
    workers = [node for node in history.nodes if node.role == WORKER]
    times = {node.name: found for node in workers if (found := _time_of(node, history.kind))}
    if len(times) < 2:
        return
    usual = median(times.values())
    slow = {name: found / usual for name, found in times.items() if found > SLOW * usual}
    if slow:
        slowest = max(slow, key=lambda name: slow[name])
        key = ",".join(f"{name}:{round(log(ratio) / 0.2)}" for name, ratio in sorted(slow.items()))
        yield OptimizeEvent(EventKind.SLOW_WORKER, f"{slowest} takes {slow[slowest]:.1f} times as long as others", key)


def _time_of(node: NodeView, kind: JobKind) -> float:
    """Of one unit of work; 0: not known."""
    if kind is JobKind.ALLREDUCE:
        return node.unit_seconds
    return 1 / node.records_per_second if node.records_per_second > 0 else 0.0


def _servers(history: JobHistory) -> Iterator[OptimizeEvent]:
    servers = [node for node in history.nodes if node.role == SERVER]
    loads = {node.name: node.bytes_per_second or node.cpu for node in servers}
    mean = sum(loads.values()) / len(loads) if loads else 0.0
    if len(loads) > 1 and mean > 0 and max(loads.values()) > UNEVEN * mean:
        hottest = max(loads, key=lambda name: loads[name])
        ratio = loads[hottest] / mean
        facts = f"{hottest} has {ratio:.1f} times the load of a server"
        yield OptimizeEvent(EventKind.SERVERS_UNEVEN, facts, f"{hottest}:{int(ratio / 0.25)} {history.version}")
    limited = [node.cpu / node.cpu_limit for node in servers if node.cpu_limit]
    if limited and min(limited) >= BUSY:
        facts = f"every server uses {min(limited):.0%} of its CPU or more"
        yield OptimizeEvent(EventKind.SERVERS_BUSY, facts, f"{len(servers)} {history.version}")


def _measured(history: JobHistory, now: float) -> Iterator[OptimizeEvent]:
    """Once per configuration, and again when its rate has changed or is known better, there is other room, or time has passed."""
    newest = history.periods[-1] if history.periods else None
    if newest is None or history.settling_since is not None or newest.rate <= 0:
        return
    same = [period for period in history.periods if period.configuration == newest.configuration]
    samples = sum(period.samples for period in same)
    tried = len({period.configuration for period in history.periods})
    room = int(history.room.free_cpu) if history.room is not None else ""
    parts = (
        *(history.version, tried, round(log(newest.rate) / (2 * MIN_GAIN)), min(samples, 32) // 4, room),
        *(hash_of_bounds(history), int(now // LOOK_AGAIN_S)),
    )
    facts = f"{newest.rate:.4g} records per second with {newest.configuration}"
    yield OptimizeEvent(EventKind.MEASURED, facts, " ".join(map(str, parts)))


def hash_of_bounds(history: JobHistory) -> str:
    worker, server = history.bounds.worker, history.bounds.server
    found = f"{worker.min_replicas}:{worker.max_replicas}:{worker.max_cpu}:{history.bounds.max_cpu}"
    return found if server is None else f"{found}/{server.min_replicas}:{server.max_replicas}:{server.max_cpu}"
