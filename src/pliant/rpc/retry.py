"""Calling until the master answers: one retry loop, blocking and for asyncio.

A master that is killed is back within a second or two, so callers repeat a call for ``retry_timeout`` seconds with exponential
back-off. What is repeated must be idempotent or numbered (see CONTRIBUTING.md). Imports no gRPC: the command line uses it too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pliant.core.errors import MasterUnavailable, PliantError

T = TypeVar("T")

FIRST_PAUSE_S = 0.02
DEFAULT_MAX_PAUSE_S = 0.5
BACKOFF_FACTOR = 1.5

RetryOn = type[PliantError] | tuple[type[PliantError], ...]


class Backoff:
    """The pauses between the attempts of one call."""

    def __init__(
        self,
        retry_timeout: float,
        *,
        max_pause: float = DEFAULT_MAX_PAUSE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._deadline = clock() + retry_timeout
        self._max_pause = max_pause
        self._pause = min(FIRST_PAUSE_S, max_pause)

    @property
    def is_exhausted(self) -> bool:
        return self._clock() > self._deadline

    def next_pause(self) -> float:
        pause = self._pause
        self._pause = min(self._max_pause, pause * BACKOFF_FACTOR)
        return pause


def _ignore(_: PliantError) -> None:
    return


def call_with_retry(
    attempt: Callable[[], T],
    *,
    retry_timeout: float,
    retry_on: RetryOn = MasterUnavailable,
    on_failure: Callable[[PliantError], object] = _ignore,
    pause: Callable[[float], object] = time.sleep,
    max_pause: float = DEFAULT_MAX_PAUSE_S,
) -> T:
    """Call ``attempt`` until it returns; after ``retry_timeout`` seconds raise its last error.

    ``on_failure`` is called after each failed attempt, ``pause`` with the seconds to wait; both may end the call by raising.
    """
    backoff = Backoff(retry_timeout, max_pause=max_pause)
    while True:
        try:
            return attempt()
        except retry_on as error:
            on_failure(error)
            if backoff.is_exhausted:
                raise
        pause(backoff.next_pause())


async def call_with_retry_async(
    attempt: Callable[[], Awaitable[T]],
    *,
    retry_timeout: float,
    retry_on: RetryOn = MasterUnavailable,
    on_failure: Callable[[PliantError], object] = _ignore,
    max_pause: float = DEFAULT_MAX_PAUSE_S,
) -> T:
    """The same for asyncio."""
    backoff = Backoff(retry_timeout, max_pause=max_pause)
    while True:
        try:
            return await attempt()
        except retry_on as error:
            on_failure(error)
            if backoff.is_exhausted:
                raise
        await asyncio.sleep(backoff.next_pause())
