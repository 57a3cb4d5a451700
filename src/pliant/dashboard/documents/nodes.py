"""The nodes of a job as a timeline: one row per line of replacements, its intervals by state, and what its newest node uses now."""

from __future__ import annotations

from typing import Any

from pliant.core.nodes.states import NodeState
from pliant.core.status import JobStatus, NodeStatus
from pliant.core.status_json import part_to_json
from pliant.dashboard.documents.history import CREATING, PENDING, RUNNING, EventHistory, Line

_STATES = {NodeState.PENDING: PENDING, NodeState.CREATING: CREATING, NodeState.RUNNING: RUNNING}


class NodesDocument:
    """Makes the document anew each time; rows of lines without a change of their past are not made twice."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[int, list[dict[str, Any]]]] = {}

    def make(self, status: JobStatus, history: EventHistory, *, is_over: bool) -> dict[str, Any]:
        _reconcile(status, history)
        newest = {node.name: node for node in status.nodes}
        self._made = {name: made for name, made in self._made.items() if name in history.lines}
        return {
            "time": round(status.time, 3),
            "start": round(status.started_at, 3),
            "end": round(status.ended_at, 3) if is_over and status.ended_at else None,
            "lines": {
                name: self._row(line, newest.get(line.nodes[-1]) if line.nodes else None)
                for name, line in history.lines.items()
            },
            "left_out": history.dropped_lines,
        }

    def _row(self, line: Line, node: NodeStatus | None) -> dict[str, Any]:
        version, intervals = self._made.get(line.name, (-1, []))
        if version != line.version:
            intervals = [interval.to_json() for interval in line.intervals]
            self._made[line.name] = line.version, intervals
        return {
            "role": line.role,
            "number": line.number,
            "nodes": list(line.nodes),
            "state": _state(line, node),
            "intervals": intervals,
            "cut": line.cut,
            "now": _now(node) if node is not None else None,
        }


def _state(line: Line, node: NodeStatus | None) -> str:
    newest = line.newest
    if node is None:
        return newest.state if newest is not None and newest.end is None else "Ended"
    if not node.ended and newest is not None and newest.end is None:
        return newest.state
    return node.state.value


def _now(node: NodeStatus) -> dict[str, Any]:
    found = part_to_json(node)
    found.pop("message", None)
    for key in ("cpu", "unit_seconds"):
        found[key] = round(found[key], 3)
    for key in ("memory_mb", "memory_limit_mb", "peak_memory_mb", "records_per_second"):
        found[key] = round(found[key], 1)
    return {"node": node.name, **found}


def _reconcile(status: JobStatus, history: EventHistory) -> None:
    """What the status knows and no event says: nodes that were taken over, and ends without an event."""
    for node in status.nodes:
        line = history.line_of(node.name)
        if line is None:
            line = history.adopt(node.name, node.replaces, node.created_at)
            line.open(node.name, _STATES.get(node.state, RUNNING), node.created_at)
        newest = line.newest
        if node.ended and newest is not None and newest.node == node.name:
            reason = node.exit_reason.value if node.exit_reason is not None else None
            if newest.end is None or (reason is not None and newest.exit_reason is None):
                line.close(node.ended_at or status.time, reason, node.message)
