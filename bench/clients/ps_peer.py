"""Servers and workers of ``bench/ps.py``, each a process of its own: Pliant's, torch.distributed.rpc's, gRPC's, Arrow
Flight's, pyzmq's, a bare socket's.

    python ps_peer.py serve SYSTEM ROWS DIM FLOATS SERVERS RANK [WORLD PORT]   prints {"port": …} and serves until its input ends
    python ps_peer.py work SYSTEM DIM FLOATS PORT,PORT ROWS [RANK WORLD PORT]  one JSON order per line in, one answer per line out

A server keeps its share of a table of ROWS x DIM floats, and FLOATS dense floats. What a peer gets is the simplest thing that
works: a plain tensor, indexed by id; with n servers, id i is row i // n of server i % n. An order is
``{"op": pull | push | dense_pull | …, "seconds": s, "begin": unix time}``.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TOKEN = "0123456789abcdef" * 4
RATE = 0.01
BATCH = 4096


def say(**answer: Any) -> None:
    print(json.dumps(answer), flush=True)


# -- Pliant


def serve_pliant(rows: int, dim: int, floats: int, servers: int, rank: int) -> None:
    from pliant.core.parameters.orders import Contribution
    from pliant.ps.compiled.merging import partitions_of
    from pliant.ps.payloads import Push, RowBatch
    from pliant.ps.recovery.push_log import PushLog
    from pliant.ps.server.server import PsServer
    from pliant.ps.specs import DenseSpec, InitializerSpec, OptimizerSpec, TableSpec
    from pliant.ps.store.store import ParameterStore

    store = ParameterStore()
    kind = os.environ.get("BENCH_OPTIMIZER", "sgd")
    store.define(TableSpec("table", dim, OptimizerSpec(kind, RATE), InitializerSpec("uniform")))
    if floats:
        store.define(DenseSpec("dense", (floats,), OptimizerSpec("sgd", RATE)))
    width = store.table("table").row_floats
    store.import_([RowBatch("table", *(np.zeros(s, t) for s, t in ((1, "i8"), ((1, width), "f4"), ((1, 2), "u4"))))])
    before = _rss()
    for first in range(0, rows, 100_000):
        ids = np.arange(first, min(rows, first + 100_000), dtype=np.int64)
        ids = ids[partitions_of("table", ids) % servers == rank]
        data = np.full((ids.size, width), 0.01, np.float32)
        store.import_([RowBatch("table", ids, data, np.zeros((ids.size, 2), np.uint32))])
    grown = _rss() - before
    count = max(store.stats()["rows"], 1)
    folder = Path(tempfile.mkdtemp(prefix="ps-log-", dir=os.environ.get("BENCH_LOGS")))
    log = PushLog(folder, 1, 0)
    lock = threading.Lock()
    segment = 0

    def stage(push: Push, meta: bytes, payload: memoryview) -> None:
        """All that a server of a job does with a push: kept in memory and in its log, then applied by an order (which
        comes from the master; here it comes at once)."""
        nonlocal segment
        with lock:
            store.stage(push)
            log.append(meta, [payload])
            store.apply([Contribution(push.session, push.sequence, 1.0)], 1.0, store.iteration + 1)
            if log.bytes > 1 << 30:  # as a dump would
                segment += 1
                log.rotate(segment, [])
                log.truncate(segment)

    server = PsServer(store, TOKEN, standalone=True, stage=stage)
    server.start()
    per_row = grown / count / (width * 4) if rows else 0.0
    say(
        port=server.port,
        memory_ratio=store.stats()["tables"]["table"]["bytes"] / count / (width * 4),
        rss=per_row,
    )
    sys.stdin.read()
    server.stop()
    shutil.rmtree(folder)


def _rss() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def work_pliant(dim: int, floats: int, ports: list[int]) -> dict[str, Callable[..., None]]:
    from pliant.core.parameters.partition_map import DEFAULT_PARTITIONS
    from pliant.ps.client.connection import PsConnection
    from pliant.ps.client.push_buffers import OutgoingRows, RowBuffers
    from pliant.ps.compiled.merging import group_by_seat
    from pliant.ps.payloads import BlockGradient, Push
    from pliant.ps.placement import blocks_of

    seats = len(ports)
    owner = (np.arange(DEFAULT_PARTITIONS) % seats).astype(np.int32)
    connections = [PsConnection("127.0.0.1", port, TOKEN) for port in ports]
    rows = np.empty((BATCH, dim), np.float32)
    answer = np.empty((BATCH, dim), np.float32)
    buffers = RowBuffers()
    session = f"bench-{os.getpid()}"
    dense = np.zeros(floats, np.float32)
    blocks = {("dense", i): dense[a : a + n] for i, (a, n) in enumerate(blocks_of(floats))}
    state = {"sequence": 0}

    def parts(counts: Any) -> list[slice]:
        ends = np.cumsum(counts)
        return [slice(int(end - count), int(end)) for end, count in zip(ends, counts, strict=True)]

    def pull(ids: Any) -> None:
        grouped, counts, places = group_by_seat("table", ids, owner, seats)
        pieces = parts(counts)
        for connection, piece in zip(connections, pieces, strict=True):
            connection.send_pull([("table", grouped[piece])])
        for connection, piece in zip(connections, pieces, strict=True):
            connection.receive_pull([rows[piece]], {})
        rows.take(places, 0, answer, "clip")  # in the order of the ids, as the peers answer

    def push(ids: Any, gradients: Any, now: bool = True) -> None:
        outgoing = OutgoingRows(owner, seats, connections.__getitem__, buffers)
        outgoing.add("table", ids, gradients)
        state["sequence"] += 1
        for server, rows in outgoing.by_server.items():
            connections[server].send_push(Push(session, state["sequence"], rows=tuple(rows)), apply_now=now)
        for connection in connections:
            connection.receive_pushed()

    def dense_pull() -> None:
        connections[0].pull_blocks(blocks)

    def dense_push(now: bool = True) -> None:
        state["sequence"] += 1
        several = tuple(BlockGradient(name, block, values) for (name, block), values in blocks.items())
        connections[0].push(Push(session, state["sequence"], blocks=several), apply_now=now)

    return {
        "pull": pull,
        "push": push,
        "push_logged": lambda ids, gradients: push(ids, gradients, False),
        "dense_pull": dense_pull,
        "dense_push": dense_push,
        "dense_push_logged": lambda: dense_push(False),
    }


# -- a bare socket: the limit


def plain(sock: socket.socket) -> None:
    """As any program has it; "raw, unpaced" with the choice that Pliant makes on loopback."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if os.environ.get("BENCH_UNPACED"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")


