"""The bytes of one part of a checkpoint, read straight to where they are wanted, their checksums compared on the way.

A file is read by ``pread`` into the tensors: mapping it would cost a page fault for each 4 KiB, which takes longer than the copy.
What was just read is still in the processor's cache when its checksum is computed, so that costs no second way through memory.
Two threads take chunks in turn; both work without the GIL. What a remote store has handed over as bytes is copied and compared in
the same way. Every byte of the file is compared, also of what is not wanted.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pliant.checkpoint.checksums import CHUNK, crc32
from pliant.checkpoint.copying import in_two_threads
from pliant.core.errors import CorruptData

PIECE = 512 << 10  # bytes that fit into a core's own cache
_HUGE_PAGE = 2 << 20
_MADV_HUGEPAGE: int | None = getattr(mmap, "MADV_HUGEPAGE", None)  # only on Linux


@dataclass(frozen=True, slots=True)
class Wanted:
    """A range of the file, and the address that it is copied to. The caller keeps that memory alive."""

    begin: int
    size: int
    address: int


class PartBytes:
    def __init__(self, data: memoryview, descriptor: int | None, name: str) -> None:
        """``data``: all bytes, mapped or in memory; ``descriptor``: of the file, if it is a local one."""
        self.data = data
        self.name = name
        self._descriptor = descriptor

    def copy(self, wanted: Sequence[Wanted]) -> None:
        """The ranges, which do not overlap. Nothing is compared."""
        self._run(_cut(_pieces(wanted, 0, self.data.nbytes, gaps=False)), [])

    def copy_checked(self, wanted: Sequence[Wanted], sums: Sequence[int], chunk: int) -> tuple[int, int] | None:
        """Likewise, and compares the whole file with its checksums. Returns the first damaged range."""
        size = self.data.nbytes
        if len(sums) != -(-size // chunk):
            return 0, size
        ordered = sorted(wanted, key=lambda range_: range_.begin)
        damaged: list[int] = []
        work = []
        at = 0
        for number, begin in enumerate(range(0, size, chunk)):
            end = min(begin + chunk, size)
            while at < len(ordered) and ordered[at].begin + ordered[at].size <= begin:
                at += 1
            last = at
            while last < len(ordered) and ordered[last].begin < end:
                last += 1
            work.append((number, list(_pieces(ordered[at:last], begin, end, gaps=True))))
        self._run([pieces for _, pieces in work], damaged, sums)
        if not damaged:
            return None
        begin = min(damaged) * chunk
        return begin, min(begin + chunk, size)

    def _run(self, work: list[list[Wanted]], damaged: list[int], sums: Sequence[int] | None = None) -> None:
        numbers = iter(range(len(work)))  # the threads share it

        def take_in_turn() -> None:
            scratch = (ctypes.c_char * PIECE)()
            for number in numbers:
                total = 0
                for piece in work[number]:
                    for view in self._read(piece, scratch):
                        total = crc32(view, total) if sums is not None else 0
                if sums is not None and total != sums[number]:
                    damaged.append(number)

        in_two_threads(take_in_turn, sum(piece.size for pieces in work for piece in pieces))

    def _read(self, piece: Wanted, scratch: ctypes.Array[ctypes.c_char]) -> Iterator[memoryview]:
        """Piece by piece, each where it belongs (address 0: nowhere)."""
        at, end, to = piece.begin, piece.begin + piece.size, piece.address
        while at < end:
            size = min(PIECE, end - at)
            target = (ctypes.c_char * size).from_address(to) if to else scratch
            view = memoryview(target).cast("B")[:size]
            if self._descriptor is None:
                view[:] = self.data[at : at + size]
            elif (got := os.preadv(self._descriptor, [view], at)) < size:
                if not got:
                    raise CorruptData(f"{self.name} is truncated: it ends at byte {at}")
                view = view[:got]
            yield view
            at += view.nbytes
            to += view.nbytes if to else 0


def _pieces(wanted: Sequence[Wanted], begin: int, end: int, *, gaps: bool) -> Iterator[Wanted]:
    """What lies between ``begin`` and ``end``, in order; ``gaps``: also what nobody wants (address 0)."""
    at = begin
    for range_ in wanted:
        low, high = max(range_.begin, begin), min(range_.begin + range_.size, end)
        if low > at and gaps:
            yield Wanted(at, low - at, 0)
        if high > low:
            yield Wanted(low, high - low, range_.address + low - range_.begin)
        at = max(at, high)
    if gaps and at < end:
        yield Wanted(at, end - at, 0)


def _cut(pieces: Iterator[Wanted]) -> list[list[Wanted]]:
    """In portions that two threads can share."""
    return [
        [Wanted(piece.begin + at, min(CHUNK, piece.size - at), piece.address + at)]
        for piece in pieces
        for at in range(0, piece.size, CHUNK)
    ]


def advise_huge_pages(address: int, size: int) -> None:
    """Before fresh memory is filled for the first time: a page fault for each 2 MiB instead of each 4 KiB. Only advice."""
    if _MADV_HUGEPAGE is None:
        return
    begin = -(-address // _HUGE_PAGE) * _HUGE_PAGE
    if (length := (address + size) // _HUGE_PAGE * _HUGE_PAGE - begin) > 0:
        ctypes.CDLL(None).madvise(ctypes.c_void_p(begin), ctypes.c_size_t(length), _MADV_HUGEPAGE)
