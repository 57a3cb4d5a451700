"""The two phases of a push: staging the gradient on the servers, and the master's decision.

Sequence numbers rise, also across sessions; clients that share one do not use a number twice. What the master refuses stays staged
on the servers until the next push to each of them names it as void.

Neighbours: ``client`` (the caller), ``push_buffers`` (gradients of rows by server), ``routing``.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from pliant.core.errors import SessionExpired
from pliant.core.parameters.contributions import PushDecision, PushOutcome
from pliant.ps.client.connection import PsConnection
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


@dataclass(frozen=True)
class PushGradients:
    """What is pushed, and the numbers under which it was sent: by session and version of the map."""

    dense: Mapping[str, Floats]
    rows: Mapping[str, tuple[Ids, Floats]]
    examples: int
    based_on: int
    assign: bool = False
    numbers: dict[tuple[str, int], int] = field(default_factory=dict)


@dataclass(frozen=True)
class SentPush:
    """A push whose answers are open."""

    staged: StagedPush  # once they are all read
    pushes: Mapping[int, Push]  # by server
    connections: Mapping[int, PsConnection]


class _RefusedPushes:
    """Pushes that the master refused, until the seats that have a share of them were notified with the next push."""

    def __init__(self) -> None:
        self._session = ""
        self._by_seat: dict[int, list[int]] = {}
        self._told: dict[int, int] = {}  # by seat: how many the push that is on its way names
        self._lock = threading.Lock()  # one thread notifies while another one records a refusal

    def add(self, staged: StagedPush) -> None:
        with self._lock:
            if staged.session != self._session:  # servers drop what a session that ended had staged
                self._session, self._by_seat, self._told = staged.session, {}, {}
            for seat in staged.seats():
                self._by_seat.setdefault(seat, []).append(staged.sequence)

    def of(self, session: str, seat: int) -> tuple[int, ...]:
        with self._lock:
            found = self._by_seat.get(seat, ())[:MAX_VOID] if session == self._session else ()
            self._told[seat] = len(found)
            return tuple(found)

    def mark_notified(self, staged: StagedPush) -> None:
        """Of what a push named: more may have been refused since it was sent."""
        with self._lock:
            for seat in staged.seats():
                if staged.session == self._session and seat in self._by_seat:
                    del self._by_seat[seat][: self._told.pop(seat, 0)]


class PushStager:
    def __init__(self, conversation: Conversation, router: Router, buffers: RowBuffers) -> None:
        self._conversation = conversation
        self._router = router
        self._buffers = buffers
        self._numbers = _numbers_of(conversation)
        self._refused = _RefusedPushes()

    def stage(self, gradients: PushGradients) -> StagedPush:
        """Send the gradients to the servers that own them, under a new number, until they have them."""

        def attempt(route: Route) -> StagedPush:
            return self.receive(self.send(*self.prepare(route, gradients)))

        return self._router.call_with_retry(attempt, "a push")

    def prepare(self, route: Route, gradients: PushGradients) -> tuple[StagedPush, dict[int, Push]]:
        """What to send to each server. With the same map it is the same each time, under the same number, of which servers keep
        one."""
        key = (self._conversation.name, route.map.version)
        if key not in gradients.numbers:
            gradients.numbers[key] = next(self._numbers)
        session, sequence = key[0], gradients.numbers[key]
        pushes: dict[int, Push] = {}
        by_server = self._by_server(route, gradients.dense, gradients.rows, gradients.assign)
        for server, (r, b) in by_server.items():
            void = self._refused.of(session, route.seats[server])
            pushes[server] = Push(
                session, sequence, gradients.examples, gradients.based_on, tuple(r), tuple(b), void=void
            )
        return StagedPush(session, sequence, route, tuple(pushes)), pushes

    def send(self, staged: StagedPush, pushes: Mapping[int, Push]) -> SentPush:
        """``receive`` reads the answers."""
        connections = self._router.send({server: _send_push(push) for server, push in pushes.items()})
        return SentPush(staged, pushes, connections)

    def receive(self, sent: SentPush) -> StagedPush:
        """Once all servers have it."""
        self._router.answers(sent.connections, lambda _, connection: connection.receive_pushed())
        self._refused.mark_notified(sent.staged)
        return sent.staged

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
        self.note(staged, decision)
        if decision.outcome is PushOutcome.MOVED:
            self.replace_route(staged.route)
        return decision

    def note(self, staged: StagedPush, decision: PushDecision) -> None:
        """The part of ``settle`` that may be done by any thread."""
        if decision.outcome not in (PushOutcome.ACCEPTED, PushOutcome.REPEATED):
            self._refused.add(staged)

    def replace_route(self, outdated: Route) -> None:
        """Ask for another map, unless there is one already."""
        if self._router.route is outdated:
            self._router.refresh(newer=True)

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