def serve_raw(rows: int, dim: int, floats: int, servers: int, rank: int) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    answer = memoryview(bytearray(max(BATCH * dim * 4, floats * 4)))

    def connection(sock: socket.socket) -> None:
        plain(sock)
        head = bytearray(16)
        buffer = memoryview(bytearray(len(answer) + BATCH * 8))
        while sock.recv_into(head, 16, socket.MSG_WAITALL):
            size_in, size_out = np.frombuffer(head, np.int64)
            if size_in:
                sock.recv_into(buffer[:size_in], 0, socket.MSG_WAITALL)
            sock.sendall(answer[:size_out])

    def accept() -> None:
        while True:
            threading.Thread(target=connection, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    say(port=listener.getsockname()[1])
    sys.stdin.read()


def work_raw(dim: int, floats: int, ports: list[int]) -> dict[str, Callable[..., None]]:
    sock = socket.create_connection(("127.0.0.1", ports[0]))
    plain(sock)
    buffer = memoryview(bytearray(max(floats * 4, BATCH * dim * 4, 8)))
    dense = memoryview(bytearray(floats * 4))

    def call(out: list[Any], size: int) -> None:
        head = np.array([sum(len(piece) for piece in out), size], np.int64).tobytes()
        pieces = [memoryview(head), *out]
        sent = sock.sendmsg(pieces)
        for piece in pieces:
            if sent < len(piece):
                sock.sendall(piece[max(sent, 0) :])
            sent -= len(piece)
        sock.recv_into(buffer[:size], 0, socket.MSG_WAITALL)

    return {
        "pull": lambda ids: call([ids.view(np.uint8).data], ids.size * dim * 4),
        "push": lambda ids, g: call([ids.view(np.uint8).data, g.reshape(-1).view(np.uint8).data], 8),
        "dense_pull": lambda: call([], floats * 4),
        "dense_push": lambda: call([dense], 8),
    }


# -- gRPC unary, Arrow Flight, pyzmq: bytes in, bytes out


class PlainTable:
    """What the byte protocols serve: a plain array, indexed; gradients subtracted."""

    def __init__(self, rows: int, dim: int, floats: int, servers: int) -> None:
        self.table = np.full((rows // servers + 1, dim), 0.01, np.float32)
        self.dense = np.zeros(floats, np.float32)
        self.dim = dim

    def call(self, request: Any) -> Any:
        op = bytes(request[:1])
        if op == b"p":
            return self.table[np.frombuffer(request, np.int64, offset=8)].data.cast("B")
        if op == b"u":
            count = (len(request) - 8) // (8 + 4 * self.dim)
            ids = np.frombuffer(request, np.int64, count, 8)
            gradients = np.frombuffer(request, np.float32, count * self.dim, 8 + 8 * count)
            self.table[ids] -= RATE * gradients.reshape(count, self.dim)
            return b"ok"
        if op == b"d":
            return self.dense.data.cast("B")
        self.dense -= RATE * np.frombuffer(request, np.float32, offset=8)
        return b"ok"


def serve_grpc(rows: int, dim: int, floats: int, servers: int, rank: int) -> None:
    from concurrent.futures import ThreadPoolExecutor

    import grpc

    kept = PlainTable(rows, dim, floats, servers)
    unlimited = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = grpc.server(ThreadPoolExecutor(8), options=unlimited)
    handler = grpc.unary_unary_rpc_method_handler(lambda request, _: bytes(kept.call(request)))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("bench", {"call": handler})])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    say(port=port)
    sys.stdin.read()


def serve_zmq(rows: int, dim: int, floats: int, servers: int, rank: int) -> None:
    import zmq

    kept = PlainTable(rows, dim, floats, servers)
    sock = zmq.Context().socket(zmq.ROUTER)
    port = sock.bind_to_random_port("tcp://127.0.0.1")
    say(port=port)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    while True:
        name, _, request = sock.recv_multipart(copy=False)
        sock.send_multipart([name, b"", kept.call(request.buffer)], copy=False)


def serve_flight(rows: int, dim: int, floats: int, servers: int, rank: int) -> None:
    import pyarrow as pa
    from pyarrow import flight

    kept = PlainTable(rows, dim, floats, servers)

    class Server(flight.FlightServerBase):  # type: ignore[misc]
        def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
            schema = pa.schema([("b", pa.binary())])
            writer.begin(schema)
            for chunk in reader:
                request = chunk.data.column(0)[0].as_buffer()
                answer = pa.py_buffer(bytes(kept.call(memoryview(request))))
                offsets = pa.py_buffer(np.array([0, answer.size], np.int32))
                column = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, answer])
                writer.write_batch(pa.record_batch([column], schema=schema))

    server = Server("grpc://127.0.0.1:0")
    say(port=server.port)
    sys.stdin.read()
    os._exit(0)


