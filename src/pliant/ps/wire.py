"""Frames of the data plane and the proof of who may send them.

A frame is a header of 40 bytes, a small binary ``meta`` and a ``payload`` of arrays, all little-endian:

    magic 4s | kind u16 | flags u16 | meta bytes u32 | zero u32 | payload bytes u64 | request u64 | iteration u64

Every length is checked against ``Limits`` and against what ``meta`` says before a buffer is made. Arrays in a payload start
at multiples of 8 bytes. Tables and variables are named by ``placement.key_of``. Errors travel as JSON.

Who connects gets 32 random bytes from the server, answers with 32 of its own and the HMAC-SHA256 of both under the job's
secret, and gets the server's HMAC back: fixed lengths, so nothing is allocated for a stranger, and no answer works twice.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from pliant.ps.pieces import Piece, Push

MAGIC = b"PLPS"


class Kind(enum.IntEnum):
    PULL_ROWS = 1
    PULL_BLOCKS = 2
    PUSH = 3
    IMPORT = 4
    DEFINE = 5
    STATS = 6
    DONE = 16
    ROWS = 17
    BLOCKS = 18
    ERROR = 19
    MOVED = 20


@dataclass(frozen=True)
class Limits:
    """The most that a peer who proved itself may ask for."""

    meta: int = 4 << 20
    payload: int = 2 << 30
    sections: int = 65_536


def encode_push(push: Push) -> tuple[bytes, list[memoryview]]:
    """Meta and payload; the payload as views of the push's own arrays, to be sent without a copy."""
    raise NotImplementedError


def decode_push(meta: bytes, payload: memoryview, names: Mapping[int, str]) -> Push:
    """The push in views of ``payload``. ``names``: the name of each key. Raises ``InvalidRequest`` or ``NotFound``."""
    raise NotImplementedError


def encode_piece(piece: Piece) -> tuple[bytes, list[memoryview]]:
    raise NotImplementedError


def decode_piece(meta: bytes, payload: memoryview, names: Mapping[int, str]) -> Piece:
    raise NotImplementedError
