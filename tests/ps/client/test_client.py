"""A client's pushes, when sessions end and servers are away in the middle of them."""

from __future__ import annotations

import socket
import threading
from typing import Any, cast

import numpy as np
import pytest
from tests.ps.server_cluster import RULE, VARIABLES, ZERO, ServerCluster

from pliant.client.shards import Shard
from pliant.core.errors import InvalidRequest, ServerUnavailable
from pliant.core.parameters.contributions import PushDecision, PushOutcome
from pliant.ps.client.client import PsClient
from pliant.ps.payloads import BlockGradient, Push
from pliant.ps.placement import key_of
from pliant.ps.specs import TableSpec
from pliant.ps.store.store import ParameterStore
from pliant.ps.wire import frames as wire
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.parameters import push_reply
from pliant.testing.waiting import MAX_WAIT_S

GRADIENTS = {"w": np.ones((3, 2)), "b": np.ones(5)}


class Master:
    """Answers contributions with these outcomes, one after the other."""

    def __init__(self, cluster: ServerCluster) -> None:
        self.outcomes: list[PushOutcome] = []
        self.asked: list[tuple[str, int]] = []
        cluster.master.stubs.parameters.Contribute = self._contribute

    def _contribute(self, request: pb.ContributeRequest) -> pb.ContributeReply:
        self.asked.append((request.session, request.sequence))
        return push_reply(PushDecision(self.outcomes.pop(0) if self.outcomes else PushOutcome.ACCEPTED, 0))


class FakeSource:
    def settled(self, shard: Shard) -> None: ...


@pytest.fixture
def master(cluster: ServerCluster) -> Master:
    return Master(cluster)


