"""The connection of one command to a cluster: the client of the API, at work in a thread of its own.

Commands are plain functions that wait, and gRPC's calls block; a port-forward has to carry their bytes meanwhile. So what
is asynchronous lives on one event loop in a thread, and commands hand it coroutines.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from pliant.handles.cluster import Cluster
from pliant.platforms.kubernetes.api import KubeApi

T = TypeVar("T")


class Session:
    def __init__(self, cluster: Cluster) -> None:
        self.api = KubeApi.load(context=cluster.context)
        self.namespace = cluster.namespace or self.api.namespace
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kubernetes", daemon=True)
        self._thread.start()
        self._closed = False
        self._closers: list[Callable[[], Awaitable[None]]] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for it."""
        return self.start(work).result()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def at_end(self, closer: Callable[[], Awaitable[None]]) -> None:
        self._closers.append(closer)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        for closer in self._closers:
            await closer()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self.api.close()
