"""Who writes what: the tensors of a state, divided into parts of equal size.

All workers hold the same state, so the tensors are laid end to end and cut into equal lengths. A cut inside a small tensor
moves to its nearer edge; a large one is split there. Every worker computes the same division and nothing is sent.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

SMALLEST_SPLIT = 1 << 20  # bytes; a smaller tensor stays whole
_ALIGN = 64  # bytes; a tensor is split at a multiple of this


@dataclass(frozen=True, slots=True)
class Extent:
    """A tensor, as far as dividing goes."""

    name: str
    item_bytes: int
    elements: int

    @property
    def nbytes(self) -> int:
        return self.item_bytes * self.elements


@dataclass(frozen=True, slots=True)
class Piece:
    """The elements ``begin`` to ``end`` of a flattened tensor."""

    name: str
    begin: int
    end: int
    whole: bool


def divide(extents: Sequence[Extent], parts: int) -> list[list[Piece]]:
    """The pieces of each part; together every element exactly once."""
    starts, at = [], 0
    for extent in extents:
        starts.append(at)
        at += extent.nbytes
    cuts = sorted(_snap(extents, starts, at * i // parts) for i in range(1, parts))
    division: list[list[Piece]] = [[] for _ in range(parts)]
    for extent, start in zip(extents, starts, strict=True):
        end = start + extent.nbytes
        first, last = bisect_right(cuts, start), bisect_right(cuts, end - 1) if extent.nbytes else 0
        edges = [start, *(cut for cut in cuts[first:last] if start < cut < end), end]
        if len(edges) == 2:
            division[first].append(Piece(extent.name, 0, extent.elements, True))
            continue
        for low, high in pairwise(edges):
            if low < high:
                piece = Piece(
                    extent.name, (low - start) // extent.item_bytes, (high - start) // extent.item_bytes, False
                )
                division[bisect_right(cuts, low)].append(piece)
    return division


def _snap(extents: Sequence[Extent], starts: Sequence[int], cut: int) -> int:
    if not extents:
        return 0
    index = max(bisect_right(starts, cut) - 1, 0)
    start, size = starts[index], extents[index].nbytes
    inside = cut - start
    if size >= SMALLEST_SPLIT:
        step = max(_ALIGN, extents[index].item_bytes)
        return start + inside // step * step
    return start if inside * 2 < size else start + size
