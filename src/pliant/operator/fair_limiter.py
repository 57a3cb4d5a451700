"""Limits concurrent writes, round-robin over the jobs: one that asks for a thousand Pods does not hold up the others.

A waiting job gets the next free slot after every other waiting job had one; within a job the order is first in, first out.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Hashable


class FairLimiter:
    def __init__(self, max_concurrent: int) -> None:
        self._free = max_concurrent
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}  # by key; the next one to be served first

    @contextlib.asynccontextmanager
    async def slot(self, key: Hashable) -> AsyncIterator[None]:
        await self._acquire(key)
        try:
            yield
        finally:
            self._free += 1
            self._serve_next()

    async def _acquire(self, key: Hashable) -> None:
        if self._free > 0 and not self._waiting:
            self._free -= 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():  # the slot was assigned to it at the same moment
                self._free += 1
                self._serve_next()
            raise

    def _serve_next(self) -> None:
        while self._free > 0 and self._waiting:
            key, queue = next(iter(self._waiting.items()))
            del self._waiting[key]
            waiter = queue.popleft()
            if queue:
                self._waiting[key] = queue  # behind the others
            if not waiter.done():  # else it was given up
                self._free -= 1
                waiter.set_result(None)
