"""Computing in a thread that nobody has to wait for.

A thread of asyncio's pool is joined when the loop ends: an algorithm that does not return would keep a master, and with it
``pliant run``, for ever after its job. This one is a daemon, and whoever waits for it can stop waiting.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def compute(call: Callable[[], T], timeout_s: float) -> T:
    """Raises ``TimeoutError``, upon which the thread goes on; nobody hears of it any more."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def deliver(result: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)  # type: ignore[arg-type]

    def work() -> None:
        result, error = None, None
        try:
            result = call()
        except Exception as raised:  # noqa: BLE001  # the border of the thread: whoever waits gets it
            error = raised
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(deliver, result, error)

    threading.Thread(target=work, name="planning", daemon=True).start()
    return await asyncio.wait_for(answer, timeout_s)
