"""What workers staged on one seat, on disk, so that a server that was killed has it again.

A log is a row of *segments*, files ``log-<tenure>-<order>`` in the seat's folder; records are appended to the newest:

    magic u32 | meta bytes u32 | payload bytes u64 | crc32 of both u32 | zero u32 | meta | payload

Appending is one write to the page cache: it survives the death of the process, not that of the machine. A record that was
cut by a kill ends its segment: what comes behind it was never answered. With each dump order a new segment begins that
holds all that is staged at that moment, so the segments before it are not needed once the dump is complete. The tenure in
the name keeps two servers apart that believe to hold the same seat.
"""

from __future__ import annotations

import logging
import os
import struct
import threading
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pliant.ps.wire import push_identity

log = logging.getLogger(__name__)

MAGIC = 0x504C5347
HEADER = struct.Struct("<IIQII")
LARGEST = 4 << 30  # bytes of one record

Record = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Place:
    """Of a record in a segment; its meta begins at ``begin``."""

    path: Path
    begin: int
    meta: int
    payload: int


class PushLog:
    def __init__(self, folder: Path, tenure: int, order: int) -> None:
        self._folder = folder
        self._tenure = tenure
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        self._path, self._file = self._open(order)
        self.bytes = sum(path.stat().st_size for path in segments(folder))

    def append(self, meta: bytes, payload: Iterable[memoryview | bytes]) -> None:
        """Raises ``OSError`` if there is no room; then nothing of it counts."""
        pieces = [memoryview(piece).cast("B") for piece in payload]
        length = sum(piece.nbytes for piece in pieces)
        crc = zlib.crc32(meta)
        for piece in pieces:
            crc = zlib.crc32(piece, crc)
        header = HEADER.pack(MAGIC, len(meta), length, crc, 0)
        with self._lock:
            begin = self._file.tell()
            try:
                self._file.write(header)
                self._file.write(meta)
                for piece in pieces:
                    self._file.write(piece)
                self._file.flush()
            except OSError:
                self._undo(begin)
                raise
            self.bytes += HEADER.size + len(meta) + length

    def rotate(self, order: int, staged: Iterable[Record]) -> None:
        """Begin the segment of this order with what is staged now. Nothing is staged by others meanwhile."""
        with self._lock:
            self._file.close()
            self._path, self._file = self._open(order)
        for meta, payload in staged:
            self.append(meta, [payload])

    def cut(self, order: int) -> None:
        """A dump of this order is complete: what its own segment and later ones do not have is not needed."""
        for path in segments(self._folder):
            if _order_of(path) < order and path != self._path:
                size = path.stat().st_size
                path.unlink(missing_ok=True)
                self.bytes -= size

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def _open(self, order: int) -> tuple[Path, IO[bytes]]:
        path = self._folder / f"log-{self._tenure:012d}-{order:012d}"
        return path, path.open("ab")

    def _undo(self, begin: int) -> None:
        """After a write that failed half-way: as if it had never begun."""
        try:
            self._file.close()
        except OSError as error:  # its buffer does not fit either, and is let go
            log.debug("%s", error)
        os.truncate(self._path, begin)
        self._file = self._path.open("ab")


def segments(folder: Path) -> list[Path]:
    """Oldest first."""
    return sorted(folder.glob("log-*-*"), key=lambda path: (_order_of(path), path.name))


def index(folder: Path, base: int) -> dict[tuple[str, int], list[Place]]:
    """Where everything is that was staged and may be named by an order after ``base``, by session and sequence."""
    found: dict[tuple[str, int], list[Place]] = {}
    for path in segments(folder):
        if _order_of(path) >= base:
            for place, meta in _records(path):
                sequence, session = push_identity(meta)
                found.setdefault((session, sequence), []).append(place)
    return found


def read(place: Place) -> Record:
    with place.path.open("rb") as file:
        file.seek(place.begin)
        data = file.read(place.meta + place.payload)
    return data[: place.meta], data[place.meta :]


def _order_of(path: Path) -> int:
    return int(path.name.rpartition("-")[2])


def _records(path: Path) -> Iterator[tuple[Place, bytes]]:
    """Up to the first one that is not whole."""
    at = 0
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        while at + HEADER.size <= size:
            magic, meta_length, length, crc, _ = HEADER.unpack(file.read(HEADER.size))
            begin = at + HEADER.size
            if magic != MAGIC or length > LARGEST or begin + meta_length + length > size:
                break
            meta = file.read(meta_length)
            if zlib.crc32(file.read(length), zlib.crc32(meta)) != crc:
                break
            yield Place(path, begin, meta_length, length), meta
            at = begin + meta_length + length
    if at < size:
        log.warning("%s: of %d bytes, those from %d on were cut by a kill, and never answered", path, size, at)