def test_a_push_is_contributed_by_the_session_that_staged_it(
    cluster: ServerCluster, master: Master, client: PsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = client._stager.stage

    def stage(gradients: Any) -> Any:
        staged = real(gradients)
        cluster.name = "cluster-2"  # the thread of the beats opened another one meanwhile
        return staged

    monkeypatch.setattr(client._stager, "stage", stage)
    assert client.push(0, examples=1, dense=GRADIENTS).accepted
    assert [session for session, _ in master.asked] == ["cluster-2"]
    for store in cluster.stores:
        assert (*master.asked[0], 0) in store.staged()


def test_records_leased_to_a_session_that_ended_are_not_pushed_by_the_next(
    cluster: ServerCluster, master: Master, client: PsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leases are numbered by session: its lease 1 may be of other records."""
    real = ParameterStore.knows

    def knows(store: ParameterStore, push: Any) -> bool:
        if cluster.name == "cluster":
            cluster.name = "cluster-2"  # opened by the thread of the beats, while a server is away
            raise ServerUnavailable("cannot keep it now")
        return real(store, push)

    monkeypatch.setattr(ParameterStore, "knows", knows)
    shard = Shard(cast(Any, FakeSource()), 1, "train", "train", 0, 10, session="cluster")
    pushed = client.push(0, examples=10, dense=GRADIENTS, shards=[(shard, 10)])
    assert (pushed.accepted, pushed.stale, pushed.lost) == (False, False, (1,))
    assert master.asked == []


def test_pushes_of_two_clients_of_a_program_have_numbers_of_their_own(
    cluster: ServerCluster, master: Master, client: PsClient
) -> None:
    other = PsClient(cluster, retry_timeout=MAX_WAIT_S)
    for one in (client, other, client):
        assert one.push(0, examples=1, dense=GRADIENTS).accepted
    other.close()
    assert master.asked == [("cluster", 1), ("cluster", 2), ("cluster", 3)]
    assert [sequence for _, sequence, _ in cluster.stores[0].staged()] == [1, 2, 3]


def test_a_push_that_was_overtaken_is_staged_again(master: Master, client: PsClient) -> None:
    master.outcomes = [PushOutcome.GAP, PushOutcome.ACCEPTED]
    assert client.push(0, examples=1, dense=GRADIENTS).accepted
    assert master.asked == [("cluster", 1), ("cluster", 2)]


def test_tries_while_a_server_is_away_leave_nothing_on_the_others(cluster: ServerCluster, master: Master) -> None:
    client = PsClient(cluster, retry_timeout=0.5)
    cluster.servers[1].stop()
    with pytest.raises(ServerUnavailable):
        client.push(0, examples=1, dense=GRADIENTS)
    assert cluster.stores[0].staged() == []
    client.close()


def test_a_push_that_is_tried_again_is_kept_once(
    cluster: ServerCluster, master: Master, client: PsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, left = ParameterStore.knows, 3

    def knows(store: ParameterStore, push: Any) -> bool:
        nonlocal left
        if store is cluster.stores[1] and left:
            left -= 1
            raise ServerUnavailable("cannot keep it now")
        return real(store, push)

    monkeypatch.setattr(ParameterStore, "knows", knows)
    assert client.push(0, examples=1, dense=GRADIENTS).accepted
    for store in cluster.stores:
        assert store.staged() == [("cluster", 1, 0)]


def test_a_connection_that_is_lost_while_rows_are_put_into_shared_memory_is_made_anew() -> None:
    cluster = ServerCluster([], servers=2, tables=[TableSpec("users", 16, RULE, ZERO)])
    Master(cluster)
    client = PsClient(cluster, retry_timeout=5)
    try:
        for count in (10, 5_000):  # the second needs memory that is asked for before anything is sent
            rows = (np.arange(count), np.ones((count, 16)))
            assert client.push(0, examples=1, rows={"users": rows}).accepted
            assert sum(push.rows[0].ids.size for store in cluster.stores for push in store.waiting()[-1:]) == count
            for connection in client._router._connections.values():
                connection._socket._socket.shutdown(socket.SHUT_RDWR)  # the servers stay
    finally:
        client.close()
        cluster.close()


def test_pushes_that_were_refused_do_not_gather_on_servers(
    cluster: ServerCluster, master: Master, client: PsClient
) -> None:
    assert client.push(0, examples=1, dense=GRADIENTS).accepted  # and not applied yet
    master.outcomes = [PushOutcome.STALE] * 5
    for _ in range(5):
        assert client.push(0, examples=1, dense=GRADIENTS).stale
    assert client.push(0, examples=1, dense={"w": GRADIENTS["w"]}).accepted
    assert cluster.stores[0].staged() == [("cluster", 1, 0), ("cluster", 7, 0)]
    assert cluster.stores[1].staged() == [("cluster", 1, 0), ("cluster", 6, 0)]  # which has no share of the last one
    assert client.push(0, examples=1, dense=GRADIENTS).accepted
    for store, kept in zip(cluster.stores, [[1, 7, 8], [1, 8]], strict=True):
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
    cluster = ServerCluster(VARIABLES, servers=1)
    client = PsClient(cluster, retry_timeout=MAX_WAIT_S)
    try:
        behind = cluster.stores[0]
        behind._catalog._variables.clear()
        behind._catalog.names.clear()
        late = threading.Timer(0.2, lambda: list(map(behind.define, VARIABLES)))
        late.start()
        assert client.pull().dense["b"].shape == (5,)
        late.join()
    finally:
        client.close()
        cluster.close()


def test_a_pull_brings_only_blocks_that_changed_since_the_last_one(cluster: ServerCluster, client: PsClient) -> None:
    def received() -> list[int]:  # counted before a pull returns; what a server sent is counted a moment later
        return [client._router.connection(number)._socket.bytes_in for number in range(len(VARIABLES))]

    first = client.pull()
    before = received()
    client.pull()
    nothing = [now - then for now, then in zip(received(), before, strict=True)]
    cluster.step()
    before = received()
    changed = client.pull(at_least=1)
    floats = [4 * spec.size for spec in VARIABLES]
    more = [now - then - empty for now, then, empty in zip(received(), before, nothing, strict=True)]
    assert all(found >= wanted for found, wanted in zip(more, floats, strict=True))
    assert (first.iteration, changed.iteration) == (0, 1)
    assert all(np.array_equal(changed.dense[name], np.full_like(value, -1)) for name, value in GRADIENTS.items())


def test_an_asynchronous_pull_waits_for_no_server_unless_a_gradient_was_too_old() -> None:
    cluster = ServerCluster(VARIABLES, sync=False)
    refusals = [PushDecision(PushOutcome.STALE, 3, 3), PushDecision(PushOutcome.ACCEPTED, 4)]
    stubs = cluster.master.stubs.parameters
    stubs.Contribute = lambda request: push_reply(refusals.pop(0))
    client = PsClient(cluster, retry_timeout=MAX_WAIT_S)
    try:
        for _ in range(3):
            cluster.step(0)
        model = client.pull()
        assert model.iteration == 0, "of the older of two servers, which is asked for what it has"
        assert client.iteration == 3
        assert client.pull().iteration == 0
        assert client.push(0, examples=1, dense=GRADIENTS).stale

        def catch_up() -> None:
            for _ in range(3):
                cluster.step(1)

        later = threading.Timer(0.2, catch_up)
        later.start()
        assert client.pull().iteration == 3
        later.join()
    finally:
        client.close()
        cluster.close()
