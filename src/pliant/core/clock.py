"""Time as an argument.

Nothing in ``core`` reads a clock: each event carries ``now`` in seconds. Shells read it from a ``Clock``, which
tests replace with ``pliant.testing.ManualClock``. Wall time, not monotonic time, since a journal is replayed by
another process, perhaps after a reboot.
"""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch."""
