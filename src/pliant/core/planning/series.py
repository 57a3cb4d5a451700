"""What a node used, from its first sample to its last, in constant memory: fine for minutes, coarse for days.

Samples are added up in buckets. The newest buckets are ``RAW`` (5 s each, 15 minutes of them); the oldest of those are merged into
``MINUTES`` (2 hours of them), these into ``HOURS`` (3 days), and what is older still into one bucket of all that was before. A
bucket has sums and maxima, so merging loses resolution and nothing else:

1. The number of buckets is bounded by ``MAX_BUCKETS``.
2. The mean over the whole life, and every maximum, are those of all samples that were ever added.
3. Buckets begin at strictly rising times. A sample whose time does not advance (a clock that was set back) counts in the newest
   bucket.

A window begins with the first bucket that ends after its beginning: it is exact to the resolution of that time.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import takewhile

RAW_S, MINUTE_S, HOUR_S = 5.0, 60.0, 3600.0
RAW, MINUTES, HOURS = 180, 120, 72  # buckets of each kind
MAX_BUCKETS = RAW + MINUTES + HOURS + 2  # with the one that is being filled, and the one of all that was before


@dataclass(frozen=True, slots=True)
class Bucket:
    """Samples of some time, added up."""

    start: float  # seconds since the epoch
    end: float  # of its last sample
    samples: int
    cpu_sum: float  # cores
    throttled_sum: float
    memory_sum: float  # MB
    busiest: float  # cores: the highest mean of 5 seconds
    memory_max: float

    @property
    def cpu(self) -> float:
        return self.cpu_sum / self.samples

    @property
    def throttled(self) -> float:
        return self.throttled_sum / self.samples

    @property
    def memory_mb(self) -> float:
        return self.memory_sum / self.samples

    def plus(self, later: Bucket) -> Bucket:
        return Bucket(
            self.start,
            max(self.end, later.end),
            self.samples + later.samples,
            self.cpu_sum + later.cpu_sum,
            self.throttled_sum + later.throttled_sum,
            self.memory_sum + later.memory_sum,
            max(self.busiest, later.busiest),
            max(self.memory_max, later.memory_max),
        )


class _Level:
    """Buckets of one resolution, oldest first."""

    def __init__(self, resolution: float, capacity: int) -> None:
        self._resolution, self._capacity = resolution, capacity
        self.buckets: deque[Bucket] = deque()

    def add(self, bucket: Bucket) -> Bucket | None:
        """Returns what no longer fits."""
        newest = self.buckets[-1] if self.buckets else None
        if newest is not None and self._number(bucket.start) <= self._number(newest.start):
            self.buckets[-1] = newest.plus(bucket)
            return None
        self.buckets.append(bucket)
        return self.buckets.popleft() if len(self.buckets) > self._capacity else None

    def _number(self, time: float) -> int:
        return math.floor(time / self._resolution)


class UsageSeries:
    def __init__(self) -> None:
        self._levels = (_Level(RAW_S, RAW), _Level(MINUTE_S, MINUTES), _Level(HOUR_S, HOURS))
        self._earlier: Bucket | None = None
        self._raw: Bucket | None = None  # the newest, which is not full yet
        self.peak_memory_mb = 0.0  # the most that was ever measured; 0: nothing was

    def add(self, time: float, *, cpu: float, memory_mb: float, throttled: float = 0.0) -> None:
        raw = self._raw
        self.peak_memory_mb = max(self.peak_memory_mb, memory_mb)
        sample = Bucket(time, time, 1, cpu, throttled, memory_mb, 0.0, memory_mb)
        if raw is not None and math.floor(time / RAW_S) <= math.floor(raw.start / RAW_S):
            self._raw = raw.plus(sample)
            return
        if raw is not None:
            self._file(_finished(raw))
        self._raw = sample

    def _file(self, bucket: Bucket) -> None:
        for level in self._levels:
            left = level.add(bucket)
            if left is None:
                return
            bucket = left
        self._earlier = bucket if self._earlier is None else self._earlier.plus(bucket)

    # --- reading

    def __len__(self) -> int:
        return sum(1 for _ in self.buckets())

    def buckets(self) -> Iterator[Bucket]:
        """Newest first."""
        if self._raw is not None:
            yield _finished(self._raw)
        for level in self._levels:
            yield from reversed(level.buckets)
        if self._earlier is not None:
            yield self._earlier

    def since(self, time: float) -> Bucket | None:
        """All samples from a time on as one; None: there are none."""
        found = list(self._since(time))
        return reduce(Bucket.plus, reversed(found)) if found else None

    def _since(self, time: float) -> Iterator[Bucket]:
        return takewhile(lambda bucket: bucket.end >= time, self.buckets())

    def cpu_quantile(self, share: float, since: float = -math.inf) -> float:
        """Of the CPU used, in cores, over means of 5 seconds. What is older than those counts with its busiest 5 seconds, so
        the result may be too high and is never too low."""
        found = sorted((bucket.busiest, bucket.samples) for bucket in self._since(since))
        left = share * sum(samples for _, samples in found)
        for cpu, samples in found:
            left -= samples
            if left <= 1e-9:
                return cpu
        return found[-1][0] if found else 0.0


def _finished(raw: Bucket) -> Bucket:
    """With what is known of five seconds only at their end."""
    return Bucket(
        raw.start,
        raw.end,
        raw.samples,
        raw.cpu_sum,
        raw.throttled_sum,
        raw.memory_sum,
        raw.cpu_sum / raw.samples,
        raw.memory_max,
    )
