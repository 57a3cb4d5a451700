"""What the master observes of parameter servers and does not journal, because it comes with every call of a server.

A restarted master starts without it: servers report their progress again within a second, and silence is counted from its start.
"""

from __future__ import annotations

import math

from pliant.core.clock import Clock
from pliant.core.parameters.seats import Seat
from pliant.core.status import ServerStats

SAMPLE_INTERVAL_S = 1.0


class ServerObservations:
    """By seat: the last order that its holder executed, what it uses, and when it was last heard of."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._executed: dict[int, int] = {}
        self._stats: dict[int, ServerStats] = {}
        self._heard_at: dict[int, float] = {}
        self._sampled_at: dict[int, float] = {}
        self._awake_since = clock.now()

    def joined(self, seat: int) -> None:
        self._executed.pop(seat, None)
        self._sampled_at.pop(seat, None)
        self.heard(seat)

    def heard(self, seat: int) -> None:
        self._heard_at[seat] = self._clock.now()

    def reported(self, seat: int, executed: int, stats: ServerStats) -> bool:
        """Whether it is worth a sample: a server calls after each order, which may be many times a second."""
        self.heard(seat)
        self._executed[seat] = executed
        self._stats[seat] = stats
        now = self._clock.now()
        is_due = now - self._sampled_at.get(seat, -math.inf) >= SAMPLE_INTERVAL_S
        if is_due:
            self._sampled_at[seat] = now
        return is_due

    def lost(self, seat: int) -> None:
        self._executed.pop(seat, None)

    def retired(self, seat: int) -> None:
        self._stats.pop(seat, None)

    def forgive_absence(self) -> None:
        """This master did not run: nobody was silent meanwhile."""
        self._awake_since = self._clock.now()

    def executed(self, seat: int) -> int:
        return self._executed.get(seat, 0)

    def stats(self, seat: int) -> ServerStats:
        return self._stats.get(seat, ServerStats())

    def silence(self, seat: Seat) -> float:
        """Seconds since its holder was last heard of."""
        return self._clock.now() - max(self._heard_at.get(seat.number, 0.0), self._awake_since)

    def max_log_bytes(self) -> int:
        return max((stats.log_bytes for stats in self._stats.values()), default=0)
