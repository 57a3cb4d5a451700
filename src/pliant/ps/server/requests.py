"""What a parameter server does with a request: read its meta, check it, receive its arrays, act, answer.

A request that is refused is still read to its end, so that the connection stays usable; its bytes go into memory that is there
already. Rows are gathered straight into the buffer that is sent, blocks are sent from where they are, and an update at
once works straight on what was received.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from pliant.core.errors import InvalidRequest, Moved, NotAvailable, PliantError, RetryableError
from pliant.ps.compiled.memory import address_of
from pliant.ps.compiled.merging import copy_finite, first_not_finite
from pliant.ps.payloads import Floats, Ids, Push
from pliant.ps.placement import key_of
from pliant.ps.specs import spec_from_json
from pliant.ps.store.store import ParameterStore
from pliant.ps.wire import frames as wire
from pliant.ps.wire import shared_memory as sharing
from pliant.ps.wire.frames import Header, Holds, Kind, Limits, Section
from pliant.ps.wire.shared_memory import Bytes, Offer, Region, Shares
from pliant.ps.wire.sockets import BadFrame, Closed, FrameSocket, KeptBuffer, KeptBuffers

MAX_WAIT_S = 30.0  # of a pull for its iteration; then the client has to ask again
LOOK = 0.2  # seconds after which one that waits looks whether its peer is still there
_SKIP = 1 << 20
_PART = 512 << 10  # bytes


def _nothing() -> None:
    """To be done with a buffer that its connection uses again anyway."""


class Requests:
    """Serves connections of one server; ``serve`` runs in each connection's own thread."""

    def __init__(
        self,
        store: ParameterStore,
        limits: Limits,
        standalone: bool,
        staged: Callable[[Push, bytes, memoryview], None] | None,
        server_stats: Callable[[], dict[str, Any]],
        stage: Callable[[Push, bytes, memoryview], None] | None = None,
    ) -> None:
        self._store = store
        self._limits = limits
        self._standalone = standalone
        self._staged = staged
        self._stage = stage
        self._server_stats = server_stats
        self._buffers = KeptBuffers()
        self.shares = Shares()
        self._lock = threading.Lock()
        self._counts: dict[int, int] = dict.fromkeys((kind for kind in Kind if kind < Kind.DONE), 0)
        self._failed = 0
        self._in_work = 0
        self._busy_seconds = 0.0

    def stats(self) -> dict[str, Any]:
        with self._lock:
            return {
                "requests": {Kind(kind).name.lower(): count for kind, count in self._counts.items()},
                "requests_failed": self._failed,
                "in_work": self._in_work,
                "busy_seconds": self._busy_seconds,
            }

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """A request that waits for an iteration is not work, and not in the queue."""
        begun = time.perf_counter()
        with self._lock:
            self._in_work -= 1
        try:
            yield
        finally:
            with self._lock:
                self._in_work += 1
                self._busy_seconds -= time.perf_counter() - begun

    def serve(self, peer: FrameSocket) -> None:
        """Until the connection ends; raises what ended it."""
        connection = _Connection(self, peer)
        try:
            self._serve(connection, peer)
        finally:
            connection.close()

    def _serve(self, connection: _Connection, peer: FrameSocket) -> None:
        while True:
            header = peer.receive_header()
            begun = time.perf_counter()
            with self._lock:
                self._in_work += 1
            failed = True
            try:
                failed = not connection.answer(header)
            finally:
                with self._lock:
                    self._in_work -= 1
                    self._busy_seconds += time.perf_counter() - begun
                    self._failed += failed
                    if header.kind in self._counts:
                        self._counts[header.kind] += 1


