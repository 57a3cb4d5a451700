"""How much of a server's work each virtual partition is, by a sample of its requests.

Load is counted in floats that a request reads or writes: rows by their partition, blocks of dense variables together. One request
in ``SAMPLED`` is looked at, chosen by chance (pulls and pushes alternate, so every n-th would see only one kind), and of that at
most ``MAX_IDS`` ids. Old load fades with a half-life of ``HALF_LIFE_S``, so a partition that cooled down is forgotten in minutes.
A partition that moves away takes its load along.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pliant.ps.compiled.merging import partitions_of
from pliant.ps.payloads import Ids

SAMPLED = 16
MAX_IDS = 4096
HALF_LIFE_S = 60.0
REFRESH_S = 1.0  # a report that is asked for sooner is the last one
MAX_REPORTED = 16


class PartitionLoad:
    """Every method may be called from any thread."""

    def __init__(self, partitions: int, *, clock: Callable[[], float] = time.monotonic, sampled: int = SAMPLED) -> None:
        self._partitions = partitions
        self._share = 1.0 / sampled
        self._clock = clock
        self._lock = threading.Lock()
        self._floats = np.zeros(partitions, np.float64)
        self._dense = 0.0
        self._faded_at = clock()
        self._report: tuple[tuple[int, float], ...] = ()
        self._reported_at = -np.inf

    def is_sampled(self) -> bool:
        """Whether the request at hand is counted."""
        return random.random() < self._share

    def add_rows(self, table: str, ids: Ids, dim: int) -> None:
        step = -(-ids.size // MAX_IDS)
        if step == 0:
            return
        some = ids if step == 1 else np.ascontiguousarray(ids[::step])
        counts = np.bincount(partitions_of(table, some, self._partitions), minlength=self._partitions)
        with self._lock:
            self._floats += counts * (dim * ids.size / some.size)

    def add_blocks(self, floats: int) -> None:
        with self._lock:
            self._dense += floats

    def keep_only(self, owned: npt.NDArray[np.uint8]) -> None:
        with self._lock:
            self._floats[owned == 0] = 0.0
            self._reported_at = -np.inf

    def heaviest(self) -> tuple[tuple[int, float], ...]:
        """(partition, share of all load), heaviest first; at most ``MAX_REPORTED``."""
        with self._lock:
            now = self._clock()
            if now - self._reported_at >= REFRESH_S:
                self._reported_at = now
                self._fade(now)
                self._report = self._find_heaviest()
            return self._report

    def _fade(self, now: float) -> None:
        left = 0.5 ** (max(0.0, now - self._faded_at) / HALF_LIFE_S)
        self._floats *= left
        self._dense *= left
        self._faded_at = now

    def _find_heaviest(self) -> tuple[tuple[int, float], ...]:
        total = float(self._floats.sum()) + self._dense
        if total <= 1e-6:
            return ()
        count = min(MAX_REPORTED, self._partitions)
        chosen = np.argpartition(self._floats, self._partitions - count)[-count:]
        found = sorted((-float(self._floats[p]), int(p)) for p in chosen if self._floats[p] > 0)
        return tuple((partition, -floats / total) for floats, partition in found)
