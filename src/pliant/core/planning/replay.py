"""A recorded job, seen again as it was at the end of each of its periods.

What is recorded is the job's last history, with all of its periods. At an earlier *moment* an algorithm sees what was known then,
as far as that can be told: the periods until then, their newest configuration as the present one, nodes that had run out of memory.
Records, room and budget that were left then are those that are left now and what the job took since. Views of nodes are only of
the last configuration: they are shown where it is that one, and nothing of nodes is known elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from pliant.core.planning.configuration import Configuration
from pliant.core.planning.history import JobHistory, Period, Room
from pliant.core.planning.objectives import is_alike


@dataclass(frozen=True, slots=True)
class RecordedJob:
    name: str
    history: JobHistory  # as it was known last, with all periods


@dataclass(frozen=True, slots=True)
class Moment:
    """The end of a period."""

    period: int  # its index
    history: JobHistory  # as it was known then
    now: float
    rate: float  # of that period


def moments(job: RecordedJob) -> Iterator[Moment]:
    """Oldest first. At the last one nothing is left to be compared with, but the algorithm can still be content or not."""
    for index, period in enumerate(job.history.periods):
        yield Moment(index, _known_then(job.history, index), period.ended, period.rate)


def _known_then(last: JobHistory, index: int) -> JobHistory:
    period, later = last.periods[index], last.periods[index:]
    present = period.configuration
    spans = [(after, max(0.0, after.ended - before.ended)) for before, after in pairwise(later)]
    return replace(
        last,
        configuration=present,
        periods=last.periods[: index + 1],
        remaining_records=_plus(last.remaining_records, sum(after.rate * seconds for after, seconds in spans)),
        budget_node_s=_left(last.budget_node_s, spans),
        settling_since=None,
        nodes=last.nodes if is_alike(present, last.configuration) else (),
        pending=(),
        pending_since=None,
        out_of_memory=tuple(oom for oom in last.out_of_memory if oom.time <= period.ended),
        similar=tuple(other for other in last.similar if other.ended <= period.ended),
        room=_room_beside(last.room, last.configuration, present),
        replaced_stragglers=last.replaced_stragglers if len(later) == 1 else 0,
    )


def _plus(records: int | None, more: float) -> int | None:
    return None if records is None else records + round(more)


def _left(budget: float | None, spans: list[tuple[Period, float]]) -> float | None:
    return None if budget is None else budget + sum(p.configuration.nodes * seconds for p, seconds in spans)


def _room_beside(room: Room | None, last: Configuration, present: Configuration) -> Room | None:
    """What was free, if the rest of the cluster was as it is now."""
    if room is None:
        return None
    cpu, memory_mb = _taken(last, present)
    return replace(
        room, free_cpu=max(0.0, room.free_cpu + cpu), free_memory_mb=max(0.0, room.free_memory_mb + memory_mb)
    )


def _taken(last: Configuration, present: Configuration) -> tuple[float, float]:
    """By the last configuration beyond the present one."""
    cpu = memory_mb = 0.0
    for sign, configuration in ((1, last), (-1, present)):
        for shape in (configuration.worker, configuration.server):
            if shape is not None:
                cpu += sign * shape.replicas * shape.cpu
                memory_mb += sign * shape.replicas * shape.memory_mb
    return cpu, memory_mb
