"""Partial sums of workers on one machine meet in the memory of their world (``worlds/shared_memory``).

Each worker writes its partial sums into its own region and reads everybody's. That all have written theirs is known when the
step's control lane has been added up: it is the barrier, and notices a dead or frozen peer like any collective.

Two workers, or two partial sums: each worker adds everything up for itself, into memory of its own. More: each adds one chunk
of each bucket, of all partial sums, into its own region, and copies the others' chunks after another barrier.

A region is written again only when all have read it: the next step's first bucket waits for that, long after it has happened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from pliant.torch.gradients.buckets import Bucket
from pliant.torch.gradients.transport import CHUNK_ALIGNMENT, Holdings
from pliant.torch.worlds.shared_memory import WorldMemory

BLOCK = 1 << 15  # elements that are added up at a time, so that what lies between stays in the processor's cache
ALIGNMENT = 64  # bytes


class Layout:
    """Where in a region what begins, in bytes: the same on all workers."""

    def __init__(self, buckets: Sequence[Bucket], chunks: int, sums: int) -> None:
        """``chunks``: of each bucket; ``sums``: partial sums of the worker that has most."""
        self.chunks = [_round_up(-(-bucket.numel // chunks), CHUNK_ALIGNMENT) for bucket in buckets]
        at = 0

        def place(size: int) -> int:
            nonlocal at
            at, first = _round_up(at + size, ALIGNMENT), at
            return first

        self._buckets = buckets
        self._inputs = [[place(b.numel * b.dtype.itemsize) for b in buckets] for _ in range(sums)]
        self._totals = [place(c * b.dtype.itemsize) for c, b in zip(self.chunks, buckets, strict=True)]
        self.size = max(at, 1)

    def input(self, region: torch.Tensor, number: int, at: int) -> torch.Tensor:
        """Partial sum ``number`` of bucket ``at``."""
        return _view(region, self._inputs[number][at], self._buckets[at].numel, self._buckets[at].dtype)

    def total(self, region: torch.Tensor, at: int, numel: int) -> torch.Tensor:
        """The sum of a chunk of bucket ``at``."""
        return _view(region, self._totals[at], numel, self._buckets[at].dtype)


class SharedMemory:
    keeps_inputs = True

    def __init__(self, memory: WorldMemory, buckets: Sequence[Bucket], holdings: Holdings, layout: Layout) -> None:
        self._memory, self._buckets, self._holdings, self._layout = memory, buckets, holdings, layout
        workers = len(memory.regions)
        self._in_chunks = workers > 2 and len(holdings.order) > 2
        self._inputs = [
            [layout.input(memory.own, number, at) for number in range(len(holdings.own))] for at in range(len(buckets))
        ]
        self._results = [torch.zeros(b.numel, dtype=b.dtype) for b in buckets]

    def begin_step(self) -> None:
        self._memory.wait_for_readers()

    def inputs(self, at: int) -> list[torch.Tensor]:
        return self._inputs[at]

    def send(self, at: int) -> None:
        return  # the others read it

    def sent(self) -> list[Any]:
        return []

    def reduce(self) -> None:
        if self._in_chunks:
            for at in range(len(self._buckets)):
                first, last = self._chunk(at, self._holdings.rank)
                self._add_up(at, first, last, self._total(at, self._holdings.rank))
            self._memory.barrier()
            for at, result in enumerate(self._results):
                for rank in range(len(self._memory.regions)):
                    first, last = self._chunk(at, rank)
                    result[first:last].copy_(self._total(at, rank))
        else:
            for at, result in enumerate(self._results):
                self._add_up(at, 0, result.numel(), result)
        self._memory.end_reading()

    def result(self, at: int) -> torch.Tensor:
        return self._results[at]

    # --- inside

    def _chunk(self, at: int, rank: int) -> tuple[int, int]:
        size, numel = self._layout.chunks[at], self._buckets[at].numel
        return min(rank * size, numel), min((rank + 1) * size, numel)

    def _total(self, at: int, rank: int) -> torch.Tensor:
        """The sum of a rank's chunk, in its region."""
        first, last = self._chunk(at, rank)
        return self._layout.total(self._memory.regions[rank], at, last - first)

    def _add_up(self, at: int, first: int, last: int, total: torch.Tensor) -> None:
        """All partial sums of a part of a bucket."""
        parts = [
            self._layout.input(self._memory.regions[rank], number, at)[first:last]
            for _, rank, number in self._holdings.order
        ]
        add_up(parts, self._holdings.merges, {0: total})


def add_up(
    parts: Sequence[torch.Tensor], merges: Sequence[tuple[int, int]], totals: Mapping[int, torch.Tensor]
) -> None:
    """Merge partial sums (``UnitTree.merges``), which are only read; ``totals``: where the number that is a result is to be."""
    if len(merges) == 1 and len(totals) == 1:
        ((left, right),) = merges
        torch.add(parts[left], parts[right], out=totals[left])
        return
    size = parts[0].numel()
    between = [torch.empty(min(BLOCK, size), dtype=part.dtype) for part in parts]
    for begin in range(0, size, BLOCK):
        end = min(begin + BLOCK, size)
        blocks = [part[begin:end] for part in parts]
        for left, right in merges:
            into = totals[left][begin:end] if left in totals else between[left][: end - begin]
            blocks[left] = torch.add(blocks[left], blocks[right], out=into)
    for number in set(totals).difference(left for left, _ in merges):
        totals[number].copy_(parts[number])


def _view(region: torch.Tensor, first: int, numel: int, dtype: torch.dtype) -> torch.Tensor:
    return region[first : first + numel * dtype.itemsize].view(dtype)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
