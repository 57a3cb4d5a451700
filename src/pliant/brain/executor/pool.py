"""The processes of an executor: started when they are needed, kept warm, ended and replaced when one is spoilt.

Idle processes are kept per tenant (``process.py``), at most ``max_idle`` of them; the one that was idle for longest is ended
first. Every process that was ever started is either idle, taken, or being ended, and ``close`` waits for the last of them.
"""

from __future__ import annotations

import asyncio

from pliant.brain.executor.process import AlgorithmProcess
from pliant.core.errors import RetryableError

MAX_ASKED = 2000  # of one process: whatever leaks, ends then


class ProcessPool:
    def __init__(self, *, memory_limit_mb: int, max_idle: int, start_timeout_s: float) -> None:
        self._memory_limit_mb = memory_limit_mb
        self._max_idle = max_idle
        self._start_timeout_s = start_timeout_s
        self._idle: list[AlgorithmProcess] = []  # idle for longest first
        self._taken: set[AlgorithmProcess] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self.is_closed = False

    def pids(self) -> set[int]:
        """Of all processes that are not being ended."""
        return {process.pid for process in (*self._idle, *self._taken)}

    async def take(self, tenant: str) -> AlgorithmProcess:
        """One that is warm, or a new one. Give it back, or discard it."""
        self.check_open()
        for process in reversed(self._idle):
            if process.tenant == tenant:
                self._idle.remove(process)
                self._taken.add(process)
                if process.is_alive:
                    return process
                self.discard(process)
                break
        return await self._start(tenant)

    def give_back(self, process: AlgorithmProcess) -> None:
        if self.is_closed or process.asked >= MAX_ASKED or not process.is_alive:
            self.discard(process)
            return
        self._taken.discard(process)
        self._idle.append(process)
        while len(self._idle) > self._max_idle:
            self.discard(self._idle[0])

    def discard(self, process: AlgorithmProcess) -> None:
        """It is killed at once, and cleared away meanwhile. Once: ``close`` may have been first."""
        if process in self._idle:
            self._idle.remove(process)
        elif process in self._taken:
            self._taken.remove(process)
        else:
            return
        process.kill()
        task = asyncio.ensure_future(process.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        self.is_closed = True
        for process in (*self._idle, *self._taken):
            self.discard(process)
        while self._ending:
            await asyncio.wait(tuple(self._ending))

    async def _start(self, tenant: str) -> AlgorithmProcess:
        process, ours, hear = AlgorithmProcess.spawn(tenant, self._memory_limit_mb)
        self._taken.add(process)
        try:
            await process.connect(ours, hear, self._start_timeout_s)
        except BaseException:
            self.discard(process)
            raise
        self.check_open()
        return process

    def check_open(self) -> None:
        if self.is_closed:
            raise RetryableError("the executor is closed")
