"""Waiting for what other threads and processes do, without guessing how long they take.

``MAX_WAIT_S`` is the limit of every wait that should end by itself. It is far above what even a starved machine takes, and costs a
test that passes nothing: only a broken one takes that long to fail.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
MAX_WAIT_S = 120.0
POLL_INTERVAL_S = 0.01


def wait_until(
    predicate: Callable[[], T | None], timeout: float = MAX_WAIT_S, what: str = "", *, every: float = POLL_INTERVAL_S
) -> T:
    """Call ``predicate`` until it returns something true, and return that.

    Raises ``TimeoutError`` after ``timeout`` seconds, naming ``what`` was waited for and the last value. The
    time-out is only how long a broken test takes to fail; a good one returns as soon as it can. ``every``: seconds
    between two calls, for a predicate that costs something. The last call begins after the time-out, so a test that
    did not run itself meanwhile does not fail for that.
    """
    deadline = time.monotonic() + timeout
    while True:
        is_last = time.monotonic() > deadline
        value = predicate()
        if value:
            return value
        if is_last:
            raise TimeoutError(f"{what or predicate} did not happen within {timeout:g} s; last value: {value!r}")
        time.sleep(every)
