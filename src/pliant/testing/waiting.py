"""Waiting for what other threads and processes do, without guessing how long they take."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
POLL_INTERVAL_S = 0.01


def wait_until(
    predicate: Callable[[], T | None], timeout: float = 20.0, what: str = "", *, every: float = POLL_INTERVAL_S
) -> T:
    """Call ``predicate`` until it returns something true, and return that.

    Raises ``TimeoutError`` after ``timeout`` seconds, naming ``what`` was waited for and the last value. The
    time-out is only how long a broken test takes to fail; a good one returns as soon as it can. ``every``: seconds
    between two calls, for a predicate that costs something.
    """
    deadline = time.monotonic() + timeout
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what or predicate} did not happen within {timeout:g} s; last value: {value!r}")
        time.sleep(every)
