"""The configurations that a job could change to: within its bounds, the room that is free, and reach of what is known.

At most ``MAX_CANDIDATES``. No more than twice the largest and no less than half of the smallest that was tried: a model is not
to be believed beyond that. Of an allreduce job only those numbers of workers that give the slowest one less to do. A server's
rows move to the others when there are fewer of them, so what would not fit into their memory is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from pliant.core.planning.configuration import Configuration, RoleBounds, Shape
from pliant.core.planning.history import JobHistory, JobKind
from pliant.core.planning.objectives import SERVER, WORKER, is_alike

MAX_CANDIDATES = 1000
MAX_COUNTS = {WORKER: 14, SERVER: 8}  # of different numbers of replicas
CPU_FACTORS = (0.5, 1.0, 2.0)
MEMORY_MARGIN = 1.15


def candidates(history: JobHistory) -> list[Configuration]:
    """Without the present one; in a fixed order."""
    now = history.configuration
    tried = [now, *(period.configuration for period in history.periods)]
    workers = _shapes(history, WORKER, [configuration.worker for configuration in tried])
    if now.server is None:
        found: Iterable[Configuration] = (Configuration(worker, None, now.micro_batch) for worker in workers)
    else:
        servers = _shapes(history, SERVER, [c.server for c in tried if c.server is not None])
        found = (Configuration(worker, server, now.micro_batch) for worker, server in product(workers, servers))
    held = _Held.of(history)
    usable = [candidate for candidate in found if held.allows(history, candidate) and not is_alike(candidate, now)]
    return _thinned(usable, MAX_CANDIDATES)


def is_possible(history: JobHistory, candidate: Configuration) -> bool:
    """Within the bounds, the free room and the memory of servers."""
    return _Held.of(history).allows(history, candidate)


@dataclass(frozen=True, slots=True)
class _Held:
    """What nodes use, looked up once for many candidates."""

    memory_mb: Mapping[str, float]  # by role: of the fullest, ever
    all_servers_mb: float

    @classmethod
    def of(cls, history: JobHistory) -> _Held:
        used = {
            role: max((node.memory_peak_mb for node in history.nodes if node.role == role), default=0.0)
            for role in (WORKER, SERVER)
        }
        return cls(used, server_memory_mb(history, 1))

    def allows(self, history: JobHistory, candidate: Configuration) -> bool:
        if not history.bounds.allows(candidate) or not _fits_room(history, candidate, self.memory_mb):
            return False
        return _fits_servers(history, candidate, self.all_servers_mb)


def server_memory_mb(history: JobHistory, servers: int) -> float:
    """What the fullest of so many servers would use: the same rows on other servers. 0: nobody knows."""
    used = [max(node.memory_mb, node.memory_peak_mb) for node in history.nodes if node.role == SERVER]
    return max(used) * len(used) / max(1, servers) if used else 0.0


def role_bounds(history: JobHistory, role: str) -> RoleBounds:
    bounds = history.bounds.worker if role == WORKER else history.bounds.server
    assert bounds is not None, f"role {role} has bounds"
    return bounds


def useful_workers(history: JobHistory, bounds: RoleBounds) -> int:
    """More have nothing to do."""
    is_fixed = history.kind is JobKind.ALLREDUCE and history.virtual_workers > 0
    return (
        max(bounds.min_replicas, min(bounds.max_replicas, history.virtual_workers)) if is_fixed else bounds.max_replicas
    )


def fewest_workers(history: JobHistory, count: int) -> int:
    """As fast as ``count``: in an allreduce job, fewer may leave the slowest one as much to do."""
    if history.kind is not JobKind.ALLREDUCE or not history.virtual_workers:
        return count
    units = -(-history.virtual_workers // max(1, count))
    return -(-history.virtual_workers // units)


def _shapes(history: JobHistory, role: str, tried: Sequence[Shape]) -> list[Shape]:
    bounds = role_bounds(history, role)
    now = tried[0]
    counts = _counts(history, role, bounds, [shape.replicas for shape in tried])
    found = []
    for replicas, cpu in product(counts, _cpus(history, bounds, now, [shape.cpu for shape in tried])):
        shape = Shape(replicas, cpu, now.memory_mb, now.gpu)
        if bounds.allows(shape):
            found.append(shape)
    return found


def _counts(history: JobHistory, role: str, bounds: RoleBounds, tried: Sequence[int]) -> list[int]:
    high = useful_workers(history, bounds) if role == WORKER else bounds.max_replicas
    high = max(bounds.min_replicas, min(high, 2 * max(tried)))
    low = min(high, max(bounds.min_replicas, min(tried) // 2))
    counts = [count for count in range(low, high + 1) if count % bounds.unit == 0 or count in (low, high)]
    if role == WORKER and history.kind is JobKind.ALLREDUCE and history.virtual_workers:
        counts = [count for count in counts if fewest_workers(history, count) == count or count in (low, *tried)]
    kept = {count for count in tried if low <= count <= high} | {low, high}
    limit = MAX_COUNTS[role]
    if len(counts) > limit:
        steps = {round(low * (high / max(1, low)) ** (i / (limit - 1))) for i in range(limit)}
        nearest = {min(counts, key=lambda count: (abs(count - step), count)) for step in steps}
        counts = [count for count in counts if count in nearest or count in kept]
    return counts


def _cpus(history: JobHistory, bounds: RoleBounds, now: Shape, tried: Sequence[float]) -> list[float]:
    """A node without a limit has no other one either; without any bound, nobody says how far it may grow."""
    if not now.cpu:
        return [now.cpu]
    may_grow = bool(bounds.max_cpu or history.bounds.max_cpu or history.room is not None)
    limit = bounds.max_cpu or 2 * max(tried)
    wanted = {min(now.cpu * factor, limit) for factor in CPU_FACTORS if factor <= 1 or may_grow} | {now.cpu}
    wanted |= {cpu for cpu in tried if cpu}
    inside = {max(bounds.min_cpu, min(cpu, limit)) for cpu in wanted if cpu <= 2 * max(tried)}
    return sorted(round(cpu, 3) for cpu in inside)


def _fits_room(history: JobHistory, candidate: Configuration, used_mb: Mapping[str, float]) -> bool:
    room, now = history.room, history.configuration
    if room is None:
        return True
    cpu = memory = 0.0
    for role, before, after in (
        (WORKER, now.worker, candidate.worker),
        (SERVER, now.server, candidate.server),
    ):
        if before is None or after is None:
            continue
        cpu += after.replicas * after.cpu - before.replicas * before.cpu
        used = used_mb[role]
        memory += after.replicas * (after.memory_mb or used) - before.replicas * (before.memory_mb or used)
        is_larger = after.cpu > before.cpu or after.replicas > before.replicas
        if is_larger and room.largest_cpu and after.cpu > max(room.largest_cpu, before.cpu):
            return False
    return cpu <= max(0.0, room.free_cpu) + 1e-9 and memory <= max(0.0, room.free_memory_mb)


def _fits_servers(history: JobHistory, candidate: Configuration, all_mb: float) -> bool:
    before, after = history.configuration.server, candidate.server
    if before is None or after is None or after.replicas >= before.replicas or not after.memory_mb:
        return True
    return all_mb / max(1, after.replicas) * MEMORY_MARGIN <= after.memory_mb


def _thinned(found: list[Configuration], limit: int) -> list[Configuration]:
    if len(found) <= limit:
        return found
    return [found[i * len(found) // limit] for i in range(limit)]
