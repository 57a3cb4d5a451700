"""Parts of checkpoints, with notes that match: headers, metadata, slices, structure."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from tests.fuzz.targets.sealed import PART, STEP, checkpoint, write

from pliant.checkpoint import load_latest


class Fuzz:
    """The input is the header and our metadata as JSON (their lengths are set right), or a whole file."""

    name = "checkpoint_part"

    def seeds(self) -> list[bytes]:
        data = (checkpoint() / STEP / PART).read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        table = json.loads(data[8 : 8 + length])
        table["__metadata__"]["pliant"] = json.loads(table["__metadata__"]["pliant"])
        return [b"J" + json.dumps(table).encode(), b"F" + data]

    def check(self, data: bytes, folder: Path) -> None:
        write(folder, _part(data))
        load_latest(folder, memory=False)


def _part(data: bytes) -> bytes:
    if data[:1] != b"J":
        return data[1:]
    try:
        table = json.loads(data[1:])
        table["__metadata__"]["pliant"] = json.dumps(table["__metadata__"]["pliant"])
        header = json.dumps(table).encode()
    except (ValueError, TypeError, KeyError, RecursionError):
        header = data[1:]
    good = (checkpoint() / STEP / PART).read_bytes()
    (length,) = struct.unpack("<Q", good[:8])
    return struct.pack("<Q", len(header)) + header + good[8 + length :]
