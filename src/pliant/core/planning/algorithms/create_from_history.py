"""The first configuration of a job, before any node is launched: what similar jobs ended with.

Their *final* configurations count, weighted by how similar they are; of jobs that failed only the memory does. Memory is the
p95 of what they used and 15 % more, or 30 % if they are few. Without any, a job starts between its bounds, and ``probe`` goes on
from there. The two ways are not alike: each doubling waits for nodes to start and is measured again, while surplus workers leave
at once, and too few lose what time costs, too many only what nodes do. So workers begin above the (geometric) middle unless
nodes are what counts, the objective says how far; servers, which would have to move what they hold, begin in the middle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.history import FinishedJob, JobHistory, JobKind, Objective
from pliant.core.planning.objectives import SERVER, WORKER, shape_of, with_shape
from pliant.core.planning.proposal import Proposal
from pliant.core.plurals import counted

MIN_SIMILARITY = 0.3
MEMORY_MARGIN, WIDE_MEMORY_MARGIN = 1.15, 1.3
FEW = 3  # jobs
START = {
    Objective.CHEAPEST: 0.5,
    Objective.BALANCED: 0.75,
    Objective.FASTEST: 0.85,
}  # of the doublings from fewest to most workers
MIDDLE = 0.5
START_CPU = 1 / 3  # of the doublings from the least to the most CPU of a node


@dataclass(frozen=True, slots=True)
class CreateFromHistory:
    name: str = "create_from_history"

    def __call__(self, history: JobHistory, now: float) -> Proposal | None:
        if history.periods or history.nodes:
            return None  # it runs already
        has_servers = history.configuration.server is not None
        similar = [
            job
            for job in history.similar
            if job.similarity >= MIN_SIMILARITY and (job.configuration.server is not None) == has_servers
        ]
        succeeded = [job for job in similar if job.succeeded]
        configuration = _final(history, succeeded) if succeeded else _between(history)
        found = within(history.bounds, _with_memory(history, configuration, similar))
        if found is None:
            found = within(history.bounds, configuration)
        if found is None:
            return None  # what the job asks for is all that its bounds allow
        configuration = found
        if succeeded:
            reason = f"as {counted(len(succeeded), 'similar job')} ended: {configuration}"
        else:
            reason = f"no similar job has run: starting between the bounds, {configuration}"
        return Proposal(self.name, reason, configuration)


def within(bounds: Bounds, configuration: Configuration) -> Configuration | None:
    """The nearest configuration that the bounds allow: fewer workers, then fewer servers, where all nodes together would be too
    many. None: not even the minimum of nodes fits with these resources."""
    worker, server = bounds.worker.clip(configuration.worker), configuration.server
    if server is not None and bounds.server is not None:
        server = bounds.server.clip(server)
    found = replace(configuration, worker=worker, server=server)
    while not bounds.allows(found):
        fewer = replace(found, worker=_one_less(bounds.worker, found.worker))
        if fewer == found and found.server is not None and bounds.server is not None:
            fewer = replace(found, server=_one_less(bounds.server, found.server))
        if fewer == found:
            return None
        found = fewer
    return found


def _one_less(bounds: RoleBounds, shape: Shape) -> Shape:
    fewer = bounds.clip(replace(shape, replicas=shape.replicas - 1))
    return fewer if fewer.replicas < shape.replicas else shape


def _final(history: JobHistory, jobs: Sequence[FinishedJob]) -> Configuration:
    found = history.configuration
    for role in (WORKER, SERVER):
        shape = shape_of(found, role)
        ended = [(shape_of(job.configuration, role), job.similarity) for job in jobs]
        known = [(other, weight) for other, weight in ended if other is not None]
        if shape is None or not known:
            continue
        replicas = _weighted_median([(float(other.replicas), weight) for other, weight in known])
        cpus = [(other.cpu, weight) for other, weight in known if other.cpu]
        cpu = _weighted_median(cpus) if cpus and shape.cpu else shape.cpu
        found = with_shape(found, role, replace(shape, replicas=round(replicas), cpu=cpu))
    return found


def _between(history: JobHistory) -> Configuration:
    now, bounds = history.configuration, history.bounds
    limit = history.virtual_workers if history.kind is JobKind.ALLREDUCE and history.virtual_workers else 0
    found = replace(now, worker=_start(now.worker, bounds.worker, START[history.objective], limit))
    if now.server is not None and bounds.server is not None:
        found = replace(found, server=_start(now.server, bounds.server, MIDDLE))
    return found


def _start(shape: Shape, bounds: RoleBounds, share: float, limit: int = 0) -> Shape:
    """``share``: of the doublings from the fewest replicas to the most."""
    low, high = max(1, bounds.min_replicas), min(bounds.max_replicas, limit) if limit else bounds.max_replicas
    return bounds.clip(
        replace(shape, replicas=max(1, round(low * (max(low, high) / low) ** share)), cpu=_cpu(shape, bounds))
    )


def _cpu(shape: Shape, bounds: RoleBounds) -> float:
    """Between the bounds, too, if only a range is given: other CPU for nodes that run may mean to replace them one by one."""
    if not shape.cpu or shape.cpu != bounds.min_cpu or bounds.max_cpu <= bounds.min_cpu:
        return shape.cpu
    return float(round(bounds.min_cpu * (bounds.max_cpu / bounds.min_cpu) ** START_CPU, 1))


def _with_memory(history: JobHistory, configuration: Configuration, jobs: Sequence[FinishedJob]) -> Configuration:
    margin = MEMORY_MARGIN if len(jobs) >= FEW else WIDE_MEMORY_MARGIN
    for role, used in (
        (WORKER, [job.worker_memory_p95_mb for job in jobs if job.worker_memory_p95_mb]),
        (SERVER, [job.server_memory_p95_mb for job in jobs if job.server_memory_p95_mb]),
    ):
        shape = shape_of(configuration, role)
        if shape is not None and used:
            configuration = with_shape(configuration, role, replace(shape, memory_mb=round(max(used) * margin)))
        elif shape is not None and not shape.memory_mb and history.room is not None:
            configuration = with_shape(configuration, role, replace(shape, memory_mb=_share(history, configuration)))
    return configuration


def _share(history: JobHistory, configuration: Configuration) -> int:
    """Of the free memory, for each node; 0 if nobody says how much there is."""
    room = history.room
    assert room is not None
    each = room.free_memory_mb / max(1, configuration.nodes)
    return int(min(each, room.largest_memory_mb) if room.largest_memory_mb else each)


def _weighted_median(values: Sequence[tuple[float, float]]) -> float:
    ordered = sorted(values)
    half, seen = sum(weight for _, weight in ordered) / 2, 0.0
    for value, weight in ordered:
        seen += weight
        if seen >= half:
            return value
    return ordered[-1][0]
