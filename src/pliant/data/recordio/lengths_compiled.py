"""The compiled twin of ``lengths.scan_in_python``. Importing it imports numba, so only ``lengths`` does, and late."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def _scan(data: Any, position: Any, end: int, ends: Any) -> int:
    for number in range(len(ends)):
        if position + 4 > end:
            return number
        low = np.int64(data[position]) | np.int64(data[position + 1]) << 8
        high = np.int64(data[position + 2]) | np.int64(data[position + 3]) << 8
        position += 4 + (low | high << 16)
        if position > end:
            return number
        ends[number] = position
    return len(ends)


def scan_compiled(buffer: Any, position: int, end: int, ends: Any) -> int:
    return int(_scan(np.frombuffer(buffer, np.uint8), position, end, ends))
