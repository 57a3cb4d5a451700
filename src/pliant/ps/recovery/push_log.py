"""What workers staged on one seat, on disk, so that a server that was killed has it again.

A log is a sequence of *segments*, files ``log-<fencing token>-<order>`` in the seat's folder; records are appended to the newest:

    magic u32 | meta bytes u32 | payload bytes u64 | checksum of name and both u64 | meta | payload

Appending is one write to the page cache, straight from the memory into which the push was received: it survives the death of
the process, not that of the machine. A ``durable`` log is on disk when ``append`` returns, and so are the names of its segments
(``push_durability: machine`` of the job; dumps and the master's decisions are on disk in any case). A record that was truncate
by a kill ends its segment: what comes behind it was never answered. With each dump order a new segment begins that holds all
that is staged at that moment, so the segments before it are not needed once the dump is complete. The fencing token in the name
separates two servers that both believe they hold the seat.

One segment of its own that is not needed any more is kept as ``spare-<fencing token>`` and written over by the next: pages that the
system has to find for a growing file cost many times as much as the copy. So behind the last record there may be old ones; the
checksum of a record begins with the name of its segment, which distinguishes them. What a server with another fencing token wrote
is never overwritten: one that was frozen may resume and continue writing to it. For the same reason ``RESERVED_BYTES`` are
allocated behind the end of a segment at a time, where the file system can.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import os
import re
import stat
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pliant.core.errors import InvalidRequest
from pliant.files.atomic import sync_folder
from pliant.files.regular import open_regular
from pliant.ps.compiled.merging import checksum
from pliant.ps.wire.frames import Limits, push_identity

log = logging.getLogger(__name__)

MAGIC = 0x504C5348
HEADER = struct.Struct("<IIQQ")
MAX_RECORD_BYTES = 4 << 30  # bytes of one record
MAX_META_BYTES = Limits().meta
RESERVED_BYTES = 16 << 20
_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE: the file ends where its records do
_NAME = re.compile(r"log-[0-9]{12,18}-[0-9]{12,18}")
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # never waits for a reader of a FIFO

Record = tuple[bytes, bytes]
Meta = bytes
Data = memoryview | bytes
Allocate = Callable[[int, int, int], int]  # file, first byte, bytes -> the error, or 0


@dataclass(frozen=True, slots=True)
class RecordLocation:
    """Of a record in a segment; its meta begins at ``begin``."""

    path: Path
    begin: int
    meta: int
    payload: int


class PushLog:
    """``bytes``: how much would have to be read after a restart."""

    def __init__(self, folder: Path, fencing_token: int, order: int, *, durable: bool = False) -> None:
        self._folder = folder
        self._durable = durable
        self._fencing_token = fencing_token
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        self._spare = folder / f"spare-{fencing_token:012d}"
        for left in folder.glob("spare-*"):
            if left != self._spare:
                left.unlink(missing_ok=True)
        self._used = {path: path.stat().st_size for path in segments(folder)}  # upper bounds
        self._allocate: Allocate | None = native_fallocate()
        self._path, self._seed, self._file = self._begin(order)
        self._reserved = os.fstat(self._file).st_size

    @property
    def bytes(self) -> int:
        return sum(self._used.values())

    def append(self, meta: Meta, payload: Iterable[Data]) -> None:
        """Raises ``OSError`` if there is no room; then nothing of it counts."""
        buffers = list(payload)
        data = buffers[0] if len(buffers) == 1 else b"".join(buffers)
        with self._lock:
            total = checksum(data, checksum(meta, self._seed))
            waiting = [memoryview(HEADER.pack(MAGIC, len(meta), len(data), total) + meta), memoryview(data)]
            at = begin = self._used[self._path]
            self._reserve(begin + sum(map(len, waiting)))
            try:
                while waiting:
                    at += (count := os.pwritev(self._file, waiting, at))
                    while waiting and count >= len(waiting[0]):
                        count -= len(waiting.pop(0))
                    if count:
                        waiting[0] = waiting[0][count:]
                if self._durable:
                    os.fdatasync(self._file)
            except OSError:
                os.truncate(self._file, begin)  # as if it had never begun
                self._reserved = begin
                raise
            self._used[self._path] = at

    def rotate(self, order: int, staged: Iterable[Record]) -> None:
        """Begin the segment of this order with what is staged now. Nothing is staged by others meanwhile."""
        with self._lock:
            begun = self._begin(order)  # if that fails, the old one is still in use
            os.close(self._file)
            self._path, self._seed, self._file = begun
            self._reserved = os.fstat(self._file).st_size
        for meta, payload in staged:
            self.append(meta, [payload])

    def truncate(self, order: int) -> None:
        """A dump of this order is complete: what its own segment and later ones do not have is not needed."""
        for path in segments(self._folder):
            if _order_of(path) < order and path != self._path:
                if _fencing_token_of(path) == self._fencing_token:
                    with contextlib.suppress(FileNotFoundError):  # a later holder of the seat truncate it
                        path.rename(self._spare)
                else:
                    path.unlink(missing_ok=True)  # another server that had this seat may truncate too
                self._used.pop(path, None)

    def close(self) -> None:
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
            self._file = -1

    def _reserve(self, size: int) -> None:
        """Have the file system find pages for what comes, many at a time. If it cannot, a write finds them, or fails."""
        if size <= self._reserved or self._allocate is None:
            return
        first, self._reserved = self._reserved, max(size, self._reserved + RESERVED_BYTES)
        error = self._allocate(self._file, first, self._reserved - first)
        if error in (errno.EOPNOTSUPP, errno.ENOSYS):
            self._allocate = None

    def _begin(self, order: int) -> tuple[Path, int, int]:
        """Path, seed and open file of the segment of this order."""
        path = self._folder / f"log-{self._fencing_token:012d}-{order:012d}"
        if not _is_plain(path):
            path.unlink(missing_ok=True)  # a link or a FIFO: not ours
        if path.exists():
            self._used[path] = sum(HEADER.size + location.meta + location.payload for location, _ in _records(path))
        else:
            with contextlib.suppress(FileNotFoundError):  # there is none yet
                self._spare.rename(path)
            self._used[path] = 0
        file = os.open(path, _WRITE, 0o666)
        if self._durable:
            try:
                sync_folder(self._folder)
            except OSError:
                os.close(file)
                raise
        return path, _seed_of(path), file


def native_fallocate() -> Allocate | None:
    """The system call itself: where a file system has none, ``os.posix_fallocate`` writes into every block instead."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "fallocate64", None)
    if call is None:
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)

    def allocate(file: int, first: int, size: int) -> int:
        return ctypes.get_errno() if call(file, _KEEP_SIZE, first, size) else 0

    return allocate


