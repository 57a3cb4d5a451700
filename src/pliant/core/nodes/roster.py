"""The records behind ``NodeBook``: the nodes of the job by name, their states, and the snapshot of both.

Nothing is decided here (``core/nodes/book.py`` does), but three invariants are held here: names are never reused, a
replacement inherits its line's counts and memory, and only the latest ended nodes are remembered, with the one that the job
failed for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace as changed
from typing import Any

from pliant.core.errors import InvalidRequest, NotFound
from pliant.core.nodes.capacity import Capacity
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.nodes.hosts import HostRecord, hosts_of
from pliant.core.nodes.states import FailJob, Launch, Node, NodeState, RoleSpec, RoleState, at_least
from pliant.core.resources import Resources
from pliant.core.shares import ceil_share
from pliant.core.state_machine import StateMachine

DEFAULT_KEEP_ENDED = 200  # ended nodes that are remembered


class Roster(StateMachine):
    def __init__(self, roles: Mapping[str, RoleSpec], *, keep_ended: int = DEFAULT_KEEP_ENDED) -> None:
        for spec in roles.values():
            spec.check()
        self._keep_ended = max(1, keep_ended)
        self._roles = {spec.name: RoleState(spec) for spec in roles.values()}
        self._nodes: dict[str, Node] = {}  # in the order of their creation
        self._ended: list[str] = []  # in the order of their end
        self._started = False
        self._stopped: str | None = None
        self._failure: FailJob | None = None
        self._suspended = ""
        self._suspended_at = 0.0
        self._hosts = HostRecord()
        self._capacity: Capacity | None = None  # None: not known
        self._capacity_since = 0.0

    @property
    def suspended(self) -> str:
        """Why the job is suspended; empty: it is not."""
        return self._suspended

    @property
    def suspended_at(self) -> float:
        """When the suspension began; 0: the job is not suspended, or was from the start."""
        return self._suspended_at

    @property
    def started(self) -> bool:
        return self._started

    @property
    def stopped(self) -> str | None:
        """Why the job is being stopped; None: it is not."""
        return self._stopped

    @property
    def capacity(self) -> Capacity | None:
        """What the platform could give to one node at most; None: it is not known."""
        return self._capacity

    @property
    def failure(self) -> FailJob | None:
        return self._failure

    @property
    def closed(self) -> bool:
        """Nothing more is launched."""
        return self._stopped is not None or self._failure is not None

    def roles(self) -> list[str]:
        return list(self._roles)

    def role(self, name: str) -> RoleState:
        if name not in self._roles:
            raise NotFound(f"unknown role {name!r}; known: {', '.join(self._roles) or 'none'}")
        return self._roles[name]

    def nodes(self) -> list[Node]:
        """All that are remembered, in the order of their creation."""
        return list(self._nodes.values())

    def get(self, name: str) -> Node:
        node = self._find(name)
        if node is None:
            raise NotFound(f"node {name!r} ended long ago and its record was deleted")
        return node

    def live(self, role: str | None = None) -> list[Node]:
        """Not ended, those being removed included."""
        return [n for n in self._nodes.values() if not n.ended and role in (None, n.role)]

    def active(self, role: str) -> list[Node]:
        """Not ended, and not being removed."""
        return [n for n in self._nodes.values() if n.is_active and n.role == role]

    def all_done(self, role: str) -> bool:
        """Each line of the role finished or is gone; none runs or waits."""
        self.role(role)
        return self._started and not self.live(role)

    def all_blocked(self, role: str) -> bool:
        """All that have not ended are unschedulable."""
        return all(node.started_at is None and node.waiting_since is not None for node in self.live(role))

    def counts(self, role: str) -> dict[NodeState, int]:
        """Remembered nodes by state. What counts for ever (lines finished, given up) is in ``role(name)``."""
        self.role(role)
        counts = dict.fromkeys(NodeState, 0)
        for node in self._nodes.values():
            counts[node.state] += node.role == role
        return counts

    def due(self, now: float) -> list[Launch]:
        """Launches whose time has come and that the platform has not answered yet."""
        found = [node.launch() for node in self._waiting() if node.relaunch_at <= now]
        avoid = self._hosts.avoided(now, hosts_of(self._nodes)) if found else ()
        return [changed(launch, avoid_hosts=avoid) for launch in found] if avoid else found

    def next_due(self) -> float | None:
        """When the next launch is due."""
        return min((node.relaunch_at for node in self._waiting()), default=None)

    def _waiting(self) -> list[Node]:
        if self.closed:
            return []
        return [node for node in self._nodes.values() if node.state is NodeState.PENDING]

    def snapshot(self) -> dict[str, Any]:
        return {
            "roles": {name: state.to_json() for name, state in self._roles.items()},
            "nodes": [node.to_json() for node in self._nodes.values()],
            "ended": list(self._ended),
            "started": self._started,
            "stopped": self._stopped,
            "failure": self._failure.to_json() if self._failure else None,
            "suspended": self._suspended,
            "suspended_at": self._suspended_at,
            "hosts": self._hosts.snapshot(),
            "capacity": self._capacity.to_json() if self._capacity is not None else None,
            "capacity_since": self._capacity_since,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._roles = {name: RoleState.from_json(value) for name, value in state["roles"].items()}
        self._nodes = {value["name"]: Node.from_json(value) for value in state["nodes"]}
        self._ended = list(state["ended"])
        self._started, self._stopped = state["started"], state["stopped"]
        self._failure = FailJob.from_json(state["failure"]) if state["failure"] else None
        self._suspended, self._suspended_at = state["suspended"], state["suspended_at"]
        self._hosts = HostRecord()
        self._hosts.restore(state["hosts"])
        machines = state.get("capacity")
        self._capacity = Capacity.from_json(machines) if machines is not None else None
        self._capacity_since = state.get("capacity_since", 0.0)

    # --- for the book ---

    def _find(self, name: str) -> Node | None:
        """None: it is no longer remembered, so this event is late."""
        node = self._nodes.get(name)
        if node is None and not self._existed(name):
            raise NotFound(f"node {name!r} not found")
        return node

    def _existed(self, name: str) -> bool:
        try:
            role, number = self._number(name)
        except InvalidRequest:
            return False
        return number < self._roles[role].next_number

    def _number(self, name: str) -> tuple[str, int]:
        """The role and the number of a name that a node of this job can have."""
        role, _, digits = name.rpartition("-")
        if role in self._roles and digits.isascii() and digits.isdecimal() and len(digits) < 19:
            number = int(digits)
            if name == f"{role}-{number}":
                return role, number
        raise InvalidRequest(f"{name!r} is not a node of this job")

    def _put(self, node: Node) -> Node:
        self._nodes[node.name] = node
        return node

    def _add(
        self,
        now: float,
        role: str,
        reason: str,
        *,
        after: Node | None = None,
        delay: float = 0.0,
        resources: Resources | None = None,
        version: int | None = None,
        memory_floor_mb: int = 0,
    ) -> Launch:
        """A new node, as the first of its line or after another, whose record it inherits. ``version``: of the role's
        resources that it was launched for, if they are not the current ones. ``memory_floor_mb``: what others needed."""
        state = self._roles[role]
        self._roles[role] = changed(state, next_number=state.next_number + 1)
        name = f"{role}-{state.next_number}"
        floor = max(memory_floor_mb, after.memory_floor_mb if after else 0)
        resources = at_least(resources or state.spec.resources, floor)
        node = Node(
            name=name,
            role=role,
            number=state.next_number,
            lineage=after.lineage if after else name,
            replaces=after.name if after else None,
            failures=after.failures if after else {},
            resources=resources,
            memory_floor_mb=floor,
            resources_version=state.resources_version if version is None else version,
            high_priority=self._gets_high_priority(role),
            reason=reason,
            created_at=now,
            relaunch_at=now + delay,
        )
        return self._put(node).launch()

    def _gets_high_priority(self, role: str) -> bool:
        spec = self._roles[role].spec
        wanted = ceil_share(spec.high_share, spec.replicas)
        return sum(node.high_priority for node in self.active(role)) < wanted

    def _end(self, now: float, node: Node, state: NodeState, kind: ExitReason | None, message: str) -> None:
        self._put(changed(node, state=state, exit_reason=kind, message=message, ended_at=now, pid=None))
        self._ended.append(node.name)
        cause = self._failure.node if self._failure is not None else None  # stays: its message says why the job failed
        for name in [name for name in self._ended[: -self._keep_ended] if name != cause]:
            del self._nodes[name]
            self._ended.remove(name)
