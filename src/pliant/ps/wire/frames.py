"""Frames of the data plane.

A frame is a header of 40 bytes, a small binary ``meta`` and a ``payload`` of arrays, all little-endian:

    magic 4s | kind u16 | flags u16 | meta bytes u32 | zero u32 | payload bytes u64 | request u64 | iteration u64

Every length is checked against ``Limits`` and against what ``meta`` says before a buffer is made. Arrays in a payload start
at multiples of 8 bytes. Tables and variables are named by ``placement.key_of``. ``meta`` is a row of *sections* of 32 bytes,
each of which says what lies in the payload; for a push after a head, the session's name and the void numbers (u64 each).
Errors and definitions travel as JSON.

Neighbours: ``identity`` (who may send frames at all), ``sockets`` (how they are sent), ``server`` and ``connection``.
"""

from __future__ import annotations

import enum
import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pliant.core.errors import (
    Conflict,
    InvalidRequest,
    Moved,
    NotAvailable,
    NotFound,
    PermanentError,
    PliantError,
    RetryableError,
)
from pliant.ps.payloads import BlockGradient, BlockState, Evicted, Ids, Push, RowBatch, RowGradients, StateChunk
from pliant.ps.placement import key_of

MAGIC = b"PLPS"
HEADER = struct.Struct("<4sHHIIQQQ")
SECTION = struct.Struct("<QHHIQQ")  # key, kind, zero, width, count, number (a block's, or an iteration)
PUSH_HEAD = struct.Struct("<QQQIHH")  # sequence, examples, based on, part, bytes of the session's name, void numbers
APPLY_NOW = 1  # flag of a push
SHARED = 2  # flag of any frame: its payload is in the memory that both sides share (``shared_memory``), not on the wire


class Kind(enum.IntEnum):
    """What a frame is; from 16 on, answers."""

    PULL_ROWS = 1  # and blocks with them, of the same iteration
    PULL_BLOCKS = 2
    PUSH = 3
    IMPORT = 4
    DEFINE = 5
    STATS = 6
    SHARE = 7
    DONE = 16
    ROWS = 17
    BLOCKS = 18
    ERROR = 19
    MOVED = 20
    TEXT = 21


class Holds(enum.IntEnum):
    """What a section's share of the payload is."""

    IDS = 1
    UNIQUE_GRADIENTS = 2  # ids, then gradients
    GRADIENTS = 3
    BLOCK = 4  # floats
    BLOCK_VALUE = 5
    ROW_BATCH = 6  # ids, counters, data
    BLOCK_STATE = 7  # data of all states
    EVICTED = 8  # ids


@dataclass(frozen=True)
class Limits:
    """The most that a peer who proved itself may ask for."""

    meta: int = 4 << 20
    payload: int = 2 << 30
    sections: int = 65_536


class BadFrame(PermanentError):
    """Invalid frame: the connection has to be closed."""


class Header(NamedTuple):
    kind: int
    flags: int
    meta: int
    payload: int
    request: int
    iteration: int

    def pack(self) -> bytes:
        return HEADER.pack(MAGIC, self.kind, self.flags, self.meta, 0, self.payload, self.request, self.iteration)


def unpack_header(data: bytes | bytearray | memoryview, limits: Limits) -> Header:
    magic, kind, flags, meta, zero, payload, request, iteration = HEADER.unpack(data)
    if magic != MAGIC or zero:
        raise BadFrame("not a frame of this protocol")
    if meta > limits.meta or payload > limits.payload:
        raise BadFrame(f"a frame of {meta} + {payload} bytes; the limit is {limits.meta} + {limits.payload}")
    return Header(kind, flags, meta, payload, request, iteration)


@dataclass(frozen=True)
class Section:
    """One array, or group of arrays, of the payload."""

    key: int
    holds: int
    width: int
    count: int
    number: int = 0

    def pack(self) -> bytes:
        return SECTION.pack(self.key, self.holds, 0, self.width, self.count, self.number)

    @property
    def nbytes(self) -> int:
        """Its share of the payload, padding included."""
        n, w = self.count, self.width
        if self.holds in (Holds.IDS, Holds.EVICTED):
            return 8 * n
        if self.holds in (Holds.UNIQUE_GRADIENTS, Holds.GRADIENTS):
            return 8 * n + _padded(4 * n * w)
        if self.holds == Holds.ROW_BATCH:
            return 16 * n + _padded(4 * n * w)
        return _padded(4 * n * max(w, 1))


def _padded(size: int) -> int:
    return size + (-size & 7)


