"""What the journal keeps of the nodes' memory: peaks, and points of memory against records, so that a new master still forecasts.

CPU, throttling and rates are of the last minutes: a successor measures them anew in as long. How memory grows takes the life of a
node to learn, so that is journaled, cheaply: a node is noted only if it has *news*: a point that ``MemoryPoints`` would take, or
a peak that rose by ``PEAK_STEP``. Points get further apart as the job goes on, so the notes of a node grow with the
logarithm of the job's records, not with time. At most ``MAX_NODES`` are kept, each with at most ``MAX_MEMORY_POINTS`` points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pliant.core.errors import InvalidRequest
from pliant.core.planning.memory_points import MemoryPoints
from pliant.core.state_machine import StateMachine

PEAK_STEP = 1.02  # times the peak that is noted
MAX_NODES = 10_000


class UsageBook(StateMachine):
    def __init__(self) -> None:
        self._nodes: dict[str, MemoryPoints] = {}

    # --- reading

    def memory_of(self, node: str) -> MemoryPoints | None:
        """A copy; None: nothing is noted of it."""
        found = self._nodes.get(node)
        return found.copy() if found is not None else None

    def nodes(self) -> frozenset[str]:
        return frozenset(self._nodes)

    def has_news(self, node: str, records: float, peak_mb: float) -> bool:
        """Finder: whether a node is worth a note, at this number of records and with this peak."""
        found = self._nodes.get(node)
        return found is None or found.is_due(records) or peak_mb > PEAK_STEP * found.peak

    # --- the operation

    def note(self, now: float, *, records: float, memory: dict[str, list[float]], gone: list[str]) -> None:
        """``memory``: by node what it holds now and its peak, in MB. ``records``: accepted by the job so far. ``gone``: nodes that
        are not planned for any more."""
        numbers = [records, *(value for pair in memory.values() for value in pair)]
        if any(len(pair) != 2 for pair in memory.values()) or not all(0 <= n < math.inf for n in numbers):
            raise InvalidRequest("memory of a node is what it holds and its peak, in MB, neither negative")
        if len((self._nodes.keys() - set(gone)) | memory.keys()) > MAX_NODES:
            raise InvalidRequest(f"memory of more than {MAX_NODES} nodes")
        for node in gone:
            self._nodes.pop(node, None)
        for node, (held_mb, peak_mb) in memory.items():
            points = self._nodes.setdefault(node, MemoryPoints())
            points.add(records, held_mb)
            points.peak = max(points.peak, peak_mb)

    def snapshot(self) -> dict[str, Any]:
        return {"nodes": {node: points.to_json() for node, points in self._nodes.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._nodes = {node: MemoryPoints.from_json(value) for node, value in state["nodes"].items()}
