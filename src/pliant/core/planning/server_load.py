"""What a parameter server did lately, from the totals that it reports with each call."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.core.planning.counter_rate import CounterRate
from pliant.core.planning.node_summary import MAX_PARTITION_LOADS

WINDOW_S = 30.0
SPACING_S = 1.0  # a server may report more often


class ServerLoad:
    def __init__(self) -> None:
        self._bytes = CounterRate(window_s=WINDOW_S, spacing_s=SPACING_S)
        self._requests = CounterRate(window_s=WINDOW_S, spacing_s=SPACING_S)
        self.rows = 0
        self.queue = 0
        self.partitions: tuple[tuple[int, float], ...] = ()  # (partition, share of the server's load), heaviest first

    def report(
        self,
        time: float,
        *,
        rows: int,
        queue: int,
        requests: int,
        bytes_in: int,
        bytes_out: int,
        partition_load: Mapping[int, float],
    ) -> None:
        """``partition_load``: shares of the server's load."""
        self.rows, self.queue = rows, queue
        self._bytes.read(time, bytes_in + bytes_out)
        self._requests.read(time, requests)
        heaviest = sorted(partition_load.items(), key=lambda item: (-item[1], item[0]))
        self.partitions = tuple(heaviest[:MAX_PARTITION_LOADS])

    @property
    def bytes_per_second(self) -> float:
        return self._bytes.per_second or 0.0

    @property
    def requests_per_second(self) -> float:
        return self._requests.per_second or 0.0
