"""The operations of ``NodeBook`` that give nodes which run already the new resources of their role.

``core/nodes/rollout.py`` decides which of them is due; ``master/components/rollouts.py`` calls them. The desired resources are
``RoleSpec.resources``, with a version; each node has the resources that it was launched with or resized to, and their version.
A rollout is over when no active node has an older version; a second one replaces the first in the middle.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace as changed
from typing import Any

from pliant.core.errors import InvalidRequest
from pliant.core.nodes.rollout import outdated
from pliant.core.nodes.roster import Roster
from pliant.core.nodes.states import (
    Decision,
    Node,
    NodeState,
    Remove,
    Resize,
    Rollout,
    at_least,
    parse_resources,
)
from pliant.core.resources import RolloutMode


class RolloutBook(Roster):
    def set_resources(
        self,
        now: float,
        *,
        role: str,
        resources: dict[str, Any],
        rollout: str = RolloutMode.NEW_NODES.value,
        reason: str = "",
    ) -> list[Decision]:
        """The resources of later launches of a role. What becomes of existing nodes is said by ``rollout``: they keep theirs,
        are resized in place, or replaced one by one. Nodes that do not run yet hold nothing and are replaced at once."""
        mode = _parse_mode(rollout)
        state, wanted = self.role(role), parse_resources(resources)
        is_known = mode is not RolloutMode.NEW_NODES and self._capacity is not None and self._capacity.machines
        if is_known and self._capacity is not None and (problem := self._capacity.problem(wanted)):
            raise InvalidRequest(f"no node of the role {role} could be scheduled with these resources: {problem}")
        before, earlier, version = state.spec.resources, state.rollout, state.resources_version + 1
        if earlier is not None and earlier.mode is mode and before == wanted:
            return []  # it is on its way
        spec = changed(state.spec, resources=wanted)
        self._roles[role] = changed(state, spec=spec, resources_version=version)
        if mode is RolloutMode.NEW_NODES and earlier is None:
            return []
        begun = Rollout(mode, before, 0, reason, now, seat=earlier.seat if earlier else None)
        self._roles[role] = changed(self._roles[role], rollout=begun)
        decisions: list[Decision] = []
        for node in self.active(role) if mode is not RolloutMode.NEW_NODES else ():
            if node.resources == at_least(wanted, node.memory_floor_mb):
                self._put(changed(node, resources_version=version))
            elif node.state is NodeState.PENDING or (mode is RolloutMode.ROLLING and node.started_at is None):
                why = f"{role}: {wanted} instead of {before}"
                decisions += [self._remove(now, node, 0.0, why), self._add(now, role, why, after=node)]
        total = len(outdated(self._roles[role], self.active(role)))
        is_needed = total or state.surge or begun.seat is not None
        self._roles[role] = changed(self._roles[role], rollout=changed(begun, total=total) if is_needed else None)
        return decisions

    def surge(self, now: float, *, role: str, node: str, reason: str) -> list[Decision]:
        """One node more than wanted, until ``settle``: the successor of this one, which stays for now."""
        self._check_open("changed")
        state, old = self.role(role), self._find(node)
        if state.rollout is None or state.surge or self._suspended or old is None or not old.is_active:
            return []
        self._roles[role] = changed(state, surge=1)
        return [self._add(now, role, f"to replace {node}: {reason}", memory_floor_mb=old.memory_floor_mb)]

    def move_off(self, now: float, *, role: str, seat: int) -> list[Decision]:
        """The server of this seat leaves by ``settle`` when the seat is gone."""
        state = self.role(role)
        if state.rollout is not None:
            self._roles[role] = changed(state, rollout=changed(state.rollout, seat=seat))
        return []

    def settle(self, now: float, *, role: str, node: str, reason: str) -> list[Decision]:
        """This node leaves for one with the new resources: the one that was launched by ``surge``, or one that is launched now.
        Empty: only what is too many leaves. Nothing is counted as a failure."""
        self._check_open("changed")
        state = self.role(role)
        rollout = changed(state.rollout, seat=None) if state.rollout is not None else None
        self._roles[role] = changed(state, rollout=rollout, surge=0)
        if state.surge:
            return self._aim(now, role, state.spec.replicas, reason, [node])
        old = self._find(node) if node else None
        if old is None or not old.is_active:
            return []
        removal = self._remove(now, old, self._grace, reason)
        return [removal, self._add(now, role, f"replaces {node}: {reason}", after=old)]

    def resized(self, now: float, *, node: str, resources: dict[str, Any], version: int) -> list[Decision]:
        """The platform gave a running node these resources, in place."""
        given = parse_resources(resources)
        found = self._find(node)
        if found is not None and not found.ended:
            self._put(changed(found, resources=given, resources_version=version, message=""))
        return []

    def resize_refused(self, now: float, *, node: str, message: str) -> list[Decision]:
        """The platform cannot resize it now; it is tried again."""
        found = self._find(node)
        if found is not None and not found.ended:
            self._put(changed(found, message=message))
        return []

    def rolled_out(self, now: float, *, role: str) -> list[Decision]:
        """Every node has the resources of its role."""
        state = self.role(role)
        if state.rollout is not None and not state.surge and not outdated(state, self.active(role)):
            self._roles[role] = changed(state, rollout=None)
        return []

    # --- finders

    def resizes(self) -> list[Resize]:
        """Running nodes that are to be resized in place, until ``resized`` answers."""
        if self.closed:
            return []
        return [
            Resize(node.name, at_least(role.spec.resources, node.memory_floor_mb), role.resources_version)
            for role in self._roles.values()
            if role.rollout is not None and role.rollout.mode is RolloutMode.IN_PLACE
            for node in outdated(role, self.active(role.spec.name))
            if node.state is not NodeState.PENDING
        ]

    def outdated(self, role: str) -> list[Node]:
        """Nodes that the rollout of their role has not reached yet."""
        return outdated(self.role(role), self.active(role))

    def rollout_progress(self, role: str) -> tuple[int, int]:
        """Of its rollout: (nodes that have the new resources, nodes that had to get them)."""
        state, left = self.role(role), len(self.outdated(role))
        total = max(state.rollout.total if state.rollout else 0, left)
        return total - left, total

    # --- of the book

    @property
    @abstractmethod
    def _grace(self) -> float: ...

    @abstractmethod
    def _check_open(self, verb: str) -> None: ...

    @abstractmethod
    def _aim(self, now: float, role: str, target: int, reason: str, first: Sequence[str] = ()) -> list[Decision]: ...

    @abstractmethod
    def _remove(self, now: float, node: Node, grace: float, reason: str) -> Remove: ...


def _parse_mode(value: str) -> RolloutMode:
    try:
        mode = RolloutMode(value)
    except ValueError:
        raise InvalidRequest(f"rollout {value!r}; known: {', '.join(RolloutMode)}") from None
    if mode is RolloutMode.AUTO:
        raise InvalidRequest("the rollout mode must be chosen beforehand")
    return mode
