"""Many tensors copied into one buffer as fast as memory allows: bytes moved by two threads that share the work evenly.

``memmove`` runs without the GIL and, for large ranges, past the cache. What is not contiguous or not in main memory is copied
by torch.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch

Move = tuple[int, int, int]  # destination address, source address, bytes
_WORTH_A_THREAD = 8 << 20  # bytes


def copy_tensors(buffer: torch.Tensor, sources: Iterable[tuple[int, torch.Tensor]]) -> None:
    """Each source to its offset (bytes, a multiple of its element size) of the uint8 buffer."""
    moves: list[Move] = []
    base, room = buffer.data_ptr(), buffer.numel()
    for offset, source in sources:
        if not 0 <= offset <= room - source.nbytes:
            raise ValueError(f"{source.nbytes} bytes at {offset} do not fit into {room}")
        if source.nbytes == 0:
            continue
        if source.device.type == "cpu" and source.is_contiguous():
            moves.append((base + offset, source.data_ptr(), source.nbytes))
        else:
            view_at(buffer, offset, source.dtype, source.shape).copy_(source)
    move(moves)


def view_at(buffer: torch.Tensor, offset: int, dtype: torch.dtype, shape: Iterable[int]) -> torch.Tensor:
    """A tensor that lies in the buffer."""
    size = torch.Size(shape)
    return buffer[offset : offset + size.numel() * dtype.itemsize].view(dtype).view(size)


def move(moves: list[Move]) -> None:
    """Ranges of memory that the caller keeps alive."""
    total = sum(size for _, _, size in moves)
    if total < _WORTH_A_THREAD or _threads() == 1:
        _run(moves)
        return
    first, second, done = [], [], 0
    for to, source, size in moves:
        mine = min(max(total // 2 - done, 0), size)
        if mine:
            first.append((to, source, mine))
        if mine < size:
            second.append((to + mine, source + mine, size - mine))
        done += size
    other = _pool().submit(_run, second)
    _run(first)
    other.result()


def in_two_threads(work: Callable[[], None], size: int) -> None:
    """Run it in this thread, and in a second one at the same time if ``size`` bytes are worth that."""
    if size < _WORTH_A_THREAD or _threads() == 1:
        work()
        return
    other = _pool().submit(work)
    try:
        work()
    finally:
        other.result()


def _run(moves: list[Move]) -> None:
    for to, source, size in moves:
        ctypes.memmove(to, source, size)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="pliant-copy")


def _threads() -> int:
    return min(2, len(os.sched_getaffinity(0)))
