"""Finding records of differing length: the one loop over single records that reading cannot do without.

It begins in Python. Once enough records were seen to pay for importing numba (half a second), the compiled twin takes
over; where numba is not installed, Python goes on.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from mmap import mmap

import numpy as np
import numpy.typing as npt

from pliant.data.recordio.chunk import LENGTH_BYTES, ChunkDamage

Buffer = bytes | mmap
Places = npt.NDArray[np.int64]
Scan = Callable[[Buffer, int, int, Places], int]

_WORTH_COMPILING = 1_000_000  # records; Python takes a fifth of a second for them
_unpack_length = struct.Struct("<I").unpack_from


def scan_in_python(buffer: Buffer, position: int, end: int, ends: Places) -> int:
    """Fill ``ends`` with the end of each record; the number of records that fit."""
    for number in range(len(ends)):
        if position + LENGTH_BYTES > end:
            return number
        position += LENGTH_BYTES + _unpack_length(buffer, position)[0]
        if position > end:
            return number
        ends[number] = position
    return len(ends)


class _Scanner:
    def __init__(self) -> None:
        self._scan: Scan = scan_in_python
        self._until_compiled = _WORTH_COMPILING

    def __call__(self, buffer: Buffer, position: int, end: int, ends: Places) -> int:
        if self._until_compiled > 0:
            self._until_compiled -= len(ends)
            if self._until_compiled <= 0:
                self._compile()
        return self._scan(buffer, position, end, ends)

    def _compile(self) -> None:
        try:
            from pliant.data.recordio.lengths_compiled import scan_compiled
        except ImportError:
            return
        self._scan = scan_compiled


_scan = _Scanner()


def find_records(buffer: Buffer, origin: int, size: int, count: int) -> tuple[Places, Places]:
    """Starts and ends of ``count`` records that fill ``size`` bytes exactly; anything else is damage."""
    ends = np.empty(count, np.int64)
    found = _scan(buffer, origin, origin + size, ends)
    if found < count:
        raise ChunkDamage(f"record {found} of {count} is longer than the rest of the payload")
    if int(ends[-1]) != origin + size:
        raise ChunkDamage(f"{origin + size - int(ends[-1])} bytes are left after the last of {count} records")
    starts = np.empty(count, np.int64)
    starts[0] = origin
    starts[1:] = ends[:-1]
    return starts + LENGTH_BYTES, ends
