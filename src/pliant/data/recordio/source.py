"""The bytes of one file: mapped into memory where it is local, read range by range where it is remote.

A mapped file that someone cuts short while it is read ends the process (SIGBUS): that is the price of reading without copies.
Replace files by renaming, as our writer does, and never in place.
"""

from __future__ import annotations

import contextlib
import mmap
from typing import Protocol

from pliant.data.files import Stamp, is_remote, open_binary, stamp
from pliant.data.recordio.lengths import Buffer


class Source(Protocol):
    stamp: Stamp

    def at(self, position: int, size: int) -> tuple[Buffer, int]:
        """A buffer that holds these bytes, and where in it they begin."""

    def peek(self, position: int, size: int) -> bytes:
        """A copy of a few bytes; fewer at the end of the file."""

    def find(self, needle: bytes, position: int) -> int:
        """The next place of ``needle`` from ``position`` on, or -1."""

    def close(self) -> None: ...


def open_source(path: str) -> Source:
    return RemoteSource(path) if is_remote(path) else MappedSource(path)


class MappedSource:
    def __init__(self, path: str) -> None:
        self.stamp = stamp(path)
        self._map: Buffer = b""
        if self.stamp.size:
            with open(path, "rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self.stamp = Stamp(len(self._map), self.stamp.changed)

    def at(self, position: int, size: int) -> tuple[Buffer, int]:
        return self._map, position

    def peek(self, position: int, size: int) -> bytes:
        return self._map[position : position + size]

    def find(self, needle: bytes, position: int) -> int:
        return self._map.find(needle, position)

    def close(self) -> None:
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

    def find(self, needle: bytes, position: int) -> int:
        while position < self.stamp.size:
            block, _ = self.at(position, self._STEP + len(needle) - 1)
            if (place := block.find(needle)) >= 0:
                return position + place
            position += self._STEP
        return -1

    def close(self) -> None:
        self._file.close()
