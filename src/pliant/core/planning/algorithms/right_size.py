"""Less memory for nodes that use much less than what is requested: at their next restart, never by a restart of its own.

By the peak over all nodes of a role, plus 15 %. Never below what a node of the role once ran out of, plus 20 %, nor below what it
will need before the end if it still grows.

CPU is not cut by what is used of it: a node that computes on all of its cores for half of the time uses half of them, and with half
of them it is slower. What other CPU would bring is for ``plan_job`` to say, which measures and judges it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from pliant.core.planning.algorithms.memory_forecast import forecast
from pliant.core.planning.configuration import Shape
from pliant.core.planning.history import JobHistory, NodeView
from pliant.core.planning.objectives import SERVER, WORKER, difference, shape_of, with_shape
from pliant.core.planning.proposal import Proposal

MARGIN = 1.15
OOM_MARGIN = 1.2


@dataclass(frozen=True, slots=True)
class RightSize:
    name: str = "right_size"
    used: float = 0.6  # share of what is requested: above that it stays
    min_age_s: float = 1800.0

    def __call__(self, history: JobHistory, now: float) -> Proposal | None:
        new = history.configuration
        for role in (WORKER, SERVER):
            shape = shape_of(new, role)
            if shape is not None:
                new = with_shape(new, role, self._smaller(history, role, shape))
        if new == history.configuration or not history.bounds.allows(new):
            return None
        reason = f"nodes use less than requested: {difference(history.configuration, new)} from the next restart on"
        return Proposal(self.name, reason, new, at_next_restart=True)

    def _growth(self, history: JobHistory, nodes: Sequence[NodeView]) -> float:
        """What the fullest needs at the job's end; infinite if that is unknown and it grows."""
        left = history.remaining_records
        found = [forecast(node, left if left is not None else 0) for node in nodes]
        growing = [memory for memory in found if memory is not None]
        return 0.0 if not growing else max(growing) * MARGIN if left is not None else inf

    def _smaller(self, history: JobHistory, role: str, shape: Shape) -> Shape:
        nodes = [node for node in history.nodes if node.role == role]
        bounds = history.bounds.worker if role == WORKER else history.bounds.server
        if not nodes or bounds is None or min(node.age_s for node in nodes) < self.min_age_s:
            return shape
        memory = shape.memory_mb
        fullest = max(node.memory_peak_mb for node in nodes)
        ran_out = max((oom.limit_mb for oom in history.out_of_memory if oom.role == role), default=0.0)
        needed = max(fullest * MARGIN, ran_out * OOM_MARGIN, self._growth(history, nodes))
        if memory and fullest > 0 and needed <= self.used * memory:
            memory = round(needed)
        smaller = bounds.clip(replace(shape, memory_mb=memory))
        return smaller if smaller.cpu == shape.cpu and smaller.memory_mb <= shape.memory_mb else shape
