"""The truth of a job whose workers take shards from a queue, independently of each other but for a shared source of records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pliant.core.planning.history import JobKind, StepParts
from pliant.sim.truth.base import Cores, NodeGroup, Throughput, Truth, soft_min


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTruth(Truth):
    """A worker waits and computes for each record; the source gives so many records per second, and beyond that it thrashes."""

    wait_s: float = 0.01  # per record
    cpu_s: float = 0.005  # per record, on one core
    cores: Cores = field(default_factory=Cores)
    source_limit: float = 0.0  # records per second that the shared source can give; 0: any number
    knee: float = 6.0  # how sharp the limit is
    thrash: float = 0.0  # share of the limit lost for each time that it is asked for again

    @property
    def kind(self) -> JobKind:
        return JobKind.QUEUE

    def throughput(self, workers: Sequence[NodeGroup], servers: Sequence[NodeGroup] = ()) -> Throughput:
        speedups = [self.cores.speedup(group.cpu) for group in workers]
        compute = [self.cpu_s / speedup for speedup in speedups]
        alone = [group.speed / (self.wait_s + busy) for group, busy in zip(workers, compute, strict=True)]
        asked = sum(rate * group.count for rate, group in zip(alone, workers, strict=True))
        if not asked:
            return Throughput()
        rate = asked
        if self.source_limit:
            excess = max(0.0, asked / self.source_limit - 1.0)
            rate = soft_min(asked, self.source_limit, self.knee) / (1.0 + self.thrash * excess)
        given = rate / asked  # of what each could do
        shares = [busy * each for busy, each in zip(compute, alone, strict=True)]
        mean_share = sum(share * group.count for share, group in zip(shares, workers, strict=True)) / sum(
            group.count for group in workers
        )
        return Throughput(
            rate,
            StepParts(data=1.0 - mean_share * given, compute=mean_share * given),
            tuple(
                share * given * min(group.cpu or self.cores.limit, self.cores.limit)
                for share, group in zip(shares, workers, strict=True)
            ),
            tuple(each * given for each in alone),
        )
