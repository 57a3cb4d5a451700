"""What the master has yet to learn of the checkpoints that this node wrote: failures, and checkpoints that are complete.

Reports wait here while the master is away, and writing goes on meanwhile. The same report again changes nothing at the master, so
one that may have arrived is simply sent again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable

from pliant.checkpoint.slots import WriteResult
from pliant.core.errors import PliantError, RetryableError

log = logging.getLogger(__name__)

MAX_WAITING = 100  # the oldest go first: what counts is how it is now
RETRY_PAUSE_S = 1.0

Send = Callable[[WriteResult], Awaitable[None]]


class CheckpointReports:
    def __init__(self) -> None:
        self._waiting: deque[WriteResult] = deque(maxlen=MAX_WAITING)
        self._one = asyncio.Lock()
        self._retry_at = 0.0  # monotonic
        self._added = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None  # of who waits for news

    def add(self, *results: WriteResult) -> None:
        """From any thread. Of parts that went well nothing is to be said until the checkpoint is complete."""
        self._waiting.extend(result for result in results if result.problem or result.complete)
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(self._added.set)

    async def run(self, send: Send) -> None:
        """Send what comes; for ever, cancel it."""
        self._loop = asyncio.get_running_loop()
        while True:
            self._added.clear()
            await self.offer(send)
            if self._waiting:
                await asyncio.sleep(max(0.0, self._retry_at - time.monotonic()))
            else:
                await self._added.wait()

    async def offer(self, send: Send) -> None:
        """Send what waits, if the master answers; ``send`` tries once."""
        if not self._waiting or time.monotonic() < self._retry_at:
            return
        try:
            await self.deliver(send)
        except RetryableError:
            self._retry_at = time.monotonic() + RETRY_PAUSE_S

    async def deliver(self, send: Send) -> None:
        """Send what waits, oldest first; raises what ``send`` raises, except what sending again would not change."""
        async with self._one:
            while self._waiting:
                first = self._waiting[0]
                try:
                    await send(first)
                except RetryableError:
                    raise
                except PliantError as error:
                    log.error("the master rejected the report of a checkpoint: %s", error)
                if self._waiting[0] is first:  # else it went meanwhile, being the oldest of too many
                    self._waiting.popleft()
