"""The bytes of one file: mapped into memory where it is local, read range by range where it is remote.

A mapped file that someone cuts short while it is read ends the process (SIGBUS): that is the price of reading without copies.
Replace files by renaming, as our writer does, and never in place.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from typing import IO, Protocol

from pliant.data.files import Stamp, is_remote, open_binary, stamp
from pliant.data.recordio.lengths import Buffer


class Source(Protocol):
    stamp: Stamp

    def at(self, position: int, size: int) -> tuple[Buffer, int]:
        """A buffer that holds these bytes, and where in it they begin."""

    def peek(self, position: int, size: int) -> bytes:
        """A copy of a few bytes; fewer at the end of the file."""

    def will_need(self, position: int, size: int) -> bool:
        """Have the system fetch these bytes in the background; False where ``at`` must be called to have them."""

    def find(self, needle: bytes, position: int) -> int:
        """The next place of ``needle`` from ``position`` on, or -1."""

    def close(self) -> None: ...


def open_source(path: str) -> Source:
    return RemoteSource(path) if is_remote(path) else MappedSource(path)


class MappedSource:
    def __init__(self, path: str) -> None:
        self.stamp = stamp(path)
        self._map: Buffer = b""
        self._file: IO[bytes] | None = None
        self._probe = bytearray(1)
        if self.stamp.size:
            self._file = open(path, "rb")  # noqa: SIM115  (open as long as the map)
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            self.stamp = Stamp(len(self._map), self.stamp.changed)

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

    def at(self, position: int, size: int) -> tuple[Buffer, int]:
        self._file.seek(position)
        return self._file.read(size), 0

    def peek(self, position: int, size: int) -> bytes:
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