def unpack_sections(
    meta: memoryview,
    payload: int,
    allowed: frozenset[Holds],
    limits: Limits,
    *,
    asked: frozenset[Holds] = frozenset(),
) -> list[Section]:
    """The sections of a meta. Those of kinds that are only ``asked`` for say nothing of the payload; the lengths of the others
    add up to it."""
    if len(meta) % SECTION.size or len(meta) // SECTION.size > limits.sections:
        raise InvalidRequest(f"a meta of {len(meta)} bytes is not a list of at most {limits.sections} sections")
    sections = []
    total = 0
    for key, holds, zero, width, count, number in SECTION.iter_unpack(meta):
        if zero or holds not in allowed:
            raise InvalidRequest(f"a section of kind {holds} is not allowed in this request")
        section = Section(key, holds, width, count, number)
        if holds not in asked:
            if holds in (Holds.BLOCK, Holds.BLOCK_VALUE) and width != 1:
                raise InvalidRequest(f"a block of {count} floats with the width {width}")
            total += section.nbytes
        if total > limits.payload:
            raise InvalidRequest(f"sections of {total} bytes; the limit is {limits.payload}")
        sections.append(section)
    if total != payload:
        raise InvalidRequest(f"the sections declare {total} bytes, the payload has {payload}")
    return sections


PULLED = frozenset({Holds.IDS, Holds.BLOCK})
BLOCKS = frozenset({Holds.BLOCK})
GRADIENTS = frozenset({Holds.UNIQUE_GRADIENTS, Holds.GRADIENTS, Holds.BLOCK, Holds.BLOCK_VALUE})
STATES = frozenset({Holds.ROW_BATCH, Holds.BLOCK_STATE, Holds.EVICTED})
_PADDING = memoryview(bytes(8))


def bytes_of(array: np.ndarray[Any, Any]) -> memoryview:
    """A contiguous array as bytes, without a copy."""
    return array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")


def _padding(size: int) -> list[memoryview]:
    return [_PADDING[: -size & 7]] if size & 7 else []


def encode_push(push: Push) -> tuple[bytes, list[memoryview]]:
    """Meta and payload; the payload as views of the push's own arrays, to be sent without a copy."""
    session = push.session.encode()
    meta = [
        PUSH_HEAD.pack(push.sequence, push.examples, push.based_on, push.part, len(session), len(push.void)),
        session,
        struct.pack(f"<{len(push.void)}Q", *push.void),
    ]
    payload: list[memoryview] = []
    for rows in push.rows:
        holds = Holds.UNIQUE_GRADIENTS if rows.unique else Holds.GRADIENTS
        width = rows.gradients.shape[1] if rows.gradients.ndim == 2 else 0
        if rows.gradients.size != rows.ids.size * width:
            raise InvalidRequest(f"{rows.ids.size} ids of table {rows.table!r} with {rows.gradients.shape} gradients")
        meta.append(Section(key_of(rows.table), holds, width, rows.ids.size).pack())
        payload += [bytes_of(rows.ids), bytes_of(rows.gradients), *_padding(rows.gradients.nbytes)]
    for block in push.blocks:
        holds = Holds.BLOCK_VALUE if block.assign else Holds.BLOCK
        meta.append(Section(key_of(block.variable), holds, 1, block.gradient.size, block.block).pack())
        payload += [bytes_of(block.gradient), *_padding(block.gradient.nbytes)]
    return b"".join(meta), payload


def push_identity(meta: bytes) -> tuple[int, str]:
    """Sequence and session of an encoded push."""
    try:
        sequence, _, _, _, length, _ = PUSH_HEAD.unpack_from(meta)
        return sequence, meta[PUSH_HEAD.size : PUSH_HEAD.size + length].decode()
    except (struct.error, UnicodeDecodeError):
        raise InvalidRequest("a push without a head, or without a session") from None


def check_push(meta: memoryview, payload: int, limits: Limits) -> list[Section]:
    """Read what a push's meta promises, before its payload is received."""
    if len(meta) < PUSH_HEAD.size:
        raise InvalidRequest("a push without a head")
    length, void = PUSH_HEAD.unpack_from(meta)[4:]
    size = PUSH_HEAD.size + length + 8 * void
    if len(meta) < size:
        raise InvalidRequest("a push with a truncated head")
    return unpack_sections(meta[size:], payload, GRADIENTS, limits)


def decode_push(
    meta: bytes | memoryview, payload: memoryview, names: Mapping[int, str], limits: Limits | None = None
) -> Push:
    """The push in views of ``payload``. ``names``: the name of each key. Raises ``InvalidRequest`` or ``NotFound``."""
    meta = memoryview(meta)
    return push_of(check_push(meta, len(payload), limits or Limits()), meta, payload, names)


