"""Time that a test moves by hand."""

from __future__ import annotations


class ManualClock:
    """A ``pliant.core.clock.Clock`` that stands still until a test moves it."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self._now = now

    def now(self) -> float:
        """Seconds since the epoch, as far as anyone who asks this clock is concerned."""
        return self._now

    def advance(self, seconds: float) -> float:
        """Let time pass; returns the new time. It never runs backwards."""
        if seconds < 0:
            raise ValueError(f"time cannot go backwards ({seconds} s)")
        self._now += seconds
        return self._now
