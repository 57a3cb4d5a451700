"""Rolls new resources out to nodes that run already, where they cannot be resized in place: one node at a time.

``core/nodes/rollout.py`` decides on each tick, from the journaled state alone, what may be done now; so a successor of a
killed master goes on where it was. A worker is removed with its grace: its program gets SIGTERM, and ends at a step boundary. A
parameter server moves its partitions to the others first (its seat *leaves*), and its node is removed once the seat is empty.

Nodes that are resized in place are the node manager's; here it is only noticed that all of them are.
"""

from __future__ import annotations

from collections.abc import Collection

from pliant.core.clock import Clock
from pliant.core.end_policy import PARAMETER_SERVER
from pliant.core.events import RolloutFinished
from pliant.core.nodes.rollout import Finish, MoveOff, RolloutStep, Servers, Settle, Surge, Wait, next_step
from pliant.core.resources import RolloutMode
from pliant.master.components.base import Component
from pliant.master.components.nodes import NodeManager
from pliant.master.components.parameters.coordinator import ParameterCoordinator
from pliant.master.components.rendezvous import RendezvousServer
from pliant.master.journal.journal import Journal


class RolloutController(Component):
    name = "rollouts"
    title = "rollout of resources"
    enabled_by = NodeManager.enabled_by

    def __init__(
        self,
        nodes: NodeManager,
        journal: Journal,
        clock: Clock,
        parameters: ParameterCoordinator | None,
        rendezvous: RendezvousServer | None,
    ) -> None:
        self._nodes = nodes
        self._journal = journal
        self._clock = clock
        self._parameters = parameters
        self._rendezvous = rendezvous

    async def tick(self) -> None:
        book = self._nodes.book
        if book.closed or book.suspended:
            return
        for name in book.roles():
            if book.role(name).rollout is not None:
                self._carry_out(name, self._next_step(name))

    def _next_step(self, name: str) -> RolloutStep:
        book = self._nodes.book
        return next_step(
            book.role(name),
            book.active(name),
            self._clock.now(),
            joined=self._joined(name),
            servers=self._servers(name),
        )

    def _carry_out(self, role: str, step: RolloutStep) -> None:
        state = self._nodes.book.role(role)
        match step:
            case Surge(node, reason):
                self._add_seats(role, 1)
                self._nodes.change("surge", {"role": role, "node": node, "reason": reason})
            case MoveOff(node):
                self._move_off(role, node)
            case Settle(node, reason):
                is_vacated = state.rollout is not None and state.rollout.seat is not None
                if is_vacated != bool(state.surge):  # else there is a seat for each node that stays
                    self._add_seats(role, 1 if is_vacated else -1)
                self._nodes.change("settle", {"role": role, "node": node, "reason": reason})
            case Finish():
                self._finish(role)
            case Wait():
                return

    def _finish(self, role: str) -> None:
        state = self._nodes.book.role(role)
        rollout, (done, _) = state.rollout, self._nodes.book.rollout_progress(role)
        self._nodes.change("rolled_out", {"role": role})
        if rollout is None or rollout.mode is RolloutMode.NEW_NODES:
            return
        self._journal.event(
            RolloutFinished(
                role=role,
                nodes=done,
                resources=state.spec.resources.to_json(),
                seconds=max(0.0, self._clock.now() - rollout.started_at),
                reason=rollout.reason,
            )
        )

    # --- who does its part

    def _joined(self, role: str) -> Collection[str] | None:
        """Members of the world, where the workers form one; None: a running program is all that can be known."""
        if self._rendezvous is None or self._rendezvous.book.world is None:
            return None
        book, active = self._rendezvous.book, {node.name for node in self._nodes.book.active(role)}
        members = {member.name for member in book.world.members} if book.world is not None else set()
        if not members & active:
            return None
        if len(members) >= book.limits.max_nodes:  # who waits could not be a member now
            members |= {member.name for member in book.waiting}
        return members

    # --- seats of parameter servers

    def _servers(self, role: str) -> Servers | None:
        if self._parameters is None or role != PARAMETER_SERVER:
            return None
        seats = self._parameters.book.seats()
        return Servers(
            seated={seat.node for seat in seats if seat.node},
            serving={seat.node for seat in seats if seat.address},
            leaving={seat.node for seat in seats if seat.leaving},
            seats={seat.number for seat in seats},
        )

    def _add_seats(self, role: str, count: int, leaving: Collection[int] = ()) -> None:
        """So many more that stay. Those that leave already still do: a person asked for fewer."""
        if self._parameters is None or role != PARAMETER_SERVER:
            return
        seats = self._parameters.book.seats()
        staying = sum(not seat.leaving for seat in seats)
        self._parameters.resize(staying + count, [*leaving, *(seat.number for seat in seats if seat.leaving)])

    def _move_off(self, role: str, node: str) -> None:
        assert self._parameters is not None
        seat = self._parameters.book.seat_of(node).number
        self._add_seats(role, -1, [seat])
        self._nodes.change("move_off", {"role": role, "seat": seat})
