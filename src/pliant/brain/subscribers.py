"""Masters that follow the Brain: each has a queue of messages, and gets those that hold when it connects.

A master that connects again takes the place of its former connection. Nobody waits for one that does not read: its queue is
bounded, and a full one ends the connection; the master comes back and gets what holds then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from pliant.core.planning.cluster.offer import BrainMessage
from pliant.core.planning.cluster.report import JobIdentity

MAX_QUEUED = 64


class Subscribers:
    def __init__(self) -> None:
        self._queues: dict[JobIdentity, asyncio.Queue[BrainMessage | None]] = {}
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._queues)

    def send(self, job: JobIdentity, message: BrainMessage) -> bool:
        """False: nobody follows; the message is there when somebody does."""
        queue = self._queues.get(job)
        if queue is None:
            return False
        if queue.qsize() >= MAX_QUEUED:
            queue.put_nowait(None)
            del self._queues[job]
            return False
        queue.put_nowait(message)
        return True

    def open(self, job: JobIdentity) -> Subscription:
        """From now on nothing is missed."""
        if (former := self._queues.get(job)) is not None:
            former.put_nowait(None)
        self._queues[job] = queue = asyncio.Queue()
        if self._is_closed:
            queue.put_nowait(None)
        return Subscription(self, job, queue)

    def forget(self, job: JobIdentity, queue: asyncio.Queue[BrainMessage | None]) -> None:
        if self._queues.get(job) is queue:
            del self._queues[job]

    def close(self) -> None:
        self._is_closed = True
        for queue in self._queues.values():
            queue.put_nowait(None)


@dataclass(frozen=True, slots=True)
class Subscription:
    _owner: Subscribers
    _job: JobIdentity
    _queue: asyncio.Queue[BrainMessage | None]

    async def messages(self) -> AsyncIterator[BrainMessage]:
        while (message := await self._queue.get()) is not None:
            yield message

    def close(self) -> None:
        self._owner.forget(self._job, self._queue)
