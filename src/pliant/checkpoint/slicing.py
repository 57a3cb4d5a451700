"""Which worker writes which slice of a state: its tensors, divided into parts of equal size.

All workers hold the same state, so the tensors are laid end to end and cut into equal lengths. A cut inside a small tensor
moves to its nearer edge; a large one is split there. Every worker computes the same division and nothing is sent.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

MIN_SPLIT_BYTES = 1 << 20  # a smaller tensor stays whole
_ALIGN_BYTES = 64  # a tensor is split at a multiple of this


@dataclass(frozen=True, slots=True)
class TensorSize:
    """What slicing needs to know of a tensor."""

    name: str
    item_bytes: int
    elements: int

    @property
    def nbytes(self) -> int:
        return self.item_bytes * self.elements


@dataclass(frozen=True, slots=True)
class TensorSlice:
    """The elements ``begin`` to ``end`` of a flattened tensor."""

    name: str
    begin: int
    end: int
    whole: bool


def divide(sizes: Sequence[TensorSize], parts: int) -> list[list[TensorSlice]]:
    """The slices of each part; together every element exactly once."""
    starts, at = [], 0
    for size in sizes:
        starts.append(at)
        at += size.nbytes
    cuts = sorted(_snap(sizes, starts, at * i // parts) for i in range(1, parts))
    division: list[list[TensorSlice]] = [[] for _ in range(parts)]
    for size, start in zip(sizes, starts, strict=True):
        end = start + size.nbytes
        first, last = bisect_right(cuts, start), bisect_right(cuts, end - 1) if size.nbytes else 0
        edges = [start, *(cut for cut in cuts[first:last] if start < cut < end), end]
        if len(edges) == 2:
            division[first].append(TensorSlice(size.name, 0, size.elements, True))
            continue
        for low, high in pairwise(edges):
            if low < high:
                part_slice = TensorSlice(
                    size.name, (low - start) // size.item_bytes, (high - start) // size.item_bytes, False
                )
                division[bisect_right(cuts, low)].append(part_slice)
    return division


def _snap(sizes: Sequence[TensorSize], starts: Sequence[int], cut: int) -> int:
    if not sizes:
        return 0
    index = max(bisect_right(starts, cut) - 1, 0)
    start, size = starts[index], sizes[index].nbytes
    inside = cut - start
    if size >= MIN_SPLIT_BYTES:
        step = max(_ALIGN_BYTES, sizes[index].item_bytes)
        return start + inside // step * step
    return start if inside * 2 < size else start + size
