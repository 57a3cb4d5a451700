"""Rolling new resources out to nodes that run already: which node is next, and what may be done now.

``next_step`` is the whole policy, a pure function of a role and its active nodes. A node is *outdated* if it was launched for
an older version of its role's resources than the current one. In place, the platform resizes outdated nodes and nothing is
decided here but the end. Rolling, one is replaced at a time:

- with a *surge* where the role's maximum has room for it: a node with the new resources is launched first, and an old one
  leaves when the new one does its part. If there is no room on the platform for both, the old one leaves first after all;
- else the old one leaves first, and the new one is launched in its place.

The next one follows when no node with the new resources is still on its way: if they cannot be had, or the program does not
start with them, no more than one node is given up for it. Parameter servers move their partitions before they leave, so they
need another place for them: a single one, or all that there may be, is replaced with a surge, whatever the maximum says.

``core/nodes/rollout_book.py`` has the operations, ``master/components/rollouts.py`` carries the steps out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pliant.core.nodes.states import Node, NodeState, RoleSpec, RoleState
from pliant.core.resources import RolloutMode

MAX_WAIT_FOR_ROOM_S = 10.0  # that a surge waits for room before the old node leaves to make some


@dataclass(frozen=True, slots=True)
class Surge:
    """Launch the successor of this node beside it: one node more than wanted."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class Settle:
    """This node leaves: its successor is there, or is launched in its place. Empty: the surplus leaves."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class MoveOff:
    """This parameter server moves its partitions to the others; then it leaves."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class Finish:
    """Every node has what it should."""


@dataclass(frozen=True, slots=True)
class Wait:
    reason: str


RolloutStep: TypeAlias = Surge | Settle | MoveOff | Finish | Wait


@dataclass(frozen=True, slots=True)
class Servers:
    """What must be known of parameter servers: which nodes have a seat, and which of those serve or are to leave."""

    seated: Collection[str]
    serving: Collection[str]
    leaving: Collection[str]
    seats: Collection[int]


def outdated(role: RoleState, active: Sequence[Node]) -> list[Node]:
    """Those that a rollout has yet to reach, in the order in which it does: the youngest first, as in scaling."""
    if role.rollout is None or role.rollout.mode is RolloutMode.NEW_NODES:
        return []
    old = [node for node in active if node.resources_version < role.resources_version]
    return sorted(old, key=lambda node: node.number, reverse=True)


def next_step(
    role: RoleState,
    active: Sequence[Node],
    now: float,
    *,
    joined: Collection[str] | None = None,
    servers: Servers | None = None,
) -> RolloutStep:
    """``active``: the role's nodes. ``joined``: those that do their part (None: all whose program runs). ``servers``: the role
    is that of parameter servers."""
    rollout = role.rollout
    if rollout is None:
        return Finish()
    old = outdated(role, active)
    why = f"{role.spec.name}: {role.spec.resources} instead of {rollout.before}"
    if servers is not None and rollout.seat is not None:
        if rollout.seat in servers.seats:
            return Wait(f"moving the partitions of seat {rollout.seat} to other servers")
        gone = [node.name for node in (*old, *active) if node.name not in servers.seated]
        return Settle(gone[0] if gone else "", f"its parameters were moved to other servers ({why})")
    if role.surge and (not old or rollout.mode is not RolloutMode.ROLLING):
        seated = [node.name for node in active if servers is not None and node.name in servers.seated]
        too_many = f"one surplus node left ({why})"
        return MoveOff(seated[-1], too_many) if seated else Settle("", too_many)
    if not old:
        return Finish()
    if rollout.mode is not RolloutMode.ROLLING:
        return Wait(f"resizing {old[0].name}")
    fresh = [node for node in active if node.resources_version >= role.resources_version]
    if coming := [node for node in fresh if not _does_its_part(node, joined, servers)]:
        if role.surge and servers is None and all(_lacks_room(node, now) for node in coming):
            return Settle(old[0].name, f"not enough room to start its successor first ({why})")
        return Wait(f"{coming[0].name} is not ready yet")
    if servers is not None:
        return _next_server(role, old[0], why, servers)
    if role.surge or not _may_surge(role.spec):
        return Settle(old[0].name, why)
    return Surge(old[0].name, why)


def _next_server(role: RoleState, old: Node, why: str, servers: Servers) -> RolloutStep:
    if old.name not in servers.seated:
        return Settle(old.name, why)
    if servers.leaving:
        return Wait("a scale-down is in progress and one server is leaving")
    if role.surge or not (_may_surge(role.spec) or role.spec.replicas <= max(1, role.spec.min_replicas)):
        return MoveOff(old.name, why)
    return Surge(old.name, why)


def _may_surge(spec: RoleSpec) -> bool:
    return spec.replicas < spec.max_replicas


def _does_its_part(node: Node, joined: Collection[str] | None, servers: Servers | None) -> bool:
    if node.state is not NodeState.RUNNING or node.pid is None:
        return False
    if servers is not None:
        return node.name in servers.serving
    return joined is None or node.name in joined


def _lacks_room(node: Node, now: float) -> bool:
    return node.waiting_since is not None and now - node.waiting_since >= MAX_WAIT_FOR_ROOM_S
