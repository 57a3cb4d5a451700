"""A client's pushes, when sessions end and servers are away in the middle of them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.ps.crew import RULE, VARIABLES, ZERO, Crew

from pliant.core.errors import InvalidRequest, ServerUnavailable
from pliant.core.ps_states import Fate
from pliant.ps import wire
from pliant.ps.client import PsClient
from pliant.ps.pieces import BlockGradient, Push
from pliant.ps.placement import key_of
from pliant.ps.specs import TableSpec
from pliant.ps.store import ParameterStore
from pliant.rpc import pliant_pb2 as pb

GRADIENTS = {"w": np.ones((3, 2)), "b": np.ones(5)}


class Master:
    """Answers contributions with these fates, one after the other."""

    def __init__(self, crew: Crew) -> None:
        self.fates: list[Fate] = []
        self.asked: list[tuple[str, int]] = []
        crew.master.stubs.parameters.Contribute = self._contribute

    def _contribute(self, request: pb.ContributeRequest) -> pb.ContributeReply:
        self.asked.append((request.session, request.sequence))
        return pb.ContributeReply(fate=self.fates.pop(0) if self.fates else Fate.ACCEPTED)


@pytest.fixture
def master(crew: Crew) -> Master:
    return Master(crew)


@pytest.fixture
def client(crew: Crew) -> Iterator[PsClient]:
    made = PsClient(crew, patience=20)
    yield made
    made.close()


def test_a_push_is_contributed_by_the_session_that_staged_it(
    crew: Crew, master: Master, client: PsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = client._stage

    def stage(**what: Any) -> Any:
        staged = real(**what)
        crew.name = "crew-2"  # the thread of the beats opened another one meanwhile
        return staged

    monkeypatch.setattr(client, "_stage", stage)
    assert client.push(0, examples=1, dense=GRADIENTS).accepted
    assert [session for session, _ in master.asked] == ["crew-2"]
    for store in crew.stores:
        assert (*master.asked[0], 0) in store.staged()


def test_tries_while_a_server_is_away_leave_nothing_on_the_others(crew: Crew, master: Master) -> None:
    client = PsClient(crew, patience=0.5)
    crew.servers[1].stop()
    with pytest.raises(ServerUnavailable):
        client.push(0, examples=1, dense=GRADIENTS)
    assert crew.stores[0].staged() == []
    client.close()


def test_a_push_that_is_tried_again_is_kept_once(
    crew: Crew, master: Master, client: PsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, left = ParameterStore.knows, 3

    def knows(store: ParameterStore, push: Any) -> bool:
        nonlocal left
        if store is crew.stores[1] and left:
            left -= 1
            raise ServerUnavailable("cannot keep it now")
        return real(store, push)

    monkeypatch.setattr(ParameterStore, "knows", knows)
    assert client.push(0, examples=1, dense=GRADIENTS).accepted
    for store in crew.stores:
        assert store.staged() == [("crew", 1, 0)]


def test_a_connection_that_is_lost_while_rows_are_put_into_shared_memory_is_made_anew() -> None:
    crew = Crew([], servers=2, tables=[TableSpec("users", 16, RULE, ZERO)])
    Master(crew)
    client = PsClient(crew, patience=5)
    try:
        for count in (10, 5_000):  # the second needs memory that is asked for before anything is sent
            rows = (np.arange(count), np.ones((count, 16)))
            assert client.push(0, examples=1, rows={"users": rows}).accepted
            assert sum(push.rows[0].ids.size for store in crew.stores for push in store.waiting()[-1:]) == count
            for connection in client._router._connections.values():
                connection._socket._socket.shutdown(socket.SHUT_RDWR)  # the servers stay
    finally:
        client.close()
        crew.close()


def test_pushes_that_were_refused_do_not_gather_on_servers(crew: Crew, master: Master, client: PsClient) -> None:
    assert client.push(0, examples=1, dense=GRADIENTS).accepted  # and not applied yet
    master.fates = [Fate.STALE] * 5
    for _ in range(5):
        assert client.push(0, examples=1, dense=GRADIENTS).stale
    assert client.push(0, examples=1, dense={"w": GRADIENTS["w"]}).accepted
    assert crew.stores[0].staged() == [("crew", 1, 0), ("crew", 7, 0)]
    assert crew.stores[1].staged() == [("crew", 1, 0), ("crew", 6, 0)]  # which has no share of the last one
    assert client.push(0, examples=1, dense=GRADIENTS).accepted
    for store, kept in zip(crew.stores, [[1, 7, 8], [1, 8]], strict=True):
        assert [sequence for _, sequence, _ in store.staged()] == kept


def test_a_push_carries_the_numbers_that_were_refused() -> None:
    block = BlockGradient("w", 0, np.ones(6, np.float32))
    push = Push("söme session", 9, blocks=(block,), void=(3, 2**40))
    meta, payload = wire.encode_push(push)
    data = memoryview(b"".join(payload))
    names = {key_of("w"): "w"}
    read = wire.decode_push(meta, data, names)
    assert (read.session, read.sequence, read.void) == ("söme session", 9, (3, 2**40))
    assert np.array_equal(read.blocks[0].gradient, block.gradient)
    assert wire.push_identity(meta) == (9, "söme session")
    for end in range(len(meta)):
        with pytest.raises(InvalidRequest):
            wire.decode_push(meta[:end], data, names)


def test_a_server_that_is_behind_in_definitions_is_waited_for() -> None:
    crew = Crew(VARIABLES, servers=1)
    client = PsClient(crew, patience=20)
    try:
        behind = crew.stores[0]
        behind._variables.clear()
        behind._names.clear()
        late = threading.Timer(0.2, lambda: list(map(behind.define, VARIABLES)))
        late.start()
        assert client.pull().dense["b"].shape == (5,)
        late.join()
    finally:
        client.close()
        crew.close()
