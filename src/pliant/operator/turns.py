"""So many writes at once, and the jobs take turns: one that asks for a thousand Pods does not hold the others up.

A job that waits gets the next free place after each other waiting job had one; within a job the order is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Hashable


class Turns:
    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}  # whose turn is next comes first

    @contextlib.asynccontextmanager
    async def of(self, whose: Hashable) -> AsyncIterator[None]:
        await self._take(whose)
        try:
            yield
        finally:
            self._free += 1
            self._next()

    async def _take(self, whose: Hashable) -> None:
        if self._free > 0 and not self._waiting:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(whose, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the place was given to it at the same moment
                self._free += 1
                self._next()
            raise

    def _next(self) -> None:
        while self._free > 0 and self._waiting:
            whose, line = next(iter(self._waiting.items()))
            del self._waiting[whose]
            turn = line.popleft()
            if line:
                self._waiting[whose] = line  # behind the others
            if not turn.done():  # else it was given up
                self._free -= 1
                turn.set_result(None)
