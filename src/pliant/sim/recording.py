"""From statuses of a running job to the lines of a trace (``truth/trace.py``), which a scenario replays.

Only what has settled is recorded: all nodes of the configuration run, and they did at the status before too. The rate is that of
the time between two statuses.
"""

from __future__ import annotations

from pliant.core.end_policy import PARAMETER_SERVER
from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.history import JobKind
from pliant.core.status import JobStatus, RoleStatus
from pliant.sim.truth.trace import JobLine, NodeLine, TraceLine, configuration_line


class TraceRecorder:
    def __init__(self, first: JobStatus) -> None:
        self._started = first.time
        self._before: tuple[JobStatus, Configuration] | None = None

    def head(self, status: JobStatus) -> TraceLine:
        """The job as it is known at its end, or when the recording is stopped."""
        kind = JobKind.QUEUE
        if status.parameters is not None:
            kind = JobKind.PS_SYNC if status.parameters.sync else JobKind.PS_ASYNC
        elif status.world is not None:
            kind = JobKind.ALLREDUCE
        records = max(status.progress.records_total, status.progress.records_done, 1)
        return TraceLine(kind="trace", version=1, job=status.name, strategy=kind, records=records)

    def add(self, status: JobStatus) -> list[JobLine | NodeLine]:
        """What this status adds; nothing while nodes come or go."""
        before, self._before = self._before, None
        configuration = _configuration(status)
        if configuration is None:
            return []
        self._before = (status, configuration)
        if before is None or before[1] != configuration or status.time <= before[0].time:
            return []
        seconds = status.time - before[0].time
        records = status.progress.records_done
        rate = (records - before[0].progress.records_done) / seconds
        if rate <= 0:
            return []
        at = round(status.time - self._started, 3)
        nodes = [
            NodeLine(
                kind="node",
                time=at,
                node=node.name,
                role=node.role,
                cpu=round(node.cpu, 3),
                memory_mb=round(node.memory_mb, 1),
            )
            for node in status.live_nodes
        ]
        job = JobLine(
            kind="job",
            time=at,
            records=records,
            rate=round(rate, 3),
            configuration=configuration_line(configuration),
        )
        return [job, *nodes]


def _configuration(status: JobStatus) -> Configuration | None:
    """None: not all of it is there."""
    worker, server = status.role("worker"), status.role(PARAMETER_SERVER)
    if (
        worker is None
        or not worker.ready
        or not _is_settled(worker)
        or (server is not None and not _is_settled(server))
    ):
        return None
    return Configuration(_shape(worker), _shape(server) if server is not None else None)


def _is_settled(role: RoleStatus) -> bool:
    return role.ready == role.wanted and not role.pending and not role.rollout


def _shape(role: RoleStatus) -> Shape:
    return Shape(role.ready, role.cpu, int(role.memory_mb))
