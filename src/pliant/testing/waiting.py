"""Waiting for what other threads and processes do, without guessing how long they take."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
LOOK_EVERY = 0.01  # seconds


def wait_until(
    predicate: Callable[[], T | None], timeout: float = 20.0, what: str = "", *, every: float = LOOK_EVERY
) -> T:
    """Call ``predicate`` until it gives something true, and return that.

    Raises ``TimeoutError`` after ``timeout`` seconds, naming ``what`` was waited for and what was last seen. The
    time-out is only how long a broken test takes to say so; a good one returns as soon as it can. ``every``: seconds
    between two looks, for a look that costs something.
    """
    deadline = time.monotonic() + timeout
    while True:
        seen = predicate()
        if seen:
            return seen
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what or predicate} did not happen within {timeout:g} s; last seen: {seen!r}")
        time.sleep(every)
