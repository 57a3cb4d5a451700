"""Indexes of large files, cached on disk so that a file is scanned once and not by every worker.

An index is a few int64 arrays with the stamp (size and time of change) of the file they describe. It lies beside the data or in a
given directory. It is only a cache: unreadable, damaged or out of date means "build it again", and a directory
that cannot be written means "do without". Layout: magic, sizes, arrays, CRC32 of all before.

Others may write to that directory too. So an index is a regular file, no link; it belongs to this user, to root or to the owner of
the data (who can change the data as well); it is no larger than the data; and its arrays are checked by who uses them. It is
written under a new name and renamed, so that it never follows a link that someone put there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pliant.core.errors import CorruptData
from pliant.data.checksum import crc32
from pliant.data.files import INDEX_SUFFIX, PathLike, Stamp, is_remote
from pliant.files.atomic import write_bytes
from pliant.files.regular import open_regular

Array = npt.NDArray[np.int64]

_MAGIC = b"PLIXv1\0\0"
_HEAD = struct.Struct("<8s16sqqI")  # magic, kind, size and time of the data file, number of arrays
_CRC = struct.Struct("<I")
_ROOM = 4096  # bytes that the index of a small file may have more than the file


def index_path(data: str, directory: PathLike | None) -> Path | None:
    """Where the index of ``data`` is stored: beside it, or in ``directory``. None: nowhere."""
    if directory is not None:
        digest = hashlib.blake2b(os.fsencode(data if is_remote(data) else os.path.abspath(data)), digest_size=8)
        return Path(directory) / f"{os.path.basename(data)}.{digest.hexdigest()}{INDEX_SUFFIX}"
    if is_remote(data):
        return None
    return Path(data).parent / f".{os.path.basename(data)}{INDEX_SUFFIX}"


def load(path: Path, kind: str, data: str, stamp: Stamp, check: Callable[[list[Array]], bool]) -> list[Array] | None:
    """The arrays, if they are there, undamaged, about this very version of the file, and pass ``check``."""
    try:
        raw = _read(path, data, stamp)
    except (OSError, CorruptData):
        return None
    arrays = _parse(raw, kind, stamp)
    return arrays if arrays is not None and check(arrays) else None


def _read(path: Path, data: str, stamp: Stamp) -> bytes:
    with open_regular(path, follow_symlinks=False) as file:
        trusted = {os.getuid(), 0}
        if not is_remote(data):
            trusted.add(os.stat(data).st_uid)
        status = os.fstat(file.fileno())
        if status.st_uid not in trusted or status.st_size > stamp.size + _ROOM:
            raise CorruptData(f"{path} is not an index of {data}")
        return file.read(status.st_size)


def _parse(raw: bytes, kind: str, stamp: Stamp) -> list[Array] | None:
    body = len(raw) - _CRC.size
    if body < _HEAD.size or _CRC.unpack_from(raw, body)[0] != crc32(raw[:body]):
        return None
    magic, stored_kind, size, changed, count = _HEAD.unpack_from(raw)
    if (magic, stored_kind.rstrip(b"\0"), Stamp(size, changed)) != (_MAGIC, kind.encode(), stamp):
        return None
    position = _HEAD.size + 8 * count
    if position > body:
        return None
    lengths = struct.unpack_from(f"<{count}q", raw, _HEAD.size)
    if any(length < 0 for length in lengths) or position + 8 * sum(lengths) != body:
        return None
    arrays: list[Array] = []
    for length in lengths:
        arrays.append(np.frombuffer(raw, np.int64, length, position))
        position += 8 * length
    return arrays


def is_rising(array: Array, below: int) -> bool:
    """Whether the offsets begin at 0 or later, rise, and stay below a limit."""
    return not len(array) or (array[0] >= 0 and array[-1] < below and bool((np.diff(array) > 0).all()))


def save(path: Path, kind: str, stamp: Stamp, arrays: Sequence[Array]) -> None:
    head = _HEAD.pack(_MAGIC, kind.encode(), stamp.size, stamp.changed, len(arrays))
    lengths = struct.pack(f"<{len(arrays)}q", *map(len, arrays))
    raw = b"".join([head, lengths, *(np.ascontiguousarray(a, np.int64).tobytes() for a in arrays)])
    with contextlib.suppress(OSError):  # a cache: a read-only directory or a full disk is no reason to stop
        write_bytes(path, raw + _CRC.pack(crc32(raw)), durable=False)
