"""The operations of ``NodeBook`` on nodes for which the platform has no room.

A request that is refused, or accepted and not scheduled, is retried with back-off and, after a while, with less (down to
the role's minimum). One that no machine of the platform is large enough for, whatever becomes free (``core/nodes/capacity.py``), is
given up after a limit.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace as changed
from typing import Any

from pliant.core.nodes.capacity import Capacity
from pliant.core.nodes.fault_policy import ExitReason, FaultPolicy, shrink_resources
from pliant.core.nodes.liveness import Liveness
from pliant.core.nodes.rollout_book import RolloutBook
from pliant.core.nodes.states import Decision, Node, NodeState, Oversized, Remove, in_words
from pliant.core.resources import Resources


class SchedulingBook(RolloutBook):
    _policy: FaultPolicy
    _liveness: Liveness

    def refused(self, now: float, *, node: str, message: str) -> list[Decision]:
        """Unschedulable: the same launch is retried later, and after a while with fewer resources."""
        found = self._find(node)
        if found is None or found.state is not NodeState.PENDING or self.closed:
            return []
        since = now if found.waiting_since is None else found.waiting_since
        delay = self._policy.unschedulable_backoff.delay(found.refusals)
        reason = f"{node} was unschedulable ({message}): attempt {found.refusals + 2}"
        asked, shrunk_at = found.resources, found.shrunk_at
        if now - (since if shrunk_at is None else shrunk_at) >= self._policy.unschedulable_shrink_after:
            asked = self._shrunk(found)
        if asked != found.resources:
            shrunk_at = now
            reason += f", after {now - since:.0f} s with reduced resources: {in_words(asked)}"
        waiting = changed(
            found,
            waiting_since=since,
            refusals=found.refusals + 1,
            resources=asked,
            shrunk_at=shrunk_at,
            relaunch_at=now + delay,
            message=message,
            reason=reason,
        )
        return [self._put(waiting).launch()]

    def unschedulable(self, now: float, *, node: str, message: str) -> list[Decision]:
        """The platform accepted the launch, and the node is Pending. This event may precede ``accepted``."""
        decisions = self.accepted(now, node=node)
        found = self._find(node)
        if found is not None and found.is_active and found.state is NodeState.CREATING:
            since = now if found.waiting_since is None else found.waiting_since
            self._put(changed(found, waiting_since=since, message=message))
        return decisions

    def room_found(self, now: float, *, node: str) -> list[Decision]:
        """It was scheduled; from now on its agent is expected."""
        found = self._find(node)
        if found is None or found.ended or found.waiting_since is None or found.state is not NodeState.CREATING:
            return []
        self._put(changed(found, waiting_since=None, message=""))
        self._liveness.began(found, now)
        return []

    def starved(self, now: float) -> list[str]:
        """Nodes that have been unschedulable for so long that they should request less; act on each by ``shrink``."""
        max_wait = self._policy.unschedulable_shrink_after
        return [
            node.name
            for node in self._nodes.values()
            if node.is_active
            and node.state is NodeState.CREATING
            and node.waiting_since is not None
            and now - node.waiting_since >= max_wait
            and self._shrunk(node) != node.resources
        ]

    def shrink(self, now: float, *, node: str) -> list[Decision]:
        """Replace an unschedulable node by one that requests less. No failure is counted: it never ran."""
        found = self._find(node)
        if found is None or self.closed or node not in self.starved(now):
            return []
        asked, waited = self._shrunk(found), now - (found.waiting_since or now)
        why = f"{node} was unschedulable for {waited:.0f} s ({found.message}): retrying with reduced resources, {in_words(asked)}"
        removal = self._remove(now, found, 0.0, why)
        version = found.resources_version
        return [removal, self._add(now, found.role, why, after=found, resources=asked, version=version)]

    def set_capacity(self, now: float, *, machines: list[dict[str, Any]] | None) -> list[Decision]:
        """What the platform could give to one node at most (``core/nodes/capacity.py``); None: it does not know."""
        self._capacity = None if machines is None else Capacity.from_json(machines)
        self._capacity_since = now
        return []

    def oversized(self, now: float) -> list[Oversized]:
        """Nodes that wait to be started and that no machine of the platform is large enough for; see ``hopeless``."""
        if self._capacity is None or self.closed:
            return []
        waiting = [node for node in self._nodes.values() if node.is_active and node.started_at is None]
        found = ((node, self._capacity.problem(node.resources)) for node in waiting)
        return [
            Oversized(
                n.name, why, max(n.created_at, self._capacity_since), shrinks=not self._capacity.problem(self._least(n))
            )
            for n, why in found
            if why
        ]

    @property
    def give_up_after(self) -> float:
        """Seconds for which a node is waited for that no machine is large enough for; 0: for ever."""
        return self._policy.unschedulable_give_up_after

    @property
    def shrink_after(self) -> float:
        """Seconds for which an unschedulable node is waited for before less is requested."""
        return self._policy.unschedulable_shrink_after

    def hopeless(self, now: float) -> list[Oversized]:
        """Those for which a larger machine, or a smaller request, was waited for long enough; act on each by ``abandon``.

        Not those that will be requested with so little that there is a machine for them.
        """
        limit = self.give_up_after
        return [found for found in self.oversized(now) if not found.shrinks and 0 < limit <= now - found.since]

    def abandon(self, now: float, *, node: str) -> list[Decision]:
        """Give up a node that can never be started, and its line with it."""
        problem = next((found.problem for found in self.hopeless(now) if found.node == node), "")
        found = self._find(node)
        if found is None or not problem:
            return []
        limit = f"{self.give_up_after:g} s (fault.unschedulable.give_up_after)"
        self._end(now, found, NodeState.FAILED, ExitReason.UNKNOWN, "no machine is large enough")
        self._put(changed(self._nodes[node], removal=problem, removal_grace=0.0))
        return [Remove(node, 0.0, problem), *self._give_up(found, ExitReason.UNKNOWN, f"{problem}; waited {limit}")]

    # --- inside ---

    def _shrunk(self, node: Node) -> Resources:
        minimum = self._roles[node.role].spec.min_resources
        return shrink_resources(node.resources, minimum, keep_memory=node.memory_floor_mb > 0)

    def _least(self, node: Node) -> Resources:
        """What it will be requested with in the end, if there is no room for more."""
        while (less := self._shrunk(node)) != node.resources:
            node = changed(node, resources=less)
        return node.resources

    # --- of the book

    @abstractmethod
    def accepted(self, now: float, *, node: str) -> list[Decision]: ...

    @abstractmethod
    def _give_up(self, node: Node, kind: ExitReason, why: str) -> list[Decision]: ...
