"""What was measured of one node, summed up: all of a ``NodeView`` that does not come from the books of the job.

``NodeSummary.view`` makes the ``NodeView``, with what the books know added by the caller.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from pliant.core.planning.history import NodeView, StepParts
from pliant.core.planning.time_spent import TimeShares

MAX_PARTITION_LOADS = 16


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """Units as those of ``NodeView``."""

    samples: int = 0  # of the last minutes; 0: nothing was measured in them
    cpu: float = 0.0
    cpu_p95: float = 0.0
    cpu_limit: float = 0.0
    throttled: float = 0.0
    memory_mb: float = 0.0
    memory_peak_mb: float = 0.0
    memory_limit_mb: float = 0.0
    memory_points: tuple[tuple[float, float], ...] = ()
    records_per_second: float = 0.0
    unit_seconds: float = 0.0
    shares: TimeShares | None = None  # of its program's time; None: unknown
    rows: int = 0
    bytes_per_second: float = 0.0
    requests_per_second: float = 0.0
    queue: int = 0
    partition_load: tuple[tuple[int, float], ...] = ()

    @property
    def parts(self) -> StepParts | None:
        return StepParts(self.shares.data, self.shares.compute, self.shares.peers) if self.shares is not None else None

    def view(self, name: str, role: str, **of_the_books: Any) -> NodeView:
        """``of_the_books``: ``virtual_workers``, ``age_s``, ``host``."""
        measured = {name: getattr(self, name) for name in _MEASURED}
        return NodeView(name, role, **{**measured, **of_the_books})


def mean_parts(workers: Iterable[NodeSummary]) -> StepParts | None:
    """Where the time of all workers together goes, for a ``Period``; None: none of them says."""
    known = [shares for worker in workers if (shares := worker.shares) is not None]
    seconds = sum(shares.seconds for shares in known)
    if not seconds:
        return None
    data = sum(shares.data * shares.seconds for shares in known) / seconds
    peers = sum(shares.peers * shares.seconds for shares in known) / seconds
    return StepParts(data, max(0.0, 1.0 - data - peers), peers)


_MEASURED = {field.name for field in fields(NodeSummary)} & {field.name for field in fields(NodeView)}
