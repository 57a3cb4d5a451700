"""A few threads for calls that block (handles of jobs), awaited from the event loop.

They are daemons: a call to a master that is frozen takes seconds, and the server ends at once all the same. At most
``MAX_QUEUED`` calls wait; one more is refused, so that slow jobs and many tabs cannot pile up work without a limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from pliant.core.errors import RetryableError

T = TypeVar("T")

THREADS = 12
MAX_QUEUED = 500


class TooBusy(RetryableError):
    """More is asked than can be answered in time."""


class DaemonThreads:
    def __init__(self, count: int = THREADS) -> None:
        self._calls: queue.Queue[tuple[Callable[[], Any], asyncio.Future[Any]]] = queue.Queue(MAX_QUEUED)
        for number in range(count):
            threading.Thread(target=self._work, name=f"dashboard-{number}", daemon=True).start()

    async def run(self, call: Callable[[], T]) -> T:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            self._calls.put_nowait((call, future))
        except queue.Full:
            raise TooBusy("the dashboard is busy", hint="try again in a moment, or close some tabs") from None
        return await future

    def _work(self) -> None:
        while True:
            call, future = self._calls.get()
            if future.cancelled():
                continue
            try:
                answer, error = call(), None
            except BaseException as problem:  # noqa: BLE001 - a border: it is raised where the call is awaited
                answer, error = None, problem
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                future.get_loop().call_soon_threadsafe(_settle, future, answer, error)


def _settle(future: asyncio.Future[Any], answer: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(answer)
    elif isinstance(error, Exception):
        future.set_exception(error)
    else:
        future.set_exception(RuntimeError(f"a call ended with {error!r}"))