def segments(folder: Path) -> list[Path]:
    """Oldest first. What only looks like one (another form of name, a link, a FIFO) is left alone."""
    found = (path for path in folder.glob("log-*-*") if _NAME.fullmatch(path.name) and _is_plain(path))
    return sorted(found, key=lambda path: (_order_of(path), path.name))


def _is_plain(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def index(folder: Path, base: int) -> dict[tuple[str, int], list[RecordLocation]]:
    """Where everything is that was staged and may be named by an order after ``base``, by session and sequence."""
    found: dict[tuple[str, int], list[RecordLocation]] = {}
    for path in segments(folder):
        if _order_of(path) >= base:
            for location, meta in _records(path):
                try:
                    sequence, session = push_identity(meta)
                except InvalidRequest as error:
                    log.warning("%s: the record at byte %d is not used: %s", path, location.begin, error)
                    continue
                found.setdefault((session, sequence), []).append(location)
    return found


def read(location: RecordLocation) -> Record:
    with open_regular(location.path) as file:
        file.seek(location.begin)
        data = file.read(location.meta + location.payload)
    return data[: location.meta], data[location.meta :]


def _fencing_token_of(path: Path) -> int:
    return int(path.name.split("-")[1])


def _order_of(path: Path) -> int:
    return int(path.name.rpartition("-")[2])


def _seed_of(path: Path) -> int:
    """What the checksums of a segment's records begin with."""
    return checksum(path.name.encode())


def _records(path: Path) -> Iterator[tuple[RecordLocation, bytes]]:
    """Up to the first one that is not whole."""
    at, seed = 0, _seed_of(path)
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        while at + HEADER.size <= size:
            magic, meta_length, length, total = HEADER.unpack(file.read(HEADER.size))
            begin = at + HEADER.size
            if (
                magic != MAGIC
                or length > MAX_RECORD_BYTES
                or meta_length > MAX_META_BYTES
                or begin + meta_length + length > size
            ):
                break
            meta = file.read(meta_length)
            if checksum(file.read(length), checksum(meta, seed)) != total:
                break
            yield RecordLocation(path, begin, meta_length, length), meta
            at = begin + meta_length + length
    log.debug(
        "%s: %d of %d bytes are records; the rest was truncated by a kill, or belongs to an older segment",
        path,
        at,
        size,
    )
