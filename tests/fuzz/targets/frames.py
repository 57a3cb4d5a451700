"""Frames between workers and parameter servers: a header, a meta and a payload."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pliant.core.errors import PliantError
from pliant.ps.payloads import BlockGradient, BlockState, Evicted, Push, RowBatch, RowGradients
from pliant.ps.placement import key_of
from pliant.ps.wire.frames import (
    HEADER,
    Header,
    Kind,
    Limits,
    decode_chunk,
    decode_error,
    decode_push,
    encode_chunk,
    encode_error,
    encode_push,
    push_identity,
    unpack_header,
)

NAMES = {key_of(name): name for name in ("t", "v")}
LIMITS = Limits(payload=1 << 20)


class Fuzz:
    name = "ps_frames"

    def seeds(self) -> list[bytes]:
        rows = RowGradients("t", np.arange(4), np.ones((4, 3), np.float32), True)
        block = BlockGradient("v", 0, np.ones(6, np.float32), True)
        bodies = [
            (Kind.PUSH, *encode_push(Push("session", 5, rows=(rows,), blocks=(block,), void=(1, 2)))),
            (
                Kind.IMPORT,
                *encode_chunk(RowBatch("t", np.arange(2), np.ones((2, 6), np.float32), np.zeros((2, 2), np.uint32))),
            ),
            (Kind.IMPORT, *encode_chunk(BlockState("v", 0, np.ones((2, 6), np.float32), 7))),
            (Kind.IMPORT, *encode_chunk(Evicted("t", np.arange(3)))),
            (Kind.ERROR, encode_error(PliantError("message", hint="hint")), []),
        ]
        return [_frame(int(kind), meta, b"".join(payload)) for kind, meta, payload in bodies]

    def check(self, data: bytes, folder: Path) -> None:
        if len(data) < HEADER.size:
            return  # a socket waits for the rest
        header = unpack_header(data[: HEADER.size], LIMITS)
        meta = data[HEADER.size : HEADER.size + header.meta]
        payload = memoryview(data[HEADER.size + header.meta :][: header.payload])
        match header.kind:
            case Kind.PUSH:
                decode_push(meta, payload, NAMES, LIMITS)
                push_identity(meta)
            case Kind.IMPORT:
                decode_chunk(meta, payload, NAMES, LIMITS)
            case _:
                raise decode_error(header.kind, meta, header.iteration)


def _frame(kind: int, meta: bytes, payload: bytes) -> bytes:
    return Header(kind, 0, len(meta), len(payload), 1, 2).pack() + meta + payload
