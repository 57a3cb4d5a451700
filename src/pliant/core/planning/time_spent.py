"""Where the time of a program's loop goes: waiting for data, waiting for peers or servers, and the rest, which is computing.

Totals only grow while a program runs; a sample is the difference of two readings. ``files/time_meter.py`` carries them from the
program to its agent, heartbeats carry them on to the master.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimeSpent:
    """Seconds since the program began, of its loop's thread."""

    data_s: float = 0.0  # waiting for shards or records
    peers_s: float = 0.0  # waiting in a collective, a pull or a push
    unit_s: float = (
        0.0  # for its units of a step: of an allreduce worker up to the collective, else from a pull to its push
    )
    units: float = 0.0  # their number
    began: float = 0.0  # of the machine's monotonic clock; 0: nothing was measured
    read_at: float = 0.0

    def since(self, before: TimeSpent | None) -> TimeShares | None:
        """The shares of the time between two readings of one run; None: they are not of one, or nothing was measured."""
        if before is None or not self.began or self.began != before.began or self.read_at <= before.read_at:
            return None
        seconds = self.read_at - before.read_at
        data, peers = self.data_s - before.data_s, self.peers_s - before.peers_s
        units = self.units - before.units
        if data < 0 or peers < 0 or units < 0:
            return None
        data, peers = min(1.0, data / seconds), min(1.0, peers / seconds)
        unit_s = (self.unit_s - before.unit_s) / units if units else 0.0
        return TimeShares(seconds, data, min(peers, 1.0 - data), unit_s)


@dataclass(frozen=True, slots=True)
class TimeShares:
    """Of a stretch of time, the shares that the loop waited; ``compute`` is the rest."""

    seconds: float
    data: float
    peers: float
    unit_s: float = 0.0  # for one unit of a step; 0: it has none

    @property
    def compute(self) -> float:
        return max(0.0, 1.0 - self.data - self.peers)