def work_bytes(system: str, dim: int, floats: int, ports: list[int]) -> dict[str, Callable[..., None]]:
    call: Callable[[bytes], Any]
    if system == "grpc":
        import grpc

        unlimited = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        channels = [grpc.insecure_channel(f"127.0.0.1:{port}", options=unlimited) for port in ports]
        calls = [channel.unary_unary("/bench/call") for channel in channels]
        call = calls[0]
        if len(ports) > 1:
            return _work_grpc(calls, dim)
    elif system == "zmq":
        import zmq

        sock = zmq.Context().socket(zmq.REQ)
        sock.connect(f"tcp://127.0.0.1:{ports[0]}")

        def call(request: bytes) -> Any:
            sock.send(request, copy=False)
            return sock.recv(copy=False).buffer
    else:
        import pyarrow as pa
        from pyarrow import flight

        client = flight.connect(f"grpc://127.0.0.1:{ports[0]}")
        writer, reader = client.do_exchange(flight.FlightDescriptor.for_path("bench"))
        schema = pa.schema([("b", pa.binary())])
        writer.begin(schema)

        def call(request: bytes) -> Any:
            writer.write_batch(pa.record_batch([pa.array([request], pa.binary())], schema=schema))
            return memoryview(reader.read_chunk().data.column(0)[0].as_buffer())

    rows = np.empty((BATCH, dim), np.float32)
    dense = np.zeros(floats, np.float32)

    def pull(ids: Any) -> None:
        rows[:] = np.frombuffer(call(b"p" + bytes(7) + ids.tobytes()), np.float32).reshape(rows.shape)

    def dense_pull() -> None:
        dense[:] = np.frombuffer(call(b"d" + bytes(7)), np.float32)

    return {
        "pull": pull,
        "push": lambda ids, g: call(b"u" + bytes(7) + ids.tobytes() + g.tobytes()),
        "dense_pull": dense_pull,
        "dense_push": lambda: call(b"e" + bytes(7) + dense.tobytes()),
    }


