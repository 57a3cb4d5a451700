"""Indexes of large files, cached on disk so that a file is scanned once and not by every worker.

An index is a few int64 arrays with the stamp (size and time of change) of the file they describe. It lies beside the data or in a
given directory. It is only a cache: unreadable, damaged or out of date means "build it again", and a directory
that cannot be written means "do without". Layout: magic, sizes, arrays, CRC32 of all before.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pliant.data.checksum import crc32
from pliant.data.files import INDEX_SUFFIX, PathLike, Stamp, is_remote
from pliant.files.atomic import write_bytes

Array = npt.NDArray[np.int64]

_MAGIC = b"PLIXv1\0\0"
_HEAD = struct.Struct("<8s16sqqI")  # magic, kind, size and time of the data file, number of arrays
_CRC = struct.Struct("<I")


def index_path(data: str, directory: PathLike | None) -> Path | None:
    """Where the index of ``data`` is stored: beside it, or in ``directory``. None: nowhere."""
    if directory is not None:
        digest = hashlib.blake2b(os.fsencode(data if is_remote(data) else os.path.abspath(data)), digest_size=8)
        return Path(directory) / f"{os.path.basename(data)}.{digest.hexdigest()}{INDEX_SUFFIX}"
    if is_remote(data):
        return None
    return Path(data).parent / f".{os.path.basename(data)}{INDEX_SUFFIX}"


def load(path: Path, kind: str, stamp: Stamp) -> list[Array] | None:
    """The arrays, if they are there, undamaged and about this very version of the file."""
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    if len(raw) < _HEAD.size + _CRC.size or _CRC.unpack_from(raw, len(raw) - _CRC.size)[0] != crc32(raw[: -_CRC.size]):
        return None
    magic, stored_kind, size, changed, count = _HEAD.unpack_from(raw)
    if (magic, stored_kind.rstrip(b"\0").decode(), Stamp(size, changed)) != (_MAGIC, kind, stamp):
        return None
    lengths = struct.unpack_from(f"<{count}q", raw, _HEAD.size)
    position = _HEAD.size + 8 * count
    arrays: list[Array] = []
    for length in lengths:
        arrays.append(np.frombuffer(raw, np.int64, length, position))
        position += 8 * length
    return arrays


def save(path: Path, kind: str, stamp: Stamp, arrays: Sequence[Array]) -> None:
    head = _HEAD.pack(_MAGIC, kind.encode(), stamp.size, stamp.changed, len(arrays))
    lengths = struct.pack(f"<{len(arrays)}q", *map(len, arrays))
    raw = b"".join([head, lengths, *(np.ascontiguousarray(a, np.int64).tobytes() for a in arrays)])
    with contextlib.suppress(OSError):  # a cache: a read-only directory or a full disk is no reason to stop
        write_bytes(path, raw + _CRC.pack(crc32(raw)), durable=False)
