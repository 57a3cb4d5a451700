"""Memory shared between a server and a client of the same machine: used where it can be, and never trusted."""

from __future__ import annotations

import gc
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.ps.conftest import DIM, TOKEN, ids_of, push_of, rows_of

from pliant.core.errors import InvalidRequest, ServerUnavailable
from pliant.ps.client.connection import PsConnection
from pliant.ps.server.server import PsServer
from pliant.ps.store.store import ParameterStore
from pliant.ps.wire import frames as wire
from pliant.ps.wire import shared_memory as sharing
from pliant.ps.wire.frames import Header, Kind, Limits
from pliant.ps.wire.shared_memory import Offer, Shares, take
from pliant.ps.wire.sockets import Closed, FrameSocket
from pliant.testing.waiting import MAX_WAIT_S

MANY = np.arange(sharing.LEAST // 8, dtype=np.int64)


def pulled(connection: PsConnection, ids: np.ndarray) -> np.ndarray:
    out = np.empty((ids.size, DIM), np.float32)
    connection.pull_rows("users", ids, out)
    return out


@pytest.fixture
def raw(server: PsServer) -> Iterator[FrameSocket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=MAX_WAIT_S) as sock:
        made = FrameSocket(sock, Limits(), 10)
        made.introduce(TOKEN)
        yield made


def test_large_pulls_and_pushes_go_through_shared_memory_and_small_ones_do_not(
    store: ParameterStore, connection: PsConnection
) -> None:
    assert np.array_equal(pulled(connection, ids_of(1, 2)), rows_of(store, "users", ids_of(1, 2)))
    assert connection._region is None
    assert np.array_equal(pulled(connection, MANY), rows_of(store, "users", MANY))
    assert connection._region is not None
    before = rows_of(store, "users", MANY)
    connection.push(push_of("s", 1, MANY, np.ones((MANY.size, DIM), np.float32), unique=True), apply_now=True)
    assert np.array_equal(pulled(connection, MANY), rows_of(store, "users", MANY))
    assert not np.array_equal(pulled(connection, MANY), before)
    assert np.array_equal(pulled(connection, ids_of(7)), rows_of(store, "users", ids_of(7)))


def test_what_is_too_large_to_share_goes_over_the_wire(store: ParameterStore, connection: PsConnection) -> None:
    ids = np.arange(sharing.MOST // 8 + 1, dtype=np.int64)
    assert np.array_equal(pulled(connection, ids), rows_of(store, "users", ids))
    assert np.array_equal(pulled(connection, MANY), rows_of(store, "users", MANY))


def test_the_memory_grows_with_what_is_sent(connection: PsConnection) -> None:
    pulled(connection, MANY)
    assert connection._region is not None
    first = connection._region.size
    pulled(connection, np.arange(first // 8 + 1, dtype=np.int64))
    assert connection._region.size > first


def test_a_bad_push_in_shared_memory_is_refused_and_the_connection_goes_on(
    store: ParameterStore, connection: PsConnection
) -> None:
    before = rows_of(store, "users", MANY)
    bad = np.ones((MANY.size, DIM), np.float32)
    bad[5, 1] = np.nan
    with pytest.raises(InvalidRequest, match="nan at column 1"):
        connection.push(push_of("s", 1, MANY, bad), apply_now=True)
    assert np.array_equal(pulled(connection, MANY), before)


def test_a_staged_push_is_a_copy_that_its_sender_cannot_change(store: ParameterStore, connection: PsConnection) -> None:
    before = rows_of(store, "users", MANY)
    connection.push(push_of("s", 1, MANY, np.ones((MANY.size, DIM), np.float32), unique=True))
    assert connection._region is not None
    connection._region.to_server[:] = 255
    (kept,) = store.waiting()
    assert np.array_equal(kept.rows[0].ids, MANY)
    assert np.all(kept.rows[0].gradients == 1)
    assert np.array_equal(rows_of(store, "users", MANY), before)


def test_who_cannot_have_the_memory_goes_on_without(
    store: ParameterStore, connection: PsConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "take", lambda told: None)
    for _ in range(2):
        assert np.array_equal(pulled(connection, MANY), rows_of(store, "users", MANY))
    assert connection._region is None


def test_a_server_shares_so_much_and_no_more() -> None:
    shares = Shares(most=4 * sharing.LEAST)
    offer = shares.offer(sharing.LEAST)
    assert offer is not None
    assert shares.offer(2 * sharing.LEAST) is None
    shares.close(offer)
    again = shares.offer(2 * sharing.LEAST)
    assert again is not None
    shares.close(again)
    assert shares.offer(0) is None
    assert shares.offer(sharing.MOST + 1) is None


def test_an_offer_is_taken_only_if_it_is_what_the_server_speaks_of() -> None:
    offer = Offer(sharing.LEAST)
    about = json.loads(offer.encoded())
    assert take(offer.encoded()) is not None
    for wrong in (
        {"nonce": "00" * 32},
        {"name": "another"},
        {"size": sharing.MOST + 1},
        {"size": sharing.MOST},
        {"size": -1},
        {"file": 10_000},
        {"process": 2**31 - 1},
        {"nonce": "no number"},
    ):
        assert take(json.dumps({**about, **wrong}).encode()) is None, wrong
    assert take(b"nothing") is None
    offer.close()
    assert take(json.dumps(about).encode()) is None


def test_nobody_can_cut_the_memory_under_the_servers_feet() -> None:
    offer = Offer(sharing.LEAST)
    about = json.loads(offer.encoded())
    opened = os.open(f"/proc/{about['process']}/fd/{about['file']}", os.O_RDWR)
    with pytest.raises(OSError, match="not permitted"):
        os.ftruncate(opened, 0)
    os.close(opened)
    offer.close()


@pytest.mark.parametrize("size", [8, sharing.LEAST, 2**40])
def test_a_payload_in_memory_that_is_not_shared_ends_the_connection(raw: FrameSocket, size: int) -> None:
    with pytest.raises(Closed):  # noqa: PT012  # the server may close while this is sent, or after
        raw.send(Header(Kind.PULL_ROWS, wire.SHARED, 0, size, 1, 0), b"")
        raw.receive_header()


@pytest.mark.parametrize("wanted", [b"", b"1234", (2**63).to_bytes(8, "little"), b"123456789"])
def test_a_senseless_wish_for_memory_gets_none(raw: FrameSocket, wanted: bytes) -> None:
    raw.send(Header(Kind.SHARE, 0, len(wanted), 0, 1, 0), wanted)
    header = raw.receive_header()
    assert header.kind == (Kind.TEXT if len(wanted) == 8 else Kind.ERROR)
    assert header.kind == Kind.ERROR or header.meta == 0


def test_the_memory_goes_with_its_connection(server: PsServer) -> None:
    def shared() -> set[str]:
        gc.collect()
        links = [os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        return {link for link in links if "pliant-ps-" in link}

    before = shared()
    connection = PsConnection("127.0.0.1", server.port, TOKEN)
    pulled(connection, MANY)
    assert len(shared() - before) == 1
    connection.close()
    del connection
    server.stop()
    assert not shared() - before


def test_a_lost_server_is_noticed_although_memory_is_shared(server: PsServer, connection: PsConnection) -> None:
    pulled(connection, MANY)
    server.stop()
    with pytest.raises(ServerUnavailable):
        pulled(connection, MANY)
