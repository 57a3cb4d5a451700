"""A circuit breaker for algorithms: one that fails several times in a row is set aside for a while that doubles.

After that while it is tried again (half open, in the usual words): a success forgets everything, a failure sets it aside at once
for twice as long. Keys are free: the executor has one per algorithm and one per algorithm and job, so that what fails only with
the history of one job is set aside only there. Pure: the caller says what time it is.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

MAX_KEYS = 10_000  # that failed and never succeeded since: the oldest are forgotten


@dataclass(frozen=True, slots=True)
class _Failures:
    count: int = 0  # in a row
    until: float = 0.0  # set aside
    length_s: float = 0.0  # of the last time; 0: it never was
    reason: str = ""


class CircuitBreaker:
    def __init__(self, *, max_failures: int = 3, first_s: float = 60.0, max_s: float = 3600.0) -> None:
        self._max_failures = max_failures
        self._first_s = first_s
        self._max_s = max_s
        self._failures: dict[Hashable, _Failures] = {}

    def set_aside(self, key: Hashable, at: float) -> tuple[float, str] | None:
        """For how many more seconds, and why; None: it may be asked."""
        found = self._failures.get(key)
        return (found.until - at, found.reason) if found is not None and at < found.until else None

    def succeeded(self, key: Hashable) -> None:
        self._failures.pop(key, None)

    def failed(self, key: Hashable, at: float, reason: str) -> None:
        before = self._failures.pop(key, _Failures())
        if at < before.until:  # asked before it was set aside: counted already
            self._failures[key] = before
            return
        count, until, length_s = before.count + 1, 0.0, before.length_s
        if count >= self._max_failures:
            length_s = min(2 * length_s or self._first_s, self._max_s)
            until = at + length_s
        self._failures[key] = _Failures(count, until, length_s, reason)
        if len(self._failures) > MAX_KEYS:
            del self._failures[next(iter(self._failures))]
