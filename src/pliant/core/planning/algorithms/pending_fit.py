"""Nodes that wait for room: the largest shape that fits, at least the minimum.

First fewer nodes (those that run, and of the waiting ones as many as there is room for); at the minimum number, less CPU for
each, as far as the bounds allow. Memory is never cut: a node that starts with too little only dies.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from pliant.core.planning.configuration import RoleBounds, Shape
from pliant.core.planning.history import JobHistory
from pliant.core.planning.objectives import SERVER, WORKER, shape_of, with_shape
from pliant.core.planning.proposal import Proposal
from pliant.core.plurals import counted


@dataclass(frozen=True, slots=True)
class PendingFit:
    name: str = "pending_fit"
    patience_s: float = 60.0
    blind_patience_s: float = 300.0  # if nobody says what is free

    def __call__(self, history: JobHistory, now: float) -> Proposal | None:
        if not history.pending or history.pending_since is None:
            return None
        waited = now - history.pending_since
        if waited < (self.patience_s if history.room is not None else self.blind_patience_s):
            return None
        new = history.configuration
        waiting = Counter(name.rpartition("-")[0] for name in history.pending)
        for role in (WORKER, SERVER):
            shape = shape_of(new, role)
            bounds = history.bounds.worker if role == WORKER else history.bounds.server
            if shape is not None and bounds is not None and waiting[role]:
                new = with_shape(new, role, self._fitting(history, bounds, shape, waiting[role]))
        if new == history.configuration or not history.bounds.allows(new):
            return None
        nodes = counted(len(history.pending), "node")
        return Proposal(self.name, f"{nodes} unschedulable for {waited:.0f} s: {new} fits", new, urgent=True)

    def _fitting(self, history: JobHistory, bounds: RoleBounds, shape: Shape, waiting: int) -> Shape:
        room = history.room
        startable = 0
        if room is not None:
            by_cpu = int(room.free_cpu / shape.cpu) if shape.cpu else waiting
            by_memory = int(room.free_memory_mb / shape.memory_mb) if shape.memory_mb else waiting
            is_too_large = 0 < room.largest_cpu < shape.cpu or 0 < room.largest_memory_mb < shape.memory_mb
            startable = 0 if is_too_large else max(0, min(waiting, by_cpu, by_memory))
        running = max(0, shape.replicas - waiting)
        fewer = bounds.clip(replace(shape, replicas=running + startable))
        missing = fewer.replicas - running
        if missing <= startable or room is None or not shape.cpu:
            return fewer
        each = min(room.free_cpu / missing, room.largest_cpu or shape.cpu)  # the minimum does not fit: smaller nodes
        return bounds.clip(replace(fewer, cpu=round(each, 2))) if 0 < each < shape.cpu else fewer
