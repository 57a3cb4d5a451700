"""The data plane over real sockets: right answers, strangers kept out, garbage survived."""

from __future__ import annotations

import contextlib
import itertools
import random
import socket
import struct
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.ps.conftest import DIM, TOKEN, ids_of, push_of, rows_of

from pliant.core.errors import InvalidRequest, Moved, NotAvailable, NotFound, ServerUnavailable, Unauthenticated
from pliant.core.parameters.orders import Contribution
from pliant.ps.client.connection import PsConnection
from pliant.ps.payloads import BlockGradient, Ownership, Push, RowGradients
from pliant.ps.placement import key_of
from pliant.ps.server.server import MAX_STRANGERS, PsServer
from pliant.ps.specs import DenseSpec, OptimizerSpec, TableSpec
from pliant.ps.store.store import ParameterStore
from pliant.ps.wire import frames as wire
from pliant.ps.wire.frames import HEADER, Header, Holds, Kind, Limits, Section
from pliant.ps.wire.sockets import HELLO, Closed, FrameSocket
from pliant.rpc.tls import create_certificates
from pliant.testing import wait_until
from pliant.testing.waiting import MAX_WAIT_S

pytestmark = pytest.mark.e2e


def pulled(connection: PsConnection, *ids: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    out = np.empty((len(ids), DIM), np.float32)
    connection.pull_rows("users", ids_of(*ids), out)
    return out


def test_rows_and_blocks_go_there_and_back(connection: PsConnection, store: ParameterStore) -> None:
    ids = np.arange(70_000, dtype=np.int64)
    out = np.empty((ids.size, DIM), np.float32)
    assert connection.pull_rows("users", ids, out) == 0
    assert (out == rows_of(store, "users", ids)).all()
    block = BlockGradient("bias", 0, np.ones(10, np.float32))
    rows = RowGradients("users", ids, np.ones_like(out), unique=True)
    assert connection.push(Push("s", 1, rows=(rows,), blocks=(block,)), apply_now=True) == 1
    assert connection.pull_rows("users", ids, out) == 1
    assert (out == rows_of(store, "users", ids)).all()
    bias = {("bias", 0): np.empty(10, np.float32)}
    assert connection.pull_blocks(bias) == 1
    np.testing.assert_allclose(bias[("bias", 0)], -0.1)
    connection.send_pull_blocks([("bias", 0, 1)])
    assert connection.receive_blocks(bias) == (1, [])


def test_several_tables_travel_in_one_request(connection: PsConnection, store: ParameterStore) -> None:
    connection.define([TableSpec("odd", 3, OptimizerSpec("sgd", 1.0))])
    odd = RowGradients("odd", ids_of(1, 2, 3), np.ones((3, 3), np.float32))
    users = RowGradients("users", ids_of(4), np.ones((1, DIM), np.float32))
    connection.push(Push("s", 1, rows=(odd, users)), apply_now=True)
    first, second = np.empty((2, 3), np.float32), np.empty((1, DIM), np.float32)
    connection.send_pull([("odd", ids_of(1, 9)), ("users", ids_of(4))])
    connection.receive_pull([first, second], {})
    assert first.tolist() == [[-1] * 3, [0] * 3]
    assert (second == rows_of(store, "users", ids_of(4))).all()


def test_a_pull_waits_for_its_iteration(connection: PsConnection, store: ParameterStore) -> None:
    connection.push(push_of("s", 1, ids_of(1), np.ones((1, DIM), np.float32)))
    connection.send_pull([("users", ids_of(1))], iteration=1)
    before = rows_of(store, "users", ids_of(1))
    store.apply([Contribution("s", 1, 1.0)], 1.0, 1)
    out = np.empty((1, DIM), np.float32)
    assert connection.receive_pull([out], {}) == 1
    assert (out != before).all()


def test_blocks_are_pushed_to_who_waits_for_a_newer_model(connection: PsConnection, store: ParameterStore) -> None:
    bias = {("bias", 0): np.empty(10, np.float32)}
    connection.send_pull_blocks([("bias", 0, 0)], iteration=1, wait=30)
    store.apply_now(Push("s", 1, blocks=(BlockGradient("bias", 0, np.ones(10, np.float32)),)))
    assert connection.receive_blocks(bias) == (1, [("bias", 0)])
    connection.send_pull_blocks([("bias", 0, 1)], iteration=2, wait=0.01)
    assert connection.receive_blocks(bias) == (1, [])


def test_refusals_name_the_reason_and_the_connection_goes_on(connection: PsConnection, store: ParameterStore) -> None:
    good = pulled(connection, 1)
    bad = np.full((2, DIM), np.inf, np.float32)
    with pytest.raises(InvalidRequest, match="negative"):
        pulled(connection, 1, -1)
    with pytest.raises(NotFound):
        connection.pull_rows("nope", ids_of(1), np.empty((1, DIM), np.float32))
    with pytest.raises(InvalidRequest, match=r"row 5 .* inf"):
        connection.push(push_of("s", 1, ids_of(5, 6), bad), apply_now=True)
    with pytest.raises(InvalidRequest, match=r"row 5 .* inf"):
        connection.push(push_of("s", 1, ids_of(5, 6), bad))
    with pytest.raises(InvalidRequest):
        connection.push(push_of("s", 1, ids_of(5), np.ones((1, DIM + 1), np.float32)))
    with pytest.raises(NotFound):
        connection.push(Push("s", 1, blocks=(BlockGradient("nope", 0, np.ones(3, np.float32)),)))
    owned = np.ones(16, np.uint8)
    store.own(Ownership(3, np.zeros(16, np.uint8)))
    with pytest.raises(Moved) as moved:
        pulled(connection, 1)
    assert moved.value.map_version == 3
    store.own(Ownership(4, owned))
    assert (pulled(connection, 1) == good).all()
    assert (store.iteration, store.stats()["rows"], store.staged()) == (0, 0, [])
    assert connection.stats()["requests_failed"] == 7


def test_a_server_with_a_master_takes_orders_from_there_only(store: ParameterStore) -> None:
    kept = []
    server = PsServer(
        store, TOKEN, staged=lambda push, meta, payload: kept.append((push.sequence, meta, bytes(payload)))
    )
    server.start()
    with PsConnection("127.0.0.1", server.port, TOKEN) as connection:
        push = push_of("s", 1, ids_of(1), np.ones((1, DIM), np.float32))
        with pytest.raises(NotAvailable):
            connection.push(push, apply_now=True)
        with pytest.raises(NotAvailable):
            connection.define([DenseSpec("w", (3,))])
        connection.push(push)
        connection.push(push)
    server.stop()
    assert store.staged() == [("s", 1, 0)]
    ((sequence, meta, payload),) = kept
    again = wire.decode_push(meta, memoryview(bytearray(payload)), store.names)
    assert (again.session, again.sequence, sequence) == ("s", 1, 1)
    assert (again.rows[0].gradients == 1).all()


def test_state_moves_between_servers(connection: PsConnection, store: ParameterStore) -> None:
    other = ParameterStore(partitions=16)
    for spec in store.specs():
        other.define(spec)
    ids = np.arange(500, dtype=np.int64)
    push = push_of("s", 1, ids, np.ones((500, DIM), np.float32))
    other.apply_now(Push("s", 1, rows=push.rows, blocks=(BlockGradient("bias", 0, np.ones(10, np.float32)),)))
    assert connection.import_(other.export(range(16), [("bias", 0)])) == 501
    assert (rows_of(store, "users", ids) == rows_of(other, "users", ids)).all()
    with store.blocks([("bias", 0)]) as (_, here), other.blocks([("bias", 0)]) as (_, there):
        assert (here[("bias", 0)] == there[("bias", 0)]).all()


def test_a_wrong_token_is_refused_by_either_side(server: PsServer) -> None:
    with pytest.raises(Unauthenticated):
        PsConnection("127.0.0.1", server.port, "f" * 64)
    sent: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def impostor() -> None:
            sock, _ = listener.accept()
            with sock:
                sent.append(sock.recv(len(HELLO) + 32, socket.MSG_WAITALL))
                sock.sendall(HELLO + bytes(64))
                sent.append(sock.recv(1024))

        thread = threading.Thread(target=impostor)
        thread.start()
        with pytest.raises(Unauthenticated, match="not a parameter server of this job"):
            PsConnection("127.0.0.1", listener.getsockname()[1], TOKEN)
        thread.join()
    assert [len(part) for part in sent] == [len(HELLO) + 32, 0], (
        "the client proves nothing to one that did not prove itself"
    )


def test_a_client_without_the_token_is_refused_although_the_server_proved_itself(server: PsServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as sock:
        sock.sendall(HELLO + bytes(32))
        assert len(sock.recv(len(HELLO) + 64, socket.MSG_WAITALL)) == len(HELLO) + 64
        sock.sendall(bytes(32))
        assert sock.recv(1) == b""


def test_a_proof_cannot_be_used_again(server: PsServer) -> None:
    seen: list[bytes] = []

    class Recorded(FrameSocket):
        def _send_all(self, buffers: list[memoryview]) -> None:
            seen.extend(map(bytes, buffers))
            super()._send_all(buffers)

    with socket.create_connection(("127.0.0.1", server.port)) as sock:
        Recorded(sock, Limits(), 60).introduce(TOKEN)
    hello, proof = seen
    with socket.create_connection(("127.0.0.1", server.port)) as sock:
        sock.sendall(hello)
        sock.recv(len(HELLO) + 64, socket.MSG_WAITALL)
        sock.sendall(proof)
        assert sock.recv(1) == b""


def test_an_impostor_that_forwards_the_proofs_of_a_server_is_found_out(server: PsServer) -> None:
    """It took over the port of a server that died, say, and asks a living one what to answer."""
    revealed: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def between() -> None:
            inside, _ = listener.accept()
            with inside, socket.create_connection(("127.0.0.1", server.port)) as outside:
                outside.sendall(inside.recv(len(HELLO) + 32, socket.MSG_WAITALL))
                inside.sendall(outside.recv(len(HELLO) + 64, socket.MSG_WAITALL))
                revealed.append(inside.recv(1024))

        thread = threading.Thread(target=between)
        thread.start()
        with pytest.raises(Unauthenticated):
            PsConnection("127.0.0.1", listener.getsockname()[1], TOKEN)
        thread.join()
    assert revealed == [b""]


def test_tls_keeps_the_traffic_among_the_job(store: ParameterStore, tmp_path: Path) -> None:
    files = create_certificates(tmp_path / "tls")
    strangers = create_certificates(tmp_path / "others")
    server = PsServer(store, TOKEN, tls=files, standalone=True)
    server.start()
    with PsConnection("127.0.0.1", server.port, TOKEN, tls=files, timeout=MAX_WAIT_S) as connection:
        ids = np.arange(30_000, dtype=np.int64)
        out = np.empty((ids.size, DIM), np.float32)
        connection.pull_rows("users", ids, out)
        assert (out == rows_of(store, "users", ids)).all()
        connection.push(push_of("s", 1, ids, np.ones_like(out)), apply_now=True)
    with pytest.raises((ServerUnavailable, Unauthenticated)):
        PsConnection("127.0.0.1", server.port, TOKEN, tls=strangers)
    with pytest.raises((ServerUnavailable, Unauthenticated)):
        PsConnection("127.0.0.1", server.port, TOKEN)
    server.stop()


def raw(server: PsServer, *, proven: bool = True) -> socket.socket:
    """A socket on which anything can be sent, as a member of the job or as a stranger."""
    if not proven:
        return socket.create_connection(("127.0.0.1", server.port), timeout=MAX_WAIT_S)
    connection = PsConnection("127.0.0.1", server.port, TOKEN, timeout=MAX_WAIT_S)
    return connection._socket._socket


def test_garbage_ends_its_connection_and_nothing_else(server: PsServer, connection: PsConnection) -> None:
    chance = random.Random(11)
    good = pulled(connection, 1, 2, 3)
    for turn in range(60):
        with raw(server, proven=turn % 2 == 0) as sock:
            noise = chance.randbytes(chance.choice((1, 39, 40, 41, 500, 5000)))
            if turn % 3 == 0:
                noise = wire.MAGIC + noise
            try:
                sock.sendall(noise)
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(65536):
                    pass
            except OSError:
                pass
    assert (pulled(connection, 1, 2, 3) == good).all()


def frames(chance: random.Random) -> bytes:
    """A frame that is nearly right: one thing about it is not."""
    ids = ids_of(1, 2, 3)
    push, payload = wire.encode_push(push_of("s", 1, ids, np.ones((3, DIM), np.float32)))
    body = b"".join(payload)
    pull = Section(key_of("users"), Holds.IDS, 1, 3).pack()
    kind, meta, data = chance.choice(
        [(Kind.PUSH, push, body), (Kind.PULL_ROWS, pull, ids.tobytes()), (Kind.IMPORT, push[-32:], body)]
    )
    whole = bytearray(Header(kind, 0, len(meta), len(data), 1, 0).pack() + meta + data)
    for _ in range(chance.randint(1, 4)):
        places = [
            *range(HEADER.size - 8),
            *range(HEADER.size, HEADER.size + len(meta)),
        ]  # a far iteration is waited for
        place = chance.choice(places)
        whole[place] ^= 1 << chance.randrange(8)
    return bytes(whole[: chance.choice((len(whole), len(whole), chance.randrange(len(whole))))])


def test_frames_with_flipped_bits_and_cut_ends_do_no_harm(
    server: PsServer, connection: PsConnection, store: ParameterStore
) -> None:
    chance = random.Random(5)
    good = pulled(connection, 7, 8, 9)
    for _ in range(150):
        with raw(server) as sock:
            try:
                sock.sendall(frames(chance))
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(65536):
                    pass
            except OSError:
                pass
    assert (pulled(connection, 7, 8, 9) == good).all()
    assert store.iteration == 0
    wait_until(lambda: server.stats()["connections"] == 1)


def test_no_memory_is_taken_for_a_length_that_is_too_large(store: ParameterStore) -> None:
    server = PsServer(store, TOKEN, limits=Limits(meta=1000, payload=100_000))
    server.start()
    for meta, payload in ((2000, 0), (0, 200_000), (2**32 - 1, 2**64 - 1)):
        with raw(server) as sock:
            sock.sendall(HEADER.pack(wire.MAGIC, Kind.PUSH, 0, meta, 0, payload, 1, 0))
            assert sock.recv(1) == b""
    with PsConnection("127.0.0.1", server.port, TOKEN) as connection:
        with pytest.raises(InvalidRequest, match="fewer"):
            pulled(connection, *range(12_000))  # small enough to ask, too large to answer
        assert pulled(connection, 1).shape == (1, DIM)
    server.stop()


def test_a_section_that_promises_more_than_it_carries_is_refused(server: PsServer) -> None:
    with raw(server) as sock:
        meta = Section(key_of("users"), Holds.IDS, 1, 2**60).pack()
        sock.sendall(Header(Kind.PULL_ROWS, 0, len(meta), 8, 1, 0).pack() + meta + struct.pack("<q", 1))
        answer = sock.recv(HEADER.size, socket.MSG_WAITALL)
        assert HEADER.unpack(answer)[1] == Kind.ERROR


def test_strangers_cannot_crowd_out_the_job(server: PsServer, connection: PsConnection) -> None:
    crowd = [raw(server, proven=False) for _ in range(MAX_STRANGERS)]
    try:
        wait_until(lambda: server.stats()["connections"] == MAX_STRANGERS + 1)
        with PsConnection("127.0.0.1", server.port, TOKEN) as newcomer:
            assert pulled(newcomer, 1).shape == (1, DIM)
            assert crowd[0].recv(1) == b"", "the oldest stranger is evicted"
            crowd += [raw(server, proven=False) for _ in range(3 * MAX_STRANGERS)]
            wait_until(lambda: server.stats()["refused"] >= 3 * MAX_STRANGERS)
            assert sum(thread.name == "ps-connection" for thread in threading.enumerate()) <= MAX_STRANGERS + 3
            assert pulled(newcomer, 1).shape == pulled(connection, 1).shape == (1, DIM), "members are never evicted"
    finally:
        for sock in crowd:
            sock.close()
    wait_until(lambda: server.stats()["connections"] == 1)
    PsConnection("127.0.0.1", server.port, TOKEN).close()


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_stranger_that_sends_a_byte_now_and_then_has_one_deadline_for_all(
    store: ParameterStore, tmp_path: Path, encrypted: bool
) -> None:
    tls = create_certificates(tmp_path / "tls") if encrypted else None
    server = PsServer(store, TOKEN, tls=tls, proof_timeout=0.5)
    server.start()
    started = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" if encrypted else HELLO
    left = iter(started + bytes(200))
    try:
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            sock.settimeout(1)  # between two bytes; the end of the connection is seen at once
            for byte in itertools.islice(left, len(HELLO) + 31):  # one more, and the server answers
                try:
                    sock.sendall(bytes([byte]))
                    if sock.recv(1) == b"":
                        return
                except TimeoutError:
                    continue
                except ConnectionError:
                    return
            pytest.fail("the server waits for each byte anew")
    finally:
        server.stop()


def test_a_server_that_stops_is_told_to_its_clients(store: ParameterStore) -> None:
    server = PsServer(store, TOKEN)
    server.start()
    connection = PsConnection("127.0.0.1", server.port, TOKEN)
    port = server.port
    server.stop()
    with pytest.raises(ServerUnavailable):
        pulled(connection, 1)
    with pytest.raises(ServerUnavailable):
        PsConnection("127.0.0.1", port, TOKEN, timeout=5)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ps-")]


def test_statistics_count_what_went_through(connection: PsConnection) -> None:
    pulled(connection, 1, 2)
    connection.push(push_of("s", 1, ids_of(1), np.ones((1, DIM), np.float32)), apply_now=True)
    connection.push(push_of("s", 2, ids_of(1), np.ones((1, DIM), np.float32)))
    stats = connection.stats()
    assert stats["requests"]["pull_rows"] == 1
    assert stats["requests"]["push"] == 2
    assert stats["bytes_in"] > 100
    assert stats["bytes_out"] > 100
    assert stats["in_work"] == 1
    assert stats["store"]["queue"] == 1
    assert stats["store"]["apply_seconds"] > 0


def test_a_push_that_could_not_be_kept_is_kept_when_it_comes_again(store: ParameterStore) -> None:
    kept: list[int] = []
    full = [True]

    def keep(push: Push, meta: bytes, payload: memoryview) -> None:
        if full.pop() if full else False:
            raise NotAvailable("the disk is full")
        kept.append(push.sequence)

    server = PsServer(store, TOKEN, staged=keep)
    server.start()
    push = push_of("s", 1, ids_of(1), np.ones((1, DIM), np.float32))
    with PsConnection("127.0.0.1", server.port, TOKEN) as connection:
        with pytest.raises(NotAvailable):
            connection.push(push)
        assert store.staged() == []
        connection.push(push)
    server.stop()
    assert (kept, store.staged()) == ([1], [("s", 1, 0)])


def test_a_block_with_a_senseless_width_is_refused(store: ParameterStore, connection: PsConnection) -> None:
    before = store._catalog.block("bias", 0).value.copy()
    bad = np.full(10, np.nan, np.float32)
    meta, payload = wire.encode_push(Push("s", 1, blocks=(BlockGradient("bias", 0, bad),)))
    head, section = meta[: -wire.SECTION.size], wire.SECTION.unpack(meta[-wire.SECTION.size :])
    for width in (0, 2, 10):
        wrong = head + wire.SECTION.pack(*section[:3], width, *section[4:])
        connection._send(Kind.PUSH, wrong, payload, 0, wire.APPLY_NOW)
        with pytest.raises(InvalidRequest, match="width"):
            connection.receive_pushed()
    assert np.array_equal(store._catalog.block("bias", 0).value, before)


def test_a_server_of_a_job_takes_no_state_over_the_wire(store: ParameterStore) -> None:
    server = PsServer(store, TOKEN)
    server.start()
    try:
        with (
            PsConnection("127.0.0.1", server.port, TOKEN) as connection,
            pytest.raises(NotAvailable, match="master's orders"),
        ):
            connection.import_([store._catalog.block("bias", 0).copy()])
    finally:
        server.stop()


def test_state_with_nan_is_refused(store: ParameterStore, connection: PsConnection) -> None:
    chunk = store._catalog.block("bias", 0).copy()
    chunk.data[0, 3] = np.nan
    with pytest.raises(InvalidRequest, match="NaN"):
        connection.import_([chunk])
    assert np.isfinite(store._catalog.block("bias", 0).value).all()


def test_a_client_that_reads_no_answers_keeps_nobody_from_changing_the_store(
    server: PsServer, store: ParameterStore
) -> None:
    server._listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # its connections inherit it
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", server.port))
        deaf = FrameSocket(sock, Limits(), 0.5)
        deaf.introduce(TOKEN)
        meta, payload = wire.encode_push(Push("s", 1, blocks=(BlockGradient("bias", 0, np.ones(10, np.float32)),)))
        size = sum(map(len, payload))
        with contextlib.suppress(Closed):  # once the server waits for it to read, nothing more can be sent
            for request in range(200_000):
                deaf.send(Header(Kind.PUSH, wire.APPLY_NOW, len(meta), size, request, 0), meta, payload)
        before = store.iteration
        store.apply_now(Push("t", 1, blocks=(BlockGradient("bias", 0, np.ones(10, np.float32)),)))
        assert store.iteration > before
