"""Liveness of nodes: heartbeats of agents, progress of programs. Neither is journaled; they are too frequent.

``NodeBook`` (``core/nodes/book.py``) feeds it and asks it which nodes have been silent for too long. Progress is expected from the
start of a program on, whether or not anybody has reported any before: a program may hang in its very first shard. A restarted
master knows no earlier progress and counts from its own start.
"""

from __future__ import annotations

from pliant.core.nodes.fault_policy import FaultPolicy
from pliant.core.nodes.states import Node, NodeState, RoleSpec


class Liveness:
    def __init__(self, policy: FaultPolicy) -> None:
        self._policy = policy
        self._seen: dict[str, float] = {}  # last heartbeat of an agent
        self._moved: dict[str, float] = {}  # last progress or start of a program
        self._reported: set[str] = set()  # nodes whose current program has reported progress to this master

    def seen(self, node: Node, now: float) -> None:
        self._seen[node.name] = now

    def began(self, node: Node, now: float) -> None:
        """All deadlines of this node count from now on."""
        self._seen[node.name] = self._moved[node.name] = now
        self._reported.discard(node.name)

    def moved(self, node: Node, now: float) -> None:
        self._seen[node.name] = self._moved[node.name] = now
        self._reported.add(node.name)

    def excused(self, node: Node, now: float) -> None:
        self._moved[node.name] = now

    def paused(self, node: Node, now: float, seconds: float) -> None:
        """The master itself did not run for so long, which counts against nobody."""
        self._moved[node.name] = min(now, self.last_progress(node) + seconds)
        self._seen[node.name] = now

    def forget(self, node: Node) -> None:
        self._seen.pop(node.name, None)
        self._moved.pop(node.name, None)
        self._reported.discard(node.name)

    def silence(self, node: Node, now: float) -> str:
        """What is overdue from this node's agent, in words; empty: nothing."""
        silent_s = now - self._since(self._seen, node)
        if node.state is NodeState.CREATING:
            if node.waiting_since is not None:
                return ""  # unschedulable: its agent cannot register
            late = silent_s > self._policy.start_timeout
            return f"its agent did not register within {silent_s:.0f} s" if late else ""
        late = node.state is NodeState.RUNNING and silent_s > self._policy.heartbeat_timeout
        return f"no heartbeat from its agent for {silent_s:.0f} s" if late else ""

    def stall(self, node: Node, role: RoleSpec, now: float) -> str:
        """For how long its program has made no progress although it should have, in words; empty: it is not overdue.

        Of a program that is known to run, in a role that reports progress (``RoleSpec.reports_progress``).
        """
        if not role.reports_progress or node.state is not NodeState.RUNNING or node.pid is None:
            return ""
        stalled_s = now - self.last_progress(node)
        if not 0 < self._policy.progress_timeout < stalled_s:
            return ""
        never = "" if node.name in self._reported else " (none reported to this master)"
        return f"its program has made no progress for {stalled_s:.0f} s{never}"

    def last_seen(self, node: Node) -> float | None:
        """When its agent was last heard of; None: not since this master runs."""
        return self._seen.get(node.name)

    def last_progress(self, node: Node) -> float:
        """When it last made progress, or its program started."""
        return self._since(self._moved, node)

    def _since(self, times: dict[str, float], node: Node) -> float:
        """The last sign of life; before the first one, the last change of the node's state."""
        known = (times.get(node.name), node.started_at, node.accepted_at)
        return next((at for at in known if at is not None), node.created_at)
