"""The two phases of a push: staging the gradient on the servers, and the master's decision.

Sequence numbers rise, also across sessions; clients that share one do not use a number twice. What the master refuses stays staged
on the servers until the next push to each of them names it as void.

Neighbours: ``client`` (the caller), ``push_buffers`` (gradients of rows by server), ``routing``.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from pliant.core.errors import SessionExpired
from pliant.core.parameters.contributions import PushDecision, PushOutcome
from pliant.ps.client.push_buffers import OutgoingRows, RowBuffers
from pliant.ps.client.routing import Conversation, Route, Router
from pliant.ps.payloads import BlockGradient, Floats, Ids, Push, RowGradients
from pliant.ps.placement import blocks_of
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.parameters import push_decision

MAX_VOID = 1000  # numbers of refused pushes that one push carries

_numbers: WeakKeyDictionary[Conversation, Iterator[int]] = WeakKeyDictionary()
_numbers_lock = threading.Lock()


@dataclass(frozen=True)
class StagedPush:
    """A push that servers have, for the master to decide on."""

    session: str
    sequence: int
    route: Route
    servers: tuple[int, ...]  # that have a share of it

    def seats(self) -> list[int]:
        return [self.route.seats[server] for server in self.servers]

    def holders(self) -> list[pb.SeatHolder]:
        route = self.route
        return [pb.SeatHolder(seat=route.seats[s], fencing_token=route.fencing_tokens[s]) for s in self.servers]


class _RefusedPushes:
    """Pushes that the master refused, until the seats that have a share of them were notified with the next push."""

    def __init__(self) -> None:
        self._session = ""
        self._by_seat: dict[int, list[int]] = {}

    def add(self, staged: StagedPush) -> None:
        if staged.session != self._session:  # servers drop what a session that ended had staged
            self._session, self._by_seat = staged.session, {}
        for seat in staged.seats():
            self._by_seat.setdefault(seat, []).append(staged.sequence)

    def of(self, session: str, seat: int) -> tuple[int, ...]:
        return tuple(self._by_seat.get(seat, ())[:MAX_VOID]) if session == self._session else ()

    def mark_notified(self, seats: Iterable[int]) -> None:
        for seat in seats:
            if seat in self._by_seat:
                del self._by_seat[seat][:MAX_VOID]


class PushStager:
    def __init__(self, conversation: Conversation, router: Router, buffers: RowBuffers) -> None:
        self._conversation = conversation
        self._router = router
        self._buffers = buffers
        self._numbers = _numbers_of(conversation)
        self._refused = _RefusedPushes()

    def stage(
        self,
        *,
        dense: Mapping[str, Floats],
        rows: Mapping[str, tuple[Ids, Floats]],
        examples: int,
        based_on: int,
        assign: bool = False,
    ) -> StagedPush:
        """Send the gradients to the servers that own them, under a new number. With the same map every attempt sends the same
        under the same number, of which servers keep one."""
        numbers: dict[tuple[str, int], int] = {}  # by session and version of the map

        def attempt(route: Route) -> StagedPush:
            key = (self._conversation.name, route.map.version)
            if key not in numbers:
                numbers[key] = next(self._numbers)
            session, sequence = key[0], numbers[key]
            send = {}
            for server, (r, b) in self._by_server(route, dense, rows, assign).items():
                void = self._refused.of(session, route.seats[server])
                send[server] = _send_push(Push(session, sequence, examples, based_on, tuple(r), tuple(b), void=void))
            self._router.ask(send, lambda _, connection: connection.receive_pushed())
            staged = StagedPush(session, sequence, route, tuple(send))
            self._refused.mark_notified(staged.seats())
            return staged

        return self._router.call_with_retry(attempt, "a push")

    def decide(
        self, method: Any, request: pb.AssignRequest | pb.ContributeRequest, staged: StagedPush
    ) -> pb.ContributeReply | None:
        """The master's decision; None: the session had ended, and everything has to be done again."""
        try:
            if staged.session != self._conversation.name:  # another thread has opened a new one
                raise SessionExpired("the session in which a push was staged has ended")
            reply: pb.ContributeReply = self._conversation.call_with_retry(method, request)
        except SessionExpired:
            self._conversation.renew(staged.session)
            return None
        self.settle(staged, reply)
        return reply

    def settle(self, staged: StagedPush, reply: pb.ContributeReply) -> PushDecision:
        """What follows from the master's decision for the pushes to come."""
        decision = push_decision(reply)
        if decision.outcome not in (PushOutcome.ACCEPTED, PushOutcome.REPEATED):
            self._refused.add(staged)
        if decision.outcome is PushOutcome.MOVED and self._router.route is staged.route:
            self._router.refresh(newer=True)
        return decision

    def withdraw(self, staged: StagedPush) -> None:
        """The master is not asked about it, as if it had refused it."""
        self._refused.add(staged)

    def _by_server(
        self, route: Route, dense: Mapping[str, Floats], rows: Mapping[str, tuple[Ids, Floats]], assign: bool
    ) -> dict[int, tuple[list[RowGradients], list[BlockGradient]]]:
        out: dict[int, tuple[list[RowGradients], list[BlockGradient]]] = {}
        for name, gradient in dense.items():
            for number, (first, length) in enumerate(blocks_of(gradient.size)):
                block = BlockGradient(name, number, gradient[first : first + length], assign)
                out.setdefault(route.block_server(name, number), ([], []))[1].append(block)
        outgoing = OutgoingRows(route.owner, len(route.seats), self._router.connection, self._buffers)
        for table, (ids, gradients) in rows.items():
            outgoing.add(table, ids, gradients)
        for server, several in outgoing.by_server.items():
            out.setdefault(server, ([], []))[0].extend(several)
        return out


def _numbers_of(conversation: Conversation) -> Iterator[int]:
    """One row of numbers for all clients of a program: the master and the servers know a push by session and number."""
    with _numbers_lock:
        return _numbers.setdefault(conversation, itertools.count(1))


def _send_push(push: Push) -> Any:
    return lambda connection: connection.send_push(push)
