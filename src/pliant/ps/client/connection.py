"""One connection of a client to one parameter server. Not for several threads at once: a client has one per server.

A request may be split (``send_…`` / ``receive_…``) so that a client asks all servers first and then collects the
answers. After ``ServerUnavailable`` the connection is closed and a new one is needed; after any other error it can still be used.
"""

from __future__ import annotations

import json
import select
import socket
import ssl
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from pliant.core.errors import InvalidRequest, PliantError, ServerUnavailable
from pliant.ps.payloads import Floats, Ids, Push, StateChunk
from pliant.ps.placement import key_of
from pliant.ps.specs import Spec
from pliant.ps.wire import frames as wire
from pliant.ps.wire import shared_memory as sharing
from pliant.ps.wire.frames import Header, Holds, Kind, Limits, Section
from pliant.ps.wire.shared_memory import Bytes, Region
from pliant.ps.wire.sockets import SERVER_NAME, BadFrame, Closed, FrameSocket, tls_context
from pliant.rpc.tls import TlsFiles


class PsConnection:
    """Connects and authenticates at once."""

    def __init__(
        self,
        host: str,
        port: int,
        token: str,
        *,
        tls: TlsFiles | None = None,
        timeout: float = 60.0,
        limits: Limits | None = None,
    ) -> None:
        self._limits = limits or Limits()
        self._where = f"{host}:{port}"
        self._request = 0
        self._region: Region | None = None
        self._refused = 0  # bytes for which the server had no memory to share
        self._largest = 0  # bytes of an answer that would have fitted into such memory
        self._shared: Bytes | None = None  # what is left of an answer that came there
        self.closed = False
        try:
            sock = socket.create_connection((host, port), timeout)
            try:
                if tls is not None:
                    sock = tls_context(tls, server=False).wrap_socket(sock, server_hostname=SERVER_NAME)
                self._socket = FrameSocket(sock, self._limits, timeout)
                self._socket.introduce(token)
            except BaseException:
                sock.close()
                raise
        except (OSError, ssl.SSLError) as error:
            raise ServerUnavailable(f"no parameter server responds at {self._where}: {error}") from None

    @property
    def local(self) -> bool:
        """The server is on this machine."""
        return self._socket.local

    def close(self) -> None:
        self.closed = True
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- rows, and blocks with them

    def send_pull(
        self, rows: Sequence[tuple[str, Ids]], blocks: Sequence[tuple[str, int, int]] = (), *, iteration: int = 0
    ) -> None:
        """Ask for rows of several tables, and for blocks as ``send_pull_blocks`` does; answered once the server is at
        ``iteration``."""
        meta = b"".join(Section(key_of(table), Holds.IDS, 1, ids.size).pack() for table, ids in rows)
        self._send(Kind.PULL_ROWS, meta + _asked(blocks), [_ids(table, ids) for table, ids in rows], iteration)

    def receive_pull(self, rows: Sequence[Floats], blocks: Mapping[tuple[str, int], Floats]) -> int:
        """Receive straight into these arrays, one per table and block asked for; the server's iteration, of which all are. Blocks
        that did not change keep what they have."""
        header, meta = self._receive(Kind.ROWS)
        places = self._places(meta, blocks)
        size = sum(array.nbytes for array in rows) + sum(blocks[place].nbytes for place in places)
        if header.payload != size:
            self.close()
            raise InvalidRequest(
                f"the rows have {header.payload} bytes, the arrays for them {size}",
                hint="check that the table's width matches the server's",
            )
        for array in rows:
            self._fill(array)
        for place in places:
            self._fill(blocks[place])
        return header.iteration

    def pull_rows(self, table: str, ids: Ids, out: Floats, *, iteration: int = 0) -> int:
        self.send_pull([(table, ids)], iteration=iteration)
        return self.receive_pull([out], {})

    # -- blocks

    def send_pull_blocks(
        self, wanted: Sequence[tuple[str, int, int]], *, iteration: int = 0, wait: float = 0.0
    ) -> None:
        """Ask for blocks: (variable, block, have). Those which did not change after iteration ``have`` are left out; -1: always
        sent. Answered once the server is at ``iteration``; with ``wait``, at the latest after that many seconds."""
        milliseconds = int(min(max(wait, 0.0), 3600) * 1000)
        self._send(Kind.PULL_BLOCKS, _asked(wanted, milliseconds), [], iteration)

    def wait_for_answer(self) -> None:
        """Until an answer begins to come."""
        try:
            self._socket.wait_readable()
        except Closed as error:
            raise self._lost(error) from None

    def register(self, poll: select.poll) -> bool:
        """Have it wait for an answer, too. False: there is nothing to wait for, since one has begun to come, or never will."""
        return self._socket.register(poll)

    def has_answer(self) -> bool:
        """Whether one has begun to come, or never will."""
        poll = select.poll()
        return not self.register(poll) or bool(poll.poll(0))

    def receive_blocks(self, out: Mapping[tuple[str, int], Floats]) -> tuple[int, list[tuple[str, int]]]:
        """Receive into the arrays of ``out``; the server's iteration and which blocks came."""
        header, meta = self._receive(Kind.BLOCKS)
        places = self._places(meta, out)
        for place in places:
            self._fill(out[place])
        return header.iteration, places

    def _places(self, meta: bytes, blocks: Mapping[tuple[str, int], Floats]) -> list[tuple[str, int]]:
        """Which blocks are in an answer, in their order."""
        known = {(key_of(name), block): (name, block) for name, block in blocks}
        found = []
        for section in wire.unpack_sections(memoryview(meta), 0, wire.BLOCKS, self._limits, asked=wire.BLOCKS):
            place = known.get((section.key, section.number))
            if place is None or blocks[place].size != section.count:
                self.close()
                raise InvalidRequest(f"received block {section.number}, but no array of {section.count} for it")
            found.append(place)
        return found

    def pull_blocks(self, out: dict[tuple[str, int], Floats], *, iteration: int = 0) -> int:
        self.send_pull_blocks([(name, block, -1) for name, block in out], iteration=iteration)
        return self.receive_blocks(out)[0]

    # -- pushes

    def send_push(self, push: Push, *, apply_now: bool = False) -> None:
        meta, payload = wire.encode_push(push)
        self._send(Kind.PUSH, meta, payload, 0, wire.APPLY_NOW if apply_now else 0)

    def room(self, at: int, size: int) -> Bytes | None:
        """Memory for a part of the next request's payload, ``at`` bytes after its beginning: what is put there need not be copied
        to be sent. None: there is no such memory."""
        region = self._share(at + size)
        return None if region is None or region.size < at + size else region.to_server[at : at + size]

    def receive_pushed(self) -> int:
        """The push is staged (or applied); the server's iteration."""
        return self._receive(Kind.DONE)[0].iteration

    def push(self, push: Push, *, apply_now: bool = False) -> int:
        self.send_push(push, apply_now=apply_now)
        return self.receive_pushed()

    # -- the rest

    def define(self, specs: Iterable[Spec]) -> None:
        """Only a standalone server takes definitions over this wire."""
        self._send(Kind.DEFINE, json.dumps([spec.to_json() for spec in specs]).encode(), [], 0)
        self._receive(Kind.DONE)

    def import_(self, chunks: Iterable[StateChunk]) -> int:
        """Hand state to the server (the stream of a move); how many rows and blocks it took."""
        count = 0
        for chunk in chunks:
            meta, payload = wire.encode_chunk(chunk)
            self._send(Kind.IMPORT, meta, payload, 0)
            count += self._receive(Kind.DONE)[0].iteration
        return count

    def stats(self) -> dict[str, Any]:
        self._send(Kind.STATS, b"", [], 0)
        stats: dict[str, Any] = json.loads(self._receive(Kind.TEXT)[1])
        return stats

    def _send(
        self,
        kind: Kind,
        meta: bytes,
        payload: list[memoryview],
        iteration: int,
        flags: int = 0,
    ) -> None:
        size = sum(map(len, payload))
        if size > self._limits.payload or len(meta) > self._limits.meta:
            raise InvalidRequest(
                f"a request of {len(meta)} + {size} bytes; the limit is {self._limits.meta} + {self._limits.payload}",
                hint="split it",
            )
        region = self._share(max(size, self._largest))
        if region is None or not sharing.LEAST <= size <= region.size:
            self._exchange(Header(kind, flags, len(meta), size, 0, iteration), meta, payload)
            return
        self._socket.bytes_out += size
        sharing.put(region.to_server, payload)
        self._exchange(Header(kind, flags | wire.SHARED, len(meta), size, 0, iteration), meta, [])

    def _exchange(self, header: Header, meta: bytes, payload: list[memoryview]) -> None:
        self._request += 1
        try:
            self._socket.send(header._replace(request=self._request), meta, payload)
        except Closed as error:
            raise self._lost(error) from None

    def _share(self, size: int) -> Region | None:
        """The memory shared with the server; enlarged first, if it is too small for this many bytes and may be larger."""
        have = 0 if self._region is None else self._region.size
        if self._socket.local and max(have, self._refused, sharing.LEAST - 1) < size <= sharing.MOST:
            wanted = sharing.room_for(size)
            if not (offer := self._ask_for_memory(wanted)):
                self._refused = wanted
            elif (region := sharing.take(offer)) is not None:
                self._region = region
            else:  # this process cannot have it: neither may the server use it
                self._ask_for_memory(0)
                self._region, self._refused = None, sharing.MOST
        return self._region

    def _ask_for_memory(self, size: int) -> bytes:
        self._exchange(Header(Kind.SHARE, 0, 8, 0, 0, 0), size.to_bytes(8, "little"), [])
        return self._receive(Kind.TEXT)[1]

    def _receive(self, kind: Kind) -> tuple[Header, bytes]:
        try:
            header = self._socket.receive_header()
            meta = bytes(self._socket.receive_meta(header)) if header.meta else b""
        except (Closed, BadFrame) as error:
            raise self._lost(error) from None
        if header.request != self._request:
            raise self._lost(BadFrame("received a response to another request"))
        if header.kind in (Kind.ERROR, Kind.MOVED):
            raise wire.decode_error(header.kind, meta, header.iteration)
        if header.kind != kind:
            raise self._lost(BadFrame(f"received a response of kind {header.kind}"))
        self._shared = None
        if header.flags & wire.SHARED:
            if self._region is None or header.payload > self._region.size:
                raise self._lost(BadFrame("response in memory that is not shared"))
            self._shared = self._region.to_client[: header.payload]
        elif header.payload <= sharing.MOST:
            self._largest = max(self._largest, header.payload)
        return header, meta

    def _fill(self, array: Floats) -> None:
        if array.size and self._shared is not None:
            if array.nbytes > self._shared.size:
                raise self._lost(BadFrame("truncated response"))
            array.reshape(-1).view(np.uint8)[:] = self._shared[: array.nbytes]
            self._shared = self._shared[array.nbytes :]
            self._socket.bytes_in += array.nbytes
        elif array.size:
            try:
                self._socket.receive_into(wire.bytes_of(array))
            except Closed as error:
                raise self._lost(error) from None

    def _lost(self, error: PliantError) -> ServerUnavailable:
        self.close()
        return ServerUnavailable(f"lost the connection to the parameter server at {self._where}: {error.message}")


def _ids(table: str, ids: Ids) -> memoryview:
    if not isinstance(ids, np.ndarray) or ids.dtype != np.int64 or ids.ndim != 1 or not ids.flags.c_contiguous:
        raise InvalidRequest(f"ids of table {table!r} must be a flat, contiguous int64 array")
    return wire.bytes_of(ids)


def _asked(blocks: Sequence[tuple[str, int, int]], width: int = 0) -> bytes:
    return b"".join(Section(key_of(name), Holds.BLOCK, width, have + 1, block).pack() for name, block, have in blocks)
