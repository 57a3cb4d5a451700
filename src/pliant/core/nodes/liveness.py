"""Liveness of nodes: heartbeats of agents, progress of programs. Neither is journaled; they are too frequent.

``NodeBook`` (``core/nodes/book.py``) feeds it and asks it which nodes have been silent for too long.
"""

from __future__ import annotations

from pliant.core.nodes.fault_policy import FaultPolicy
from pliant.core.nodes.states import Node, NodeState, RoleSpec


class Liveness:
    def __init__(self, policy: FaultPolicy) -> None:
        self._policy = policy
        self._seen: dict[str, float] = {}  # last heartbeat of an agent
        self._moved: dict[str, float] = {}  # last progress or start of a program
        self._reporting_roles: set[str] = set()

    def seen(self, node: Node, now: float) -> None:
        self._seen[node.name] = now

    def began(self, node: Node, now: float) -> None:
        """All deadlines of this node count from now on."""
        self._seen[node.name] = self._moved[node.name] = now

    def moved(self, node: Node, now: float) -> None:
        self.began(node, now)
        self._reporting_roles.add(node.role)

    def excused(self, node: Node, now: float) -> None:
        self._moved[node.name] = now

    def forget(self, node: Node) -> None:
        self._seen.pop(node.name, None)
        self._moved.pop(node.name, None)

    def missing(self, node: Node, role: RoleSpec, now: float) -> str | None:
        """What is overdue from this node, in words; None: nothing.

        Progress is expected of roles that say so (``RoleSpec.reports_progress``), and of those of which any node
        has reported some to this master: a program that never reports is not mistaken for one that hangs.
        """
        policy = self._policy
        if node.state is NodeState.CREATING:
            if node.waiting_since is not None:
                return None  # unschedulable: its agent cannot register
            waited = now - self._since(self._seen, node)
            return f"its agent did not register within {waited:.0f} s" if waited > policy.start_timeout else None
        if node.state is not NodeState.RUNNING:
            return None
        silent = now - self._since(self._seen, node)
        if silent > policy.heartbeat_timeout:
            return f"its agent has been silent for {silent:.0f} s"
        is_expected = role.reports_progress or node.role in self._reporting_roles
        stalled_s = now - self._since(self._moved, node)
        if is_expected and 0 < policy.progress_timeout < stalled_s:
            return f"its program has made no progress for {stalled_s:.0f} s"
        return None

    def _since(self, times: dict[str, float], node: Node) -> float:
        """The last sign of life; before the first one, the last change of the node's state."""
        known = (times.get(node.name), node.started_at, node.accepted_at)
        return next((at for at in known if at is not None), node.created_at)
