"""Where a client sends what: the master's map, and one connection to each seat's server.

A request goes to all seats concerned before the first answer is read, so that they work at the same time. If one of them does
not answer, has moved something, or is not there yet, all connections with an open answer are given up, the map is asked
for again, and the caller repeats the whole operation: everything that is sent here may be sent twice.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from pliant.core.errors import Moved, NotFound, RetryableError, ServerUnavailable
from pliant.core.parameters.partition_map import PartitionMap
from pliant.ps.client.connection import PsConnection
from pliant.ps.specs import DenseSpec, TableSpec
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import MasterClient
from pliant.rpc.parameters import definitions_from, map_from_message
from pliant.rpc.tls import TlsFiles

log = logging.getLogger(__name__)
T = TypeVar("T")

WARN_AFTER_S = 1.0  # without success; then the log says why
MAX_PAUSE_S = 0.5  # between two attempts
POLL_S = 2.0  # that a request for a newer map waits at the master


class Conversation(Protocol):
    """How a program talks to its master; ``pliant.client.session.Session`` is one."""

    master: MasterClient
    name: str

    def call_with_retry(self, method: Callable[..., Any], request: Any, timeout: float = 10.0) -> Any: ...

    def renew(self, name: str) -> None: ...


@dataclass(frozen=True)
class Route:
    """The map as a client uses it."""

    map: PartitionMap
    seats_version: int
    owner: npt.NDArray[np.int32]  # partition -> server, as an index of ``seats``
    seats: tuple[int, ...]
    addresses: tuple[str, ...]
    fencing_tokens: tuple[int, ...]
    tables: dict[str, TableSpec]
    variables: dict[str, DenseSpec]
    initialized: frozenset[str]
    iteration: int
    sync: bool
    batch: int
    push_window: int
    assigned: bool  # all servers have the first values of variables

    @classmethod
    def from_message(cls, message: pb.ParameterMap) -> Route:
        seats = tuple(seat.seat for seat in message.seats)
        servers = {seat: index for index, seat in enumerate(seats)}
        tables = [TableSpec.from_json(definition) for definition in definitions_from(message.tables)]
        variables = [DenseSpec.from_json(definition) for definition in definitions_from(message.variables)]
        return cls(
            map_from_message(message.map),
            message.seats_version,
            np.array([servers[seat] for seat in message.map.partitions], np.int32),
            seats,
            tuple(seat.address for seat in message.seats),
            tuple(seat.fencing_token for seat in message.seats),
            {spec.name: spec for spec in tables},
            {spec.name: spec for spec in variables},
            frozenset(message.initialized),
            message.iteration,
            message.sync,
            message.batch,
            message.push_window or 1,
            all(seat.order >= message.assign_order for seat in message.seats if seat.floats),
        )

    def block_server(self, variable: str, block: int) -> int:
        return self.seats.index(self.map.blocks[variable][block])


class Router:
    def __init__(self, conversation: Conversation, *, retry_timeout: float, timeout: float = 60.0) -> None:
        """``retry_timeout``: seconds without any success before a call gives up; ``timeout``: of one answer."""
        self._conversation = conversation
        self._retry_timeout = retry_timeout
        self._timeout = timeout
        self._connections: dict[tuple[str, int], PsConnection] = {}  # by address and fencing token
        self._route: Route | None = None
        self._ended = threading.Event()

    @property
    def route(self) -> Route:
        if self._route is None:
            self.refresh()
        assert self._route is not None
        return self._route

    def take(self, message: pb.ParameterMap) -> Route:
        self._route = route = Route.from_message(message)
        there = set(zip(route.addresses, route.fencing_tokens, strict=True))
        for key in [key for key in self._connections if key not in there]:
            self._connections.pop(key).close()
        return route

    def refresh(self, *, newer: bool = False) -> Route:
        """Ask the master for the map; ``newer``: wait a moment for one that is not the same."""
        known = self._route if newer else None
        request = pb.GetMapRequest(
            version=known.map.version if known else 0, seats_version=known.seats_version if known else 0
        )
        method = self._conversation.master.stubs.parameters.GetMap
        return self.take(self._conversation.call_with_retry(method, request, timeout=POLL_S if newer else 10.0))

    def connection(self, server: int) -> PsConnection:
        route = self.route
        address, fencing_token = route.addresses[server], route.fencing_tokens[server]
        if not address:
            raise ServerUnavailable(f"no server holds seat {route.seats[server]} now")
        found = self._connections.get((address, fencing_token))
        if found is None or found.closed:  # lost outside of ``ask``, or interrupted
            host, _, port = address.rpartition(":")
            master = self._conversation.master.address
            tls = master.tls if isinstance(master.tls, TlsFiles) else None  # programs have files
            found = PsConnection(host, int(port), master.token, tls=tls, timeout=self._timeout)
            self._connections[address, fencing_token] = found
        if self._ended.is_set():  # looked at once it is where ``interrupt`` finds it
            found.close()
            raise ServerUnavailable("this client was closed")
        return found

    def ask(
        self, send: dict[int, Callable[[PsConnection], None]], receive: Callable[[int, PsConnection], T]
    ) -> list[T]:
        """Send to these servers, if all can be reached, then read their answers; after any failure no answer is left half
        read."""
        return self.answers(self.send(send), receive)

    def send(self, send: Mapping[int, Callable[[PsConnection], None]]) -> dict[int, PsConnection]:
        """The first half of ``ask``; returns connections that have an open answer, for ``answers``."""
        connections = {server: self.connection(server) for server in send}
        open_ones: dict[int, PsConnection] = {}
        try:
            for server, ask in send.items():
                open_ones[server] = connections[server]
                ask(connections[server])
        except BaseException:
            self.give_up(open_ones.values())
            raise
        return open_ones

    def answers(self, connections: Mapping[int, PsConnection], receive: Callable[[int, PsConnection], T]) -> list[T]:
        """The second half."""
        open_ones = dict(connections)
        try:
            answers = []
            for server, connection in connections.items():
                answers.append(receive(server, connection))
                del open_ones[server]
            return answers
        except BaseException as error:
            self.give_up(open_ones.values())
            if isinstance(error, NotFound):  # all that is asked for is in the map
                raise RetryableError(f"a parameter server is behind the map: {error.message}") from error
            raise

    def give_up(self, connections: Iterable[PsConnection]) -> None:
        gone = list(connections)
        for key, connection in list(self._connections.items()):
            if connection in gone:
                del self._connections[key]
        for connection in gone:
            connection.close()

    def call_with_retry(self, attempt: Callable[[Route], T], what: str) -> T:
        """Until it succeeds: servers may die, be replaced, and move what they have."""
        begun = time.monotonic()
        deadline, pause, warned = begun + self._retry_timeout, 0.01, False
        while True:
            try:
                if self._ended.is_set():
                    raise ServerUnavailable("this client was closed")
                return attempt(self.route)
            except (Moved, ServerUnavailable) as error:
                problem: RetryableError = error
                if not self._ended.is_set():
                    self._refresh_after(error)
            except RetryableError as error:
                problem = error
            now = time.monotonic()
            if not warned and now - begun > WARN_AFTER_S:
                warned = True
                log.warning("%s waits: %s", what, problem)
            if now > deadline:
                raise ServerUnavailable(
                    f"{what} did not succeed within {self._retry_timeout:.0f} s: {problem.message}",
                    hint=problem.hint or "check `pliant status` and the logs of the role ps",
                ) from problem
            if self._ended.wait(pause):
                raise ServerUnavailable(f"gave up on {what}: {problem.message}") from problem
            pause = min(MAX_PAUSE_S, pause * 2)

    def _refresh_after(self, error: RetryableError) -> None:
        log.debug("asking for the map again: %s", error)
        behind = isinstance(error, Moved) and error.map_version < self.route.map.version
        self.refresh(newer=not behind)  # a server that is behind needs a moment, not another map

    def interrupt(self) -> None:
        """From another thread: a caller that waits for an answer finds the connection lost."""
        for connection in list(self._connections.values()):
            connection.close()

    def end(self) -> None:
        """From another thread: whoever waits gets an error, and nothing is tried again."""
        self._ended.set()
        self.interrupt()

    def close(self) -> None:
        self.give_up(list(self._connections.values()))
