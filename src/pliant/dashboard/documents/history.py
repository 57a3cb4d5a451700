"""What a job's events say of its past, folded one by one: lines of nodes with their intervals, restarts with their reasons.

A *line* is a node and its replacements (``core/nodes/states.py``). Memory is bounded: of each line the newest intervals are
kept, and the oldest lines that have ended are dropped first.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pliant.core.events import (
    EventKind,
    EventRecord,
    ExitCause,
    GroupFormed,
    JobEnded,
    NodeEnded,
    NodeLaunched,
    NodeRemoved,
    NodeRunning,
    NodeScheduled,
    NodeUnschedulable,
    ProgramExited,
    ProgramRestarted,
)
from pliant.core.nodes.fault_policy import ExitReason

MAX_LINES = 2000
MAX_INTERVALS = 200  # of a line
MAX_NODES = 50  # of a line, whose names are kept
MAX_NOTED = 500  # events of one subject
MAX_TEXT = 500  # characters of a message

PENDING, CREATING, RUNNING, RESTARTING, REMOVING = "Pending", "Creating", "Running", "Restarting", "Removing"

MOVES = frozenset({EventKind.PS_MOVE, EventKind.PS_LEAVING, EventKind.PS_RETIRED, EventKind.PS_SEAT_TAKEN})
REQUESTS = frozenset(
    {
        EventKind.CHANGE,
        EventKind.CHANGE_REFUSED,
        EventKind.CHANGE_NOTE,
        EventKind.SCALE,
        EventKind.ROLLOUT,
        EventKind.ROLLED_OUT,
        EventKind.PLANNER_PAUSED,
        EventKind.ALGORITHM_FAILED,
        EventKind.QUOTA_GRANTED,
    }
)


@dataclass(slots=True)
class Interval:
    node: str
    state: str
    start: float
    end: float | None = None
    exit_reason: str | None = None
    message: str = ""
    run: int = 0  # of the program on this node

    def to_json(self) -> dict[str, Any]:
        return {
            "node": self.node,
            "state": self.state,
            "start": round(self.start, 3),
            "end": None if self.end is None else round(self.end, 3),
            "exit_reason": self.exit_reason,
            "message": self.message,
            "run": self.run,
        }


@dataclass(slots=True)
class Line:
    name: str
    role: str
    number: int
    nodes: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_NODES))
    intervals: deque[Interval] = field(default_factory=lambda: deque(maxlen=MAX_INTERVALS))
    cut: int = 0  # intervals that were dropped
    version: int = 0  # rises with each change

    @property
    def newest(self) -> Interval | None:
        return self.intervals[-1] if self.intervals else None

    def close(self, at: float, exit_reason: str | None = None, message: str = "") -> None:
        """The open interval ends; an exit reason goes to the newest one, open or not, that has none."""
        newest = self.newest
        if newest is None:
            return
        if newest.end is None or newest.end > at:
            newest.end = max(at, newest.start)
        elif exit_reason is None or newest.exit_reason is not None:
            return
        if exit_reason is not None and newest.exit_reason is None:
            newest.exit_reason, newest.message = exit_reason, message[:MAX_TEXT]
        self.version += 1

    def open(self, node: str, state: str, at: float, message: str = "", run: int = 0) -> None:
        self.close(at)
        self.cut += len(self.intervals) == MAX_INTERVALS
        self.intervals.append(Interval(node, state, at, message=message[:MAX_TEXT], run=run))
        self.version += 1


@dataclass
class Restarts:
    programs: int = 0  # in place
    nodes: int = 0  # replacements
    reasons: Counter[str] = field(default_factory=Counter)

    def to_json(self) -> dict[str, Any]:
        return {"programs": self.programs, "nodes": self.nodes, "reasons": dict(self.reasons.most_common())}


class EventHistory:
    def __init__(self) -> None:
        self.last = 0  # number of the newest event
        self.lines: dict[str, Line] = {}
        self.restarts = Restarts()
        self.moves: deque[dict[str, Any]] = deque(maxlen=MAX_NOTED)  # of parameters
        self.requests: deque[dict[str, Any]] = deque(maxlen=MAX_NOTED)  # for changes, and what planned them
        self.dropped_lines = 0
        self._line_of: dict[str, str] = {}
        self._exits: dict[str, str] = {}  # node -> reason of its newest end

    def add(self, records: Iterable[EventRecord]) -> None:
        for record in records:
            if record.number > self.last:
                self.last = record.number
                self._add(record)

    def line_of(self, node: str) -> Line | None:
        return self.lines.get(self._line_of.get(node, ""))

    def adopt(self, node: str, replaces: str, created_at: float) -> Line:
        """Of a node that no event is known of, such as one that was taken over."""
        return self._line(node, replaces) if self.line_of(node) is None else self.lines[self._line_of[node]]

    def _add(self, record: EventRecord) -> None:
        if record.kind in MOVES:
            self.moves.append(record.to_json())
        if record.kind in REQUESTS:
            self.requests.append(record.to_json())
        at, event = record.time, record.event
        line = self.line_of(record.node)
        match event:
            case NodeLaunched():
                self._launched(event, at)
            case GroupFormed():
                self._group_runs(at)
            case JobEnded():
                for each in self.lines.values():
                    each.close(at)
        if line is None:
            return
        match event:
            case NodeUnschedulable():
                if line.newest is None or line.newest.state != PENDING:
                    line.open(event.node, PENDING, at, event.reason)
            case NodeScheduled():
                line.open(event.node, CREATING, at)
            case NodeRunning():
                line.open(event.node, RUNNING, at)
            case ProgramExited():
                self._exits[event.node] = event.exit_reason.value
                line.close(at, event.exit_reason.value, event.message)
                if event.cause is ExitCause.GROUP:
                    line.open(event.node, RESTARTING, at, "with its group", run=event.incarnation + 1)
            case ProgramRestarted():
                self.restarts.programs += 1
                self.restarts.reasons[self._exits.get(event.node, ExitReason.UNKNOWN.value)] += 1
                line.open(event.node, RESTARTING, at, event.reason, run=event.incarnation)
                line.open(event.node, RUNNING, at + event.delay_s, run=event.incarnation)
            case NodeEnded():
                self._exits[event.node] = event.exit_reason.value
                line.close(at, event.exit_reason.value, event.message)
            case NodeRemoved():
                if line.newest is not None and line.newest.end is None:
                    line.open(event.node, REMOVING, at, event.reason, run=line.newest.run)

    def _launched(self, event: NodeLaunched, at: float) -> None:
        line = self._line(event.node, event.replaces)
        if event.replaces:
            self.restarts.nodes += 1
            self.restarts.reasons[self._exits.pop(event.replaces, ExitReason.UNKNOWN.value)] += 1
        line.open(event.node, CREATING, at, event.reason)

    def _line(self, node: str, replaces: str) -> Line:
        name = self._line_of.get(replaces, node)
        line = self.lines.get(name)
        if line is None:
            name = node
            role, _, number = name.rpartition("-")
            self._make_room()
            line = self.lines[name] = Line(name, role, int(number) if number.isdecimal() else 0)
        if len(line.nodes) == MAX_NODES:
            self._line_of.pop(line.nodes[0], None)
        line.nodes.append(node)
        self._line_of[node] = name
        return line

    def _group_runs(self, at: float) -> None:
        for line in self.lines.values():
            newest = line.newest
            if newest is not None and newest.state == RESTARTING and newest.end is None:
                line.open(newest.node, RUNNING, at, run=newest.run)

    def _make_room(self) -> None:
        if len(self.lines) < MAX_LINES:
            return
        ended = (name for name, line in self.lines.items() if line.newest is not None and line.newest.end is not None)
        line = self.lines.pop(next(ended, next(iter(self.lines))))
        self.dropped_lines += 1
        for node in line.nodes:
            self._line_of.pop(node, None)
            self._exits.pop(node, None)
