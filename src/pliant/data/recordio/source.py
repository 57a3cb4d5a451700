"""The bytes of one file: mapped into memory where it is local, read range by range where it is remote.

A mapped file that someone cuts short while it is read ends the process (SIGBUS): that is the price of reading without copies.
Replace files by renaming, as our writer does, and never in place.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import IO, Protocol

from pliant.core.errors import CorruptData
from pliant.data.files import Stamp, is_remote, open_binary, stamp
from pliant.data.recordio.lengths import Buffer
from pliant.files.regular import open_regular


class Source(Protocol):
    stamp: Stamp

    def at(self, position: int, size: int) -> tuple[Buffer, int]:
        """A buffer that holds these bytes, and where in it they begin."""

    def peek(self, position: int, size: int) -> bytes:
        """A copy of a few bytes; fewer at the end of the file."""

    def will_need(self, position: int, size: int) -> bool:
        """Have the system fetch these bytes in the background; False where ``at`` must be called to have them."""

    def find(self, needle: bytes, position: int) -> int:
        """The next offset of ``needle`` from ``position`` on, or -1."""

    def close(self) -> None: ...


def open_source(path: str) -> Source:
    return RemoteSource(path) if is_remote(path) else MappedSource(path)


class OpenSources:
    """The files used last stay open, so that a data set of ten thousand files does not need as many open at once.

    An evicted file is passed to ``let_go`` and not closed: readers that still use its map keep that alive.
    """

    def __init__(self, let_go: Callable[[str], None], limit: int = 128) -> None:
        self._let_go = let_go
        self._limit = limit
        self._open: OrderedDict[str, Source] = OrderedDict()
        self._lock = Lock()

    def get(self, path: str, known: Stamp | None = None) -> Source:
        """The file, opened if need be. It must still be the version that is ``known``."""
        with self._lock:
            source = self._open.get(path)
            if source is None:
                source = self._open[path] = open_source(path)
                if len(self._open) > self._limit:
                    self._let_go(self._open.popitem(last=False)[0])
            else:
                self._open.move_to_end(path)
        if known is not None and source.stamp != known:
            raise CorruptData(f"{path}: changed since it was first opened", hint="open a new reader")
        return source

    def close(self) -> None:
        with self._lock:
            for source in self._open.values():
                source.close()
            self._open.clear()


class MappedSource:
    def __init__(self, path: str) -> None:
        self._map: Buffer = b""
        self._probe = bytearray(1)
        self._file: IO[bytes] | None = open_regular(path)  # open as long as the map
        status = os.fstat(self._file.fileno())
        self.stamp = Stamp(status.st_size, status.st_mtime_ns)
        if status.st_size:
            self._map = mmap.mmap(self._file.fileno(), status.st_size, access=mmap.ACCESS_READ)

    def at(self, position: int, size: int) -> tuple[Buffer, int]:
        return self._map, position

    def peek(self, position: int, size: int) -> bytes:
        return self._map[position : position + size]

    def will_need(self, position: int, size: int) -> bool:
        """Asks only for what is not in the page cache, since asking takes as long as a checksum over what is."""
        if hasattr(os, "RWF_NOWAIT") and self._file is not None:
            try:
                os.preadv(self._file.fileno(), [self._probe], position + size - 1, os.RWF_NOWAIT)
            except OSError:  # would have to wait, or cannot tell
                os.posix_fadvise(self._file.fileno(), position, size, os.POSIX_FADV_WILLNEED)
        return True

    def find(self, needle: bytes, position: int) -> int:
        return self._map.find(needle, position)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        if isinstance(self._map, mmap.mmap):
            with contextlib.suppress(
                BufferError
            ):  # views of records are still in use; the map goes with the last of them
                self._map.close()


class RemoteSource:
    _STEP = 1 << 20  # bytes, when searching

    def __init__(self, path: str) -> None:
        self.stamp = stamp(path)
        self._file = open_binary(path)
        self._lock = Lock()  # a seek and a read belong together, and several threads may read

    def at(self, position: int, size: int) -> tuple[Buffer, int]:
        return self.peek(position, size), 0

    def peek(self, position: int, size: int) -> bytes:
        with self._lock:
            self._file.seek(position)
            return self._file.read(size)

    def will_need(self, position: int, size: int) -> bool:
        return False

    def find(self, needle: bytes, position: int) -> int:
        while position < self.stamp.size:
            block, _ = self.at(position, self._STEP + len(needle) - 1)
            if (place := block.find(needle)) >= 0:
                return position + place
            position += self._STEP
        return -1

    def close(self) -> None:
        self._file.close()
