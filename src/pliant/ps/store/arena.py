"""Memory of a table: large, lazily filled, in huge pages; and the index arrays of its partitions cut out of it.

A random row of a large table is a miss of the TLB as well as of the cache, and on a virtual machine the former costs more.
The system uses huge pages only for whole, aligned ones, so everything here begins at such a boundary. Memory that was
never written costs nothing.

Neighbour: ``table``, which owns what is made here.
"""

from __future__ import annotations

import mmap

import numpy as np
import numpy.typing as npt

HUGE = 2 << 20  # bytes of a huge page

Slots = npt.NDArray[np.uint64]


def aligned(size: int) -> npt.NDArray[np.uint8]:
    """New memory, all zero, that begins at a huge page; it lives as long as the array or a view of it."""
    memory = mmap.mmap(-1, size + HUGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(memory, np.uint8)
    first = -whole.ctypes.data % HUGE
    return whole[first : first + size]


class IndexMemory:
    """Index arrays of partitions: 1 << bits slots of 8 bytes each, all 0.

    All partitions of a table grow at about the same time. Arrays of one size lie together, so that the memory of a size
    is given back as soon as the last partition has outgrown it.
    """

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._rest: dict[int, list[Slots]] = {}  # bits: arrays that nobody has yet

    def take(self, bits: int) -> Slots:
        size = 8 << bits
        if size * self._partitions < HUGE:
            return np.zeros(1 << bits, np.uint64)
        rest = self._rest.setdefault(bits, [])
        if not rest:
            count = max(1, HUGE // size)
            slots = aligned(count * size).view(np.uint64)
            rest.extend(slots[i << bits : (i + 1) << bits] for i in range(count))
        return rest.pop()
