"""The truth of synchronous training by allreduce: a fixed number of virtual workers, shared out over the workers.

Outside of what is fitted: the largest share decides (a saw-tooth), the slowest of many is waited for, and the network has a knee.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pliant.core.planning.history import JobKind, StepParts
from pliant.sim.truth.base import Cores, NodeGroup, Throughput, Truth, slowest_of


@dataclass(frozen=True, slots=True, kw_only=True)
class AllreduceTruth(Truth):
    virtual_workers: int = 32
    micro_batch: int = 32  # records of one virtual worker in a step
    unit_s: float = 0.2  # one micro-batch on one core
    cores: Cores = field(default_factory=Cores)
    sync_s: float = 0.02  # latency of a collective between two workers
    sync_step_s: float = 0.002  # more, for each further worker
    workers_per_machine: int = 8  # beyond, the collective crosses machines
    cross_factor: float = 3.0  # how much slower it is then
    knee_workers: int = 0  # from here on the network is congested; 0: never
    congestion: float = 1.0
    overlap: float = 1.5  # the exponent by which computing hides the collective; 1: not at all
    spread: float = 0.05  # of the time of one step between workers

    @property
    def kind(self) -> JobKind:
        return JobKind.ALLREDUCE

    def throughput(self, workers: Sequence[NodeGroup], servers: Sequence[NodeGroup] = ()) -> Throughput:
        count = sum(group.count for group in workers)
        if not count:
            return Throughput()
        units = [self.unit_s / (self.cores.speedup(group.cpu) * group.speed) for group in workers]
        even = -(-self.virtual_workers // count)
        seats = [group.seats or even for group in workers]
        times = [unit * held for unit, held in zip(units, seats, strict=True)]
        grad = max(times) * slowest_of(count, self.spread)
        sync = self._sync_s(count)
        step = (grad**self.overlap + sync**self.overlap) ** (1.0 / self.overlap)
        rate = self.virtual_workers * self.micro_batch / step
        total = max(1, sum(held * group.count for held, group in zip(seats, workers, strict=True)))
        busy = sum(time * group.count for time, group in zip(times, workers, strict=True)) / count / step
        return Throughput(
            rate,
            StepParts(compute=min(1.0, busy), peers=max(0.0, 1.0 - busy)),
            tuple(
                time / step * min(group.cpu or self.cores.limit, self.cores.limit)
                for time, group in zip(times, workers, strict=True)
            ),
            tuple(rate * held / total for held in seats),
            tuple(units),
        )

    def _sync_s(self, count: int) -> float:
        if count < 2:
            return 0.0
        sync = self.sync_s + self.sync_step_s * (count - 2)
        if count > self.workers_per_machine:
            sync *= self.cross_factor
        if self.knee_workers and count > self.knee_workers:
            sync *= 1.0 + self.congestion * (count / self.knee_workers - 1.0) ** 2
        return sync