def _work_grpc(calls: list[Any], dim: int) -> dict[str, Callable[..., None]]:
    """Several servers are asked at the same time."""
    rows = np.empty((BATCH, dim), np.float32)

    def split(ids: Any) -> list[Any]:
        return [np.flatnonzero(ids % len(calls) == i) for i in range(len(calls))]

    def pull(ids: Any) -> None:
        parts = split(ids)
        asked = [b"p" + bytes(7) + (ids[part] // len(calls)).tobytes() for part in parts]
        futures = [call.future(request) for call, request in zip(calls, asked, strict=True)]
        for part, future in zip(parts, futures, strict=True):
            rows[part] = np.frombuffer(future.result(), np.float32).reshape(-1, dim)

    def push(ids: Any, g: Any) -> None:
        parts = split(ids)
        sent = [b"u" + bytes(7) + (ids[part] // len(calls)).tobytes() + g[part].tobytes() for part in parts]
        futures = [call.future(request) for call, request in zip(calls, sent, strict=True)]
        for future in futures:
            future.result()

    return {"pull": pull, "push": push}


# -- torch.distributed.rpc

KEPT: dict[str, Any] = {}


def torch_pull(ids: Any) -> Any:
    return KEPT["table"][ids]


def torch_push(ids: Any, gradients: Any) -> None:
    KEPT["table"].index_add_(0, ids, gradients, alpha=-RATE)


def torch_dense_pull() -> Any:
    return KEPT["dense"]


def torch_dense_push(gradient: Any) -> None:
    KEPT["dense"].add_(gradient, alpha=-RATE)


def torch_rpc(rank: int, world: int, port: int, name: str) -> Any:
    import torch
    from torch.distributed import rpc

    sys.modules.setdefault("ps_peer", sys.modules["__main__"])
    for function in (torch_pull, torch_push, torch_dense_pull, torch_dense_push):
        function.__module__ = "ps_peer"
    torch.set_num_threads(1)
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://127.0.0.1:{port}", rpc_timeout=300)
    rpc.init_rpc(name, rank=rank, world_size=world, rpc_backend_options=options)
    return rpc


def serve_torch(rows: int, dim: int, floats: int, servers: int, rank: int, world: int, port: int) -> None:
    import torch

    KEPT["table"] = torch.full((rows // servers + 1, dim), 0.01)
    KEPT["dense"] = torch.zeros(floats)
    torch_rpc(rank, world, port, f"ps{rank}")
    say(port=port)
    sys.stdin.read()
    os._exit(0)


def work_torch(servers: int, dim: int, floats: int, rank: int, world: int, port: int) -> dict[str, Callable[..., None]]:
    import torch

    rpc = torch_rpc(rank, world, port, f"worker{rank}")
    names = [f"ps{i}" for i in range(servers)]
    dense = torch.zeros(floats)

    def split(ids: Any) -> list[Any]:
        return [torch.nonzero(ids % servers == i).squeeze(1) for i in range(servers)]

    def pull(ids: Any) -> None:
        ids = torch.from_numpy(ids)
        if servers == 1:
            rpc.rpc_sync(names[0], torch_pull, args=(ids,))
            return
        rows = torch.empty(ids.numel(), dim)
        parts = split(ids)
        asked = [ids[part] // servers for part in parts]
        waiting = [rpc.rpc_async(n, torch_pull, args=(some,)) for n, some in zip(names, asked, strict=True)]
        for part, future in zip(parts, waiting, strict=True):
            rows[part] = future.wait()

    def push(ids: Any, gradients: Any) -> None:
        ids, gradients = torch.from_numpy(ids), torch.from_numpy(gradients)
        if servers == 1:
            rpc.rpc_sync(names[0], torch_push, args=(ids, gradients))
            return
        waiting = [
            rpc.rpc_async(n, torch_push, args=(ids[part] // servers, gradients[part]))
            for n, part in zip(names, split(ids), strict=True)
        ]
        for future in waiting:
            future.wait()

    return {
        "pull": pull,
        "push": push,
        "pull_push": lambda ids, gradients: (pull(ids), push(ids, gradients)),
        "dense_pull": lambda: rpc.rpc_sync(names[0], torch_dense_pull),
        "dense_push": lambda: rpc.rpc_sync(names[0], torch_dense_push, args=(dense,)),
    }


# -- orders


def work(ops: dict[str, Callable[..., None]], rows: int, dim: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    batches = [generator.integers(0, max(rows, 1), BATCH) for _ in range(64)]
    gradients = generator.standard_normal((BATCH, dim)).astype(np.float32) * 1e-3
    say(ready=True)
    for line in sys.stdin:
        order = json.loads(line)
        name = order["op"]
        operation = ops[name]
        arguments = (gradients,) if "push" in name else ()
        time.sleep(max(0.0, order.get("begin", 0) - time.time()))
        begun = time.perf_counter()
        count = 0
        while not count or time.perf_counter() - begun < order["seconds"]:
            if name.startswith("dense"):
                operation()
            else:
                operation(batches[count % len(batches)], *arguments)
            count += 1
        say(count=count, elapsed=time.perf_counter() - begun)


def main() -> None:
    role, system, *rest = sys.argv[1:]
    if role == "serve":
        rows, dim, floats, *ranks = map(int, rest)
        servers: dict[str, Callable[..., None]] = {
            "pliant": serve_pliant,
            "raw": serve_raw,
            "grpc": serve_grpc,
            "zmq": serve_zmq,
            "flight": serve_flight,
            "torch": serve_torch,
        }
        servers[system](rows, dim, floats, *ranks)
        return
    dim, floats, rows = int(rest[0]), int(rest[1]), int(rest[3])
    ports = [int(port) for port in rest[2].split(",")]
    if system == "torch":
        rank, world, port = map(int, rest[4:])
        ops = work_torch(len(ports), dim, floats, rank, world, port)
    elif system == "pliant":
        ops = work_pliant(dim, floats, ports)
    elif system == "raw":
        ops = work_raw(dim, floats, ports)
    else:
        ops = work_bytes(system, dim, floats, ports)
    work(ops, rows, dim, os.getpid())
    if system == "torch":
        os._exit(0)


if __name__ == "__main__":
    main()
