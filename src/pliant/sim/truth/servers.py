"""The truth of training with parameter servers: workers and servers are two limits with a rounded knee between them.

Outside of what is fitted: the hottest server decides, locks get worse with workers per server, and both limits meet softly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pliant.core.planning.history import JobKind, StepParts
from pliant.sim.truth.base import Cores, NodeGroup, Throughput, Truth, slowest_of, soft_min


@dataclass(frozen=True, slots=True, kw_only=True)
class ServersTruth(Truth):
    batch: int = 64  # records of one push
    cpu_s: float = 0.004  # of a worker, per record, on one core
    latency_s: float = 0.02  # of a pull and a push
    apply_s: float = 0.0008  # of the servers together, per record, on one core
    worker_cores: Cores = field(default_factory=Cores)
    server_cores: Cores = field(default_factory=lambda: Cores(limit=8.0, serial=0.1))
    skew: float = 0.0  # how much more than its share the hottest server has; 0.5: half as much again
    locks: float = 0.0  # share by which applying gets slower for each worker per server
    knee: float = 4.0
    synchronous: bool = False
    spread: float = 0.1  # of workers, if they wait for each other

    @property
    def kind(self) -> JobKind:
        return JobKind.PS_SYNC if self.synchronous else JobKind.PS_ASYNC

    def throughput(self, workers: Sequence[NodeGroup], servers: Sequence[NodeGroup] = ()) -> Throughput:
        count, seats = sum(group.count for group in workers), sum(group.count for group in servers)
        if not count or not seats:
            return Throughput()
        compute = [self.batch * self.cpu_s / (self.worker_cores.speedup(group.cpu) * group.speed) for group in workers]
        alone = [self.batch / (busy + self.latency_s) for busy in compute]
        if self.synchronous:
            asked = count * min(alone) / slowest_of(count, self.spread)
        else:
            asked = sum(each * group.count for each, group in zip(alone, workers, strict=True))
        shares = self.shares(servers)
        effort = self.apply_s * (1.0 + self.locks * count / seats)
        limits = [
            self.server_cores.speedup(group.cpu) * group.speed / (effort * share)
            for group, share in zip(servers, shares, strict=True)
        ]
        rate = soft_min(asked, min(limits), self.knee)
        given = rate / asked
        busy_share = sum(
            time / (time + self.latency_s) * group.count for time, group in zip(compute, workers, strict=True)
        )
        computing = busy_share / count * given
        return Throughput(
            rate,
            StepParts(compute=computing, peers=1.0 - computing),
            tuple(
                time / (time + self.latency_s) * given * min(g.cpu or self.worker_cores.limit, self.worker_cores.limit)
                for time, g in zip(compute, workers, strict=True)
            ),
            tuple(rate / count if self.synchronous else each * given for each in alone),
            tuple(compute) if self.synchronous else (),
            server_cpu=tuple(
                min(1.0, rate / limit) * min(group.cpu or self.server_cores.limit, self.server_cores.limit)
                for limit, group in zip(limits, servers, strict=True)
            ),
        )

    def balanced(self) -> ServersTruth:
        return replace(self, skew=0.0)

    def shares(self, servers: Sequence[NodeGroup]) -> list[float]:
        """The load of each server of a group, as a part of all; without shares of their own one server is the hottest."""
        seats = sum(group.count for group in servers)
        even = 1.0 / seats
        hottest = min(1.0, even * (1.0 + self.skew)) if seats > 1 else 1.0
        return [group.share or hottest for group in servers]
