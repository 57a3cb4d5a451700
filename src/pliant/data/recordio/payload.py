"""Where the records are in a payload, and how to get many of them out at once.

A payload is ``u32 length | bytes`` repeated. Two cases, because the difference is threefold for small records:

- all records have one length (checked by numpy over the length fields, without a loop): numpy hands them out as a strided
  array of opaque items, whose ``tolist`` makes the ``bytes`` in C. 60 ns a record of 100 B where a Python slice takes 190;
- lengths differ: ``lengths`` finds their offsets, and each record is a slice.

The bytes of an uncompressed chunk stay where they are, in the mapped file; ``views`` returns them without a copy.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain

import numpy as np

from pliant.data.recordio.chunk import LENGTH_BYTES, ChunkDamage
from pliant.data.recordio.lengths import Buffer, Places, find_records

_MAX_ITEM = 1 << 20  # bytes; longer records are worth a slice each
_RUN_BYTES = 1 << 18  # made at once when iterating, so that they stay in the cache of the core
_OWN_COST = 256  # bytes, about, of the object and its place in a cache
_U32 = np.dtype("<u4")
_unpack_length = struct.Struct("<I").unpack_from


@lru_cache(64)
def _opaque(length: int) -> np.dtype[np.void]:
    return np.dtype((np.void, length))


class Payload:
    """The records of one verified chunk."""

    __slots__ = ("_buffer", "_ends", "_first", "_length", "_starts", "cost", "count")

    def __init__(self, buffer: Buffer, origin: int, size: int, count: int) -> None:
        if size < count * LENGTH_BYTES or (count == 0 and size):
            raise ChunkDamage(f"{size} bytes of payload cannot hold {count} records")
        self.count = count
        self._buffer = buffer
        self._first = origin + LENGTH_BYTES
        self._length = _one_length(buffer, origin, size, count)
        self._starts: Places | None = None
        self._ends: Places | None = None
        if self._length < 0:
            self._starts, self._ends = find_records(buffer, origin, size, count)
        self.cost = _OWN_COST  # bytes of memory held, beyond the mapped file
        if isinstance(buffer, bytes):
            self.cost += len(buffer)
        if self._starts is not None:
            self.cost += 2 * self._starts.nbytes

    def take(self, start: int, stop: int) -> list[bytes]:
        buffer, length = self._buffer, self._length
        if length == 0 or start >= stop:
            return [b""] * (stop - start)
        if 0 < length <= _MAX_ITEM:
            stride = length + LENGTH_BYTES
            place = self._first + start * stride
            items: list[bytes] = np.ndarray((stop - start,), _opaque(length), buffer, place, (stride,)).tolist()
            return items
        return [buffer[a:b] for a, b in self._bounds(start, stop)]

    def views(self, start: int, stop: int) -> list[memoryview]:
        whole = memoryview(self._buffer)
        return [whole[a:b] for a, b in self._bounds(start, stop)]

    def pick(self, positions: list[int]) -> list[bytes]:
        """Single records, in the order asked for."""
        buffer = self._buffer
        if self._starts is None or self._ends is None:
            first, length, stride = self._first, self._length, self._length + LENGTH_BYTES
            return [buffer[first + p * stride : first + p * stride + length] for p in positions]
        bounds = zip(self._starts[positions].tolist(), self._ends[positions].tolist(), strict=True)
        return [buffer[a:b] for a, b in bounds]

    def runs(self, start: int, stop: int) -> Iterator[list[bytes]]:
        step = max(1, _RUN_BYTES // max(1, self._mean_length()))
        return (self.take(a, min(a + step, stop)) for a in range(start, stop, step))

    def iterate(self, start: int, stop: int) -> Iterator[bytes]:
        return chain.from_iterable(self.runs(start, stop))

    def _mean_length(self) -> int:
        if self._ends is None or self.count == 0:
            return self._length
        return int(self._ends[-1] - self._first) // self.count

    def _bounds(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        if self._starts is None or self._ends is None:
            stride = self._length + LENGTH_BYTES
            a, b = self._first + start * stride, self._first + stop * stride
            return zip(range(a, b, stride), range(a + self._length, b + self._length, stride), strict=True)
        return zip(self._starts[start:stop].tolist(), self._ends[start:stop].tolist(), strict=True)


def _one_length(buffer: Buffer, origin: int, size: int, count: int) -> int:
    """The length that all records have, or -1."""
    if count == 0:
        return 0
    length: int = _unpack_length(buffer, origin)[0]
    stride = length + LENGTH_BYTES
    if stride * count != size:
        return -1
    lengths = np.ndarray((count,), _U32, buffer, origin, (stride,)).tobytes()
    return length if lengths == lengths[:LENGTH_BYTES] * count else -1
