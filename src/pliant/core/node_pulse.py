"""Signs of life of the nodes: heartbeats of agents, progress of programs. Neither is journaled; they come too often.

``NodeBook`` (``core/nodes.py``) feeds it and asks it who is silent for too long.
"""

from __future__ import annotations

from pliant.core.node_states import Node, NodeState, RoleSpec
from pliant.core.relaunch import FaultPolicy


class Pulse:
    def __init__(self, policy: FaultPolicy) -> None:
        self._policy = policy
        self._seen: dict[str, float] = {}  # an agent was heard of
        self._moved: dict[str, float] = {}  # a program got further, or began anew
        self._reporting_roles: set[str] = set()

    def seen(self, node: Node, now: float) -> None:
        self._seen[node.name] = now

    def began(self, node: Node, now: float) -> None:
        """Whatever is expected of this node is expected from now on."""
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
        """What this node owes us, in words; None: nothing.

        Progress is expected of roles that say so (``RoleSpec.reports_progress``), and of those of which any node
        has reported some to this master: a program that never reports is not taken for one that hangs.
        """
        policy = self._policy
        if node.state is NodeState.CREATING:
            if node.waiting_since is not None:
                return None  # the platform has no room for it: nobody can register
            waited = now - self._since(self._seen, node)
            return f"its agent did not register within {waited:.0f} s" if waited > policy.start_timeout else None
        if node.state is not NodeState.RUNNING:
            return None
        silent = now - self._since(self._seen, node)
        if silent > policy.heartbeat_timeout:
            return f"its agent has been silent for {silent:.0f} s"
        expected = role.reports_progress or node.role in self._reporting_roles
        still = now - self._since(self._moved, node)
        if expected and 0 < policy.progress_timeout < still:
            return f"its program has made no progress for {still:.0f} s"
        return None

    def _since(self, times: dict[str, float], node: Node) -> float:
        """The last sign; before the first one, when the node last changed its state."""
        known = (times.get(node.name), node.started_at, node.accepted_at)
        return next((at for at in known if at is not None), node.created_at)
