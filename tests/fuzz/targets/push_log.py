"""Segments of the log of staged pushes, with checksums that match the first record."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pliant.ps.compiled.merging import checksum
from pliant.ps.payloads import Push, RowGradients
from pliant.ps.placement import key_of
from pliant.ps.recovery import push_log
from pliant.ps.wire.frames import decode_push, encode_push

NAME = f"log-{1:012d}-{0:012d}"


class Fuzz:
    name = "push_log"

    def seeds(self) -> list[bytes]:
        with TemporaryDirectory() as folder:
            log = push_log.PushLog(Path(folder), 1, 0)
            for number in range(3):
                rows = RowGradients("t", np.arange(number + 1), np.ones((number + 1, 2), np.float32), True)
                meta, payload = encode_push(Push("session", number, rows=(rows,)))
                log.append(meta, payload)
            log.close()
            return [(Path(folder) / NAME).read_bytes()]

    def check(self, data: bytes, folder: Path) -> None:
        (folder / NAME).write_bytes(_with_checksum(data))
        for locations in push_log.index(folder, 0).values():
            for location in locations:
                meta, payload = push_log.read(location)
                decode_push(meta, memoryview(payload), {key_of("t"): "t"})


def _with_checksum(data: bytes) -> bytes:
    size = push_log.HEADER.size
    if len(data) < size:
        return data
    magic, meta, payload, _ = push_log.HEADER.unpack_from(data)
    if size + meta + payload > len(data):
        return data
    seed = checksum(NAME.encode())
    total = checksum(data[size + meta : size + meta + payload], checksum(data[size : size + meta], seed))
    return push_log.HEADER.pack(magic, meta, payload, total) + data[size:]
