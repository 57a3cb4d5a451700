"""The optimize processor: from an event of a job to the algorithms that deal with it, in order. Pure.

Different problems have different algorithms: load that is uneven over servers is mended by moving partitions, servers that are all
busy by more or larger ones. A job's own choice (``optimize.algorithms``) bounds it: of the chain of an event only those that it
names are asked, and those of a team's own are asked whenever something new was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pliant.brain.optimize_events import EventKind
from pliant.core.planning.registry import BUILT_IN

CHAINS: Mapping[EventKind, tuple[str, ...]] = {
    EventKind.CREATED: ("create_from_history",),
    EventKind.OUT_OF_MEMORY: ("oom_recover", "memory_forecast"),
    EventKind.MEMORY_GROWS: ("memory_forecast",),
    EventKind.UNSCHEDULABLE: ("pending_fit",),
    EventKind.SLOW_WORKER: ("straggler",),
    EventKind.SERVERS_UNEVEN: ("hot_ps",),
    EventKind.SERVERS_BUSY: ("plan_job", "probe", "hot_ps"),
    EventKind.MEASURED: ("hot_ps", "plan_job", "probe", "straggler", "right_size"),
}


def chain_of(kind: EventKind, chosen: Sequence[str] = ()) -> tuple[str, ...]:
    """``chosen``: by the job's description; empty: all."""
    built_in = CHAINS[kind]
    if not chosen or kind is EventKind.CREATED:
        return built_in
    if kind is EventKind.MEASURED:
        return tuple(name for name in chosen if name in built_in or name not in BUILT_IN)
    return tuple(name for name in built_in if name in chosen)