def push_of(
    sections: Sequence[Section],
    meta: memoryview,
    payload: memoryview,
    names: Mapping[int, str],
    *,
    finite: bool = False,
    release: Callable[[], None] = lambda: None,
) -> Push:
    """``decode_push`` of what was checked (``sections``), with what is known besides."""
    sequence, examples, based_on, part, length, voided = PUSH_HEAD.unpack_from(meta)
    void = struct.unpack_from(f"<{voided}Q", meta, PUSH_HEAD.size + length)
    try:
        session = bytes(meta[PUSH_HEAD.size : PUSH_HEAD.size + length]).decode()
    except UnicodeDecodeError:
        raise InvalidRequest("a push whose session's name is not valid text") from None
    rows: list[RowGradients] = []
    blocks: list[BlockGradient] = []
    for section, at in _places(sections):
        name = name_of(section.key, names)
        if section.holds in (Holds.BLOCK, Holds.BLOCK_VALUE):
            floats = np.frombuffer(payload, np.float32, section.count, at)
            blocks.append(BlockGradient(name, section.number, floats, section.holds == Holds.BLOCK_VALUE))
            continue
        ids = np.frombuffer(payload, np.int64, section.count, at)
        floats = np.frombuffer(payload, np.float32, section.count * section.width, at + ids.nbytes)
        shaped = floats.reshape(section.count, section.width)
        rows.append(RowGradients(name, ids, shaped, section.holds == Holds.UNIQUE_GRADIENTS))
    return Push(session, sequence, examples, based_on, tuple(rows), tuple(blocks), part, finite, release, void)


def _places(sections: Sequence[Section]) -> Iterator[tuple[Section, int]]:
    at = 0
    for section in sections:
        yield section, at
        at += section.nbytes


def name_of(key: int, names: Mapping[int, str]) -> str:
    name = names.get(key)
    if name is None:
        raise NotFound(
            f"no table or variable with the key {key:#x} on this server",
            hint=f"define it first; known: {', '.join(sorted(names.values()))[:500] or 'none'}",
        )
    return name


def encode_chunk(chunk: StateChunk) -> tuple[bytes, list[memoryview]]:
    """State as one section."""
    if isinstance(chunk, RowBatch):
        section = Section(key_of(chunk.table), Holds.ROW_BATCH, chunk.data.shape[1], chunk.ids.size)
        arrays = [bytes_of(chunk.ids), bytes_of(chunk.counters), bytes_of(chunk.data), *_padding(chunk.data.nbytes)]
        return section.pack(), arrays
    if isinstance(chunk, Evicted):
        return Section(key_of(chunk.table), Holds.EVICTED, 1, chunk.ids.size).pack(), [bytes_of(chunk.ids)]
    states, length = chunk.data.shape
    head = Section(key_of(chunk.variable), Holds.BLOCK_STATE, states, length, chunk.block | chunk.changed << 24)
    return head.pack(), [bytes_of(chunk.data), *_padding(chunk.data.nbytes)]


def decode_chunk(
    meta: bytes | memoryview, payload: memoryview, names: Mapping[int, str], limits: Limits | None = None
) -> StateChunk:
    """The state in views of ``payload``."""
    sections = unpack_sections(memoryview(meta), len(payload), STATES, limits or Limits())
    if len(sections) != 1:
        raise InvalidRequest("state travels one chunk at a time")
    (section,) = sections
    name = name_of(section.key, names)
    count, width = section.count, section.width
    if section.holds == Holds.BLOCK_STATE:
        data = np.frombuffer(payload, np.float32, count * width).reshape(width, count)
        return BlockState(name, section.number & 0xFFFFFF, data, section.number >> 24)
    ids: Ids = np.frombuffer(payload, np.int64, count)
    if section.holds == Holds.EVICTED:
        return Evicted(name, ids)
    counters = np.frombuffer(payload, np.uint32, 2 * count, 8 * count).reshape(count, 2)
    rows = np.frombuffer(payload, np.float32, count * width, 16 * count).reshape(count, width)
    return RowBatch(name, ids, rows, counters)


_ERRORS: dict[str, type[PliantError]] = {
    kind.__name__: kind for kind in (InvalidRequest, NotFound, Conflict, NotAvailable, PermanentError, RetryableError)
}


def encode_error(error: PliantError) -> bytes:
    name = next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _ERRORS), "PermanentError")
    return json.dumps({"error": name, "message": error.message[:4000], "hint": error.hint[:1000]}).encode()


def decode_error(kind: int, meta: bytes, iteration: int) -> PliantError:
    """The error that an ERROR or MOVED frame carries."""
    try:
        error = json.loads(meta)
        name, message, hint = str(error["error"]), str(error["message"]), str(error["hint"])
    except (ValueError, TypeError, KeyError):
        return BadFrame("the server sent an unreadable error")
    if kind == Kind.MOVED:
        return Moved(message, map_version=iteration, hint=hint)
    return _ERRORS.get(name, PermanentError)(message, hint=hint)