class _Connection:
    def __init__(self, requests: Requests, peer: FrameSocket) -> None:
        self._all = requests
        self._store = requests._store
        self._limits = requests._limits
        self._peer = peer
        self._in = KeptBuffer()
        self._out = KeptBuffer()
        self._unread = 0  # bytes of the request that are still on the wire
        self._offer_made: Offer | None = None
        self._region: Region | None = None
        self._shared = False  # the payload of the request in work is in memory shared with the peer
        self._actions: dict[int, Callable[[Header, memoryview], None]] = {
            Kind.PULL_ROWS: self._pull_rows,
            Kind.PULL_BLOCKS: self._pull_blocks,
            Kind.PUSH: self._push,
            Kind.IMPORT: self._import,
            Kind.DEFINE: self._define,
            Kind.STATS: self._stats,
            Kind.SHARE: self._share,
        }

    def close(self) -> None:
        """Lets go of all memory at once, without waiting for a garbage collection."""
        self._give_memory_back()
        self._actions.clear()

    def _give_memory_back(self) -> None:
        if self._offer_made is not None:
            self._all.shares.close(self._offer_made)
        self._offer_made = self._region = None

    def answer(self, header: Header) -> bool:
        """Serve one request; False if it was refused. Raises if the connection cannot be used any more."""
        action = self._actions.get(header.kind)
        if action is None:
            raise BadFrame(f"{header.kind} is not a request")
        meta = self._peer.receive_meta(header)
        self._shared = bool(header.flags & wire.SHARED)
        if self._shared and (self._region is None or header.payload > self._region.size):
            raise BadFrame("a payload in memory that is not shared")
        self._unread = 0 if self._shared else header.payload
        try:
            action(header, meta)
        except (Closed, BadFrame):
            raise
        except Moved as error:
            self._refuse(header, Kind.MOVED, error, error.map_version)
        except PliantError as error:
            self._refuse(header, Kind.ERROR, error, self._store.iteration)
        except MemoryError as error:
            refusal = RetryableError(f"the parameter server ran out of memory: {error}", hint="add servers or memory")
            self._refuse(header, Kind.ERROR, refusal, self._store.iteration)
        else:
            return True
        return False

    def _refuse(self, header: Header, kind: Kind, error: PliantError, number: int) -> None:
        while self._unread:
            size = min(self._unread, _SKIP)
            self._peer.receive_into(self._in.take(size))
            self._unread -= size
        meta = wire.encode_error(error)
        self._peer.send(Header(kind, 0, len(meta), 0, header.request, number), meta)

    def _receive(self, buffer: memoryview) -> memoryview:
        """The whole payload; of shared memory a copy, which the peer cannot change."""
        self._receive_part(buffer, 0, len(buffer))
        return buffer

    def _reply(self, header: Header, kind: Kind, iteration: int, meta: bytes, payload: list[memoryview]) -> None:
        size = sum(map(len, payload))
        flags = 0
        if (half := self._half_for(size)) is not None:
            sharing.put(half, payload)
            self._peer.bytes_out += size
            flags, payload = wire.SHARED, []
        self._peer.send(Header(kind, flags, len(meta), size, header.request, iteration), meta, payload)

    def _half_for(self, size: int) -> Bytes | None:
        """Shared memory for an answer of this size, if it is to go there."""
        if self._region is None or not sharing.LEAST <= size <= self._region.size:
            return None
        return self._region.to_client[:size]

    def _reached(self, iteration: int, wait: float) -> bool:
        """Whether the store comes to an iteration in time; meanwhile the peer may go away."""
        if self._store.iteration >= iteration:
            return True
        deadline = time.monotonic() + wait
        with self._all.waiting():
            while not self._store.wait_for(iteration, min(LOOK, max(0.0, deadline - time.monotonic()))):
                if self._peer.gone():
                    raise Closed("the connection was closed")
                if time.monotonic() >= deadline:
                    return False
        return True

    def _wait(self, iteration: int, wait: float = MAX_WAIT_S) -> None:
        if not self._reached(iteration, wait):
            raise RetryableError(f"iteration {iteration} is not applied yet; this server is at {self._store.iteration}")

    def _pull_rows(self, header: Header, meta: memoryview) -> None:
        """Rows, and blocks of the same iteration: sections of ids, and of blocks as ``_pull_blocks`` has them. The answer has the
        rows, then the blocks, of which its sections say which they are."""
        sections = wire.unpack_sections(meta, header.payload, wire.PULLED, self._limits, asked=wire.BLOCKS)
        names = [wire.name_of(section.key, self._store.names) for section in sections]
        have: dict[tuple[str, int], int] = {}
        dims: list[int] = []
        asked: list[tuple[str, Section]] = []
        most = 0  # bytes of the answer
        for name, section in zip(names, sections, strict=True):
            if section.holds == Holds.BLOCK:
                have[name, section.number] = section.count - 1
                most += 4 * self._store.block_length(name, section.number)
            else:
                asked.append((name, section))
                dims.append(self._store.table(name).spec.dim)
                most += 4 * section.count * dims[-1]
        if most > self._limits.payload:
            raise InvalidRequest(f"rows and blocks of {most} bytes in one answer", hint="request fewer at a time")
        payload = self._receive(self._in.take(header.payload))
        half = self._half_for(most)
        size = sum(4 * section.count * dim for (_, section), dim in zip(asked, dims, strict=True))
        rows = self._out.take(size) if half is None else half.data
        wanted: list[tuple[str, Ids]] = []
        out: list[Floats] = []
        at = start = 0
        for (name, section), dim in zip(asked, dims, strict=True):
            wanted.append((name, np.frombuffer(payload, np.int64, section.count, at)))
            floats = np.frombuffer(rows, np.float32, section.count * dim, start)
            out.append(floats.reshape(section.count, dim))
            at += 8 * section.count
            start += floats.nbytes
        self._wait(header.iteration)
        if half is not None:
            with self._store.pulling(wanted, out, list(have), have) as (iteration, values):
                blocks = [wire.bytes_of(value) for value in values.values()]
                sharing.put(half[size:], blocks)
            size += sum(map(len, blocks))
            self._peer.bytes_out += size
            came = _sections_of(values)
            self._peer.send(Header(Kind.ROWS, wire.SHARED, len(came), size, header.request, iteration), came)
            return
        waiting: list[memoryview] = []

        def begin(iteration: int, values: Mapping[tuple[str, int], Floats]) -> None:
            came = _sections_of(values)
            whole = size + sum(value.nbytes for value in values.values())
            waiting.append(memoryview(Header(Kind.ROWS, 0, len(came), whole, header.request, iteration).pack() + came))

        def ready(part: Floats) -> None:
            waiting.append(wire.bytes_of(part))
            self._offer(waiting)

        with self._store.pulling(wanted, out, list(have), have, begin, ready) as (_, values):
            waiting += [wire.bytes_of(value) for value in values.values() if value.size]
            self._peer.send_rest(waiting)

    def _offer(self, waiting: list[memoryview]) -> None:
        """Inside the store's lock: never waits, and a connection that broke is noticed outside."""
        with contextlib.suppress(OSError):
            self._peer.offer(waiting)

    def _pull_blocks(self, header: Header, meta: memoryview) -> None:
        """``width`` of a section is how long it may wait (ms), ``count`` the iteration + 1 that the client has."""
        sections = wire.unpack_sections(meta, header.payload, wire.BLOCKS, self._limits, asked=wire.BLOCKS)
        if not sections:
            self._reply(header, Kind.BLOCKS, self._store.iteration, b"", [])
            return
        names = self._store.names
        have = {(wire.name_of(s.key, names), s.number): s.count - 1 for s in sections}
        wait = sections[0].width / 1000
        if wait:
            self._reached(header.iteration, min(wait, MAX_WAIT_S))
        else:
            self._wait(header.iteration)
        with self._store.blocks(list(have), have) as (iteration, values):
            size = sum(value.nbytes for value in values.values())
            if size > self._limits.payload:
                raise InvalidRequest(f"blocks of {size} bytes in one answer", hint="request fewer at a time")
            came = [wire.bytes_of(value) for value in values.values()]
            self._reply(header, Kind.BLOCKS, iteration, _sections_of(values), came)

    def _push(self, header: Header, meta: memoryview) -> None:
        now = bool(header.flags & wire.APPLY_NOW)
        if now and not self._all._standalone:
            raise NotAvailable("this server follows a master's orders: a push is staged, not applied immediately")
        sections = wire.check_push(meta, header.payload, self._limits)
        for section in sections:
            wire.name_of(section.key, self._store.names)
        buffer, release = (self._in.take(header.payload), _nothing) if now else self._all._buffers.take(header.payload)
        finite = self._receive_gradients(sections, buffer)
        push = wire.push_of(sections, meta, buffer, self._store.names, finite=finite, release=release)
        if now:
            self._apply_now(header, push)
            return
        if self._all._stage is not None:
            self._all._stage(push, bytes(meta), buffer)
        else:
            if self._all._staged is not None and not self._store.knows(push):
                self._store.check(push)
                self._all._staged(push, bytes(meta), buffer)  # first: no answer is about a push that is not kept
            self._store.stage(push)
        self._reply(header, Kind.DONE, self._store.iteration, b"", [])

    def _apply_now(self, header: Header, push: Push) -> None:
        """Answered once the push is found good, with the iteration that it makes: a pull of that iteration waits for it, and
        nothing more of this connection is read before it is applied. So the sender prepares the next one meanwhile."""
        answers: list[list[memoryview]] = []  # what is left of it

        def accepted(iteration: int) -> None:
            answers.append([memoryview(Header(Kind.DONE, 0, 0, 0, header.request, iteration).pack())])
            self._offer(answers[0])

        try:
            self._store.apply_now(push, accepted)
        except MemoryError as error:
            if answers and not answers[0]:  # it is out: no other can follow
                raise Closed(f"out of memory in an update: {error}") from None
            raise
        self._peer.send_rest(answers[0])

    def _receive_gradients(self, sections: list[Section], buffer: memoryview) -> bool:
        """The payload of a push, looked at for NaN while it is in the cache: False if there is one (where, is found out later)."""
        at = 0
        finite = True
        for section in sections:
            end = at + section.nbytes
            floats = 4 * section.count * section.width
            ids = 8 * section.count if section.holds in (Holds.GRADIENTS, Holds.UNIQUE_GRADIENTS) else 0
            at = self._receive_part(buffer, at, at + ids)
            finite = self._receive_floats(buffer, at, at + floats) and finite
            at = self._receive_part(buffer, at + floats, end)
        return finite

    def _receive_floats(self, buffer: memoryview, at: int, last: int) -> bool:
        if self._shared:
            assert self._region is not None  # since ``answer`` has looked
            self._peer.bytes_in += last - at
            half, copy = address_of(self._region.to_server), address_of(np.frombuffer(buffer, np.uint8))
            return copy_finite(half + at, copy + at, (last - at) // 4)
        finite = True
        while at < last:
            first, at = at, self._receive_part(buffer, at, min(at + _PART, last))
            finite = finite and first_not_finite(np.frombuffer(buffer, np.float32, (at - first) // 4, first)) < 0
        return finite

    def _receive_part(self, buffer: memoryview, first: int, last: int) -> int:
        if last <= first:
            return last
        if self._shared:
            assert self._region is not None  # since ``answer`` has looked
            buffer[first:last] = self._region.to_server.data[first:last]
            self._peer.bytes_in += last - first
        else:
            self._peer.receive_into(buffer[first:last])
            self._unread -= last - first
        return last

    def _import(self, header: Header, meta: memoryview) -> None:
        if not self._all._standalone:
            raise NotAvailable("this server follows a master's orders: state comes from dumps and moves")
        for section in wire.unpack_sections(meta, header.payload, wire.STATES, self._limits):
            wire.name_of(section.key, self._store.names)
        payload = self._receive(self._in.take(header.payload))
        count = self._store.import_([wire.decode_chunk(meta, payload, self._store.names, self._limits)])
        self._reply(header, Kind.DONE, count, b"", [])

    def _define(self, header: Header, meta: memoryview) -> None:
        if not self._all._standalone:
            raise NotAvailable("this server follows a master's orders: tables are defined there")
        try:
            definitions = json.loads(bytes(meta))
        except ValueError:
            raise InvalidRequest("definitions must be JSON") from None
        if not isinstance(definitions, list) or header.payload:
            raise InvalidRequest("definitions are a list without a payload")
        for spec in [spec_from_json(value) for value in definitions]:
            self._store.define(spec)
        self._reply(header, Kind.DONE, self._store.iteration, b"", [])

    def _share(self, header: Header, meta: memoryview) -> None:
        """Memory of the size asked for, instead of what is shared now; an empty answer: there is none. 0: none is wanted."""
        if len(meta) != 8 or header.payload:
            raise InvalidRequest("a request to share memory has its size in eight bytes")
        size = int.from_bytes(meta, "little")
        offer = self._all.shares.offer(size) if self._peer.local else None
        if offer is not None or not size:
            self._give_memory_back()
        if offer is not None:
            self._offer_made, self._region = offer, offer.region
        self._reply(header, Kind.TEXT, 0, b"" if offer is None else offer.encoded(), [])

    def _stats(self, header: Header, meta: memoryview) -> None:
        if header.payload:
            raise InvalidRequest("a question for statistics has no payload")
        text = json.dumps(self._all._server_stats()).encode()
        self._reply(header, Kind.TEXT, self._store.iteration, text, [])


def _sections_of(values: Mapping[tuple[str, int], Floats]) -> bytes:
    """Which blocks are in an answer, in their order."""
    return b"".join(
        Section(key_of(name), Holds.BLOCK, 1, value.size, number).pack() for (name, number), value in values.items()
    )
