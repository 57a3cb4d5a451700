"""Calls that wait: as long as the caller lets them, and never longer than the master does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Context: TypeAlias = Any  # grpc.aio.ServicerContext, which is generic for mypy and not at run time
MAX_WAIT_S = 30.0  # a caller that waits longer asks again
MAX_REASON = 1000  # characters


async def at_most(waiting: Awaitable[T], context: Context, seconds: float = MAX_WAIT_S) -> T | None:
    """The result, or None when the caller's deadline is near."""
    left = context.time_remaining()
    limit = seconds if left is None else min(seconds, left * 0.8)
    try:
        return await asyncio.wait_for(waiting, max(0.0, limit))
    except TimeoutError:
        return None
