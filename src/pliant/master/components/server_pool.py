"""The pool of parameter servers: as many nodes of the role as there are seats for them.

A new server is given its share when it is there. One that goes gives what it has to the others first; only then is its node
removed. A server whose node ended leaves its seat to the one that comes in its place.
"""

from __future__ import annotations

from pliant.core.end_policy import PARAMETER_SERVER
from pliant.master.components.base import Component
from pliant.master.components.nodes import NodeManager
from pliant.master.components.parameters.coordinator import ParameterCoordinator
from pliant.master.components.signals import SeatVacated, Signal


class ServerPool(Component):
    name = "servers"
    title = "pool of parameter servers"
    enabled_by = ParameterCoordinator.enabled_by

    def __init__(self, nodes: NodeManager, parameters: ParameterCoordinator) -> None:
        self._nodes = nodes
        self._parameters = parameters
        parameters.may_join = self._may_join

    def _may_join(self, node: str) -> bool:
        """One that is to go must not take the seat of its successor."""
        return all(known.is_active for known in self._nodes.book.nodes() if known.name == node)

    async def tick(self) -> None:
        """Free the seats of nodes that ended. Looked at again and again: a node may end in many ways, with its program's
        exit, by an event of the platform, or before the master was started."""
        ended = {node.name for node in self._nodes.book.nodes() if node.ended}
        for seat in self._parameters.book.seats():
            if seat.node in ended:
                self._parameters.program_gone(seat.node, for_good=True)

    def on_event(self, signal: Signal) -> None:
        if isinstance(signal, SeatVacated) and not self._is_replaced(signal.seat):
            self._remove_server(signal.node, signal.reason)

    def _is_replaced(self, seat: int) -> bool:
        """Its server leaves for one with other resources (``rollouts``), so the role has as many as before."""
        rollout = self._nodes.book.role(PARAMETER_SERVER).rollout
        return rollout is not None and rollout.seat == seat

    def _remove_server(self, node: str, reason: str) -> None:
        book = self._nodes.book
        seats = self._parameters.book.seats()
        seated = {seat.node for seat in seats}
        first = [node] if node else [n.name for n in book.active(PARAMETER_SERVER) if n.name not in seated]
        if len(seats) < book.role(PARAMETER_SERVER).spec.replicas:
            self._nodes.scale(PARAMETER_SERVER, len(seats), reason, first=first)
