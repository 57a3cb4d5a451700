"""Optimize events: what the administor of a job has noticed, and wants to be dealt with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EventKind(StrEnum):
    """In the order in which they are dealt with."""

    CREATED = "created"  # how shall it begin?
    OUT_OF_MEMORY = "out-of-memory"
    MEMORY_GROWS = "memory-grows"  # towards the limit
    UNSCHEDULABLE = "unschedulable"
    SLOW_WORKER = "slow-worker"
    SERVERS_UNEVEN = "servers-uneven"  # one is busy, others are not: partitions are in the wrong place
    SERVERS_BUSY = "servers-busy"  # all are: there are too few, or too small
    MEASURED = "measured"  # something new is known of the job's speed


URGENT = frozenset(
    {
        EventKind.CREATED,
        EventKind.OUT_OF_MEMORY,
        EventKind.MEMORY_GROWS,
        EventKind.UNSCHEDULABLE,
        EventKind.SLOW_WORKER,
    }
)
"""Raised also while a plan settles."""


@dataclass(frozen=True, slots=True)
class OptimizeEvent:
    kind: EventKind
    facts: str  # for people
    key: str  # equal for the same state of affairs: an event is raised once for each

    @property
    def is_urgent(self) -> bool:
        return self.kind in URGENT
