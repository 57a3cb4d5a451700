"""The real clock."""

from __future__ import annotations

import time


class SystemClock:
    """Wall time that never runs backwards within a process."""

    def __init__(self) -> None:
        self._last = 0.0

    def now(self) -> float:
        self._last = max(self._last, time.time())
        return self._last
