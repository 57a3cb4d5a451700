"""Partial sums of workers on several machines, some of which have several: first by memory, then between machines.

On each host the member with the lowest rank, its *leader*, adds up what the members wrote into their regions, as far as it goes:
the partial sums of the host. The leaders bring theirs together by sockets (``Scatter``), and the others copy the sums from
their leader's region. So each pair of machines exchanges one host's partial sums, not those of each worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from pliant.torch.gradients.buckets import Bucket
from pliant.torch.gradients.shared_transport import Layout, add_up
from pliant.torch.gradients.transport import Holdings, Scatter
from pliant.torch.worlds.shared_memory import WorldMemory
from pliant.torch.worlds.world import World


class Mixed:
    keeps_inputs = True

    def __init__(
        self, world: World, memory: WorldMemory, buckets: Sequence[Bucket], holdings: Holdings, layout: Layout
    ) -> None:
        """``layout`` has one chunk: the whole bucket."""
        self._world, self._memory, self._buckets, self._layout = world, memory, buckets, layout
        self._host = next(host for host in memory.hosts if world.rank in host)
        leaders = [host[0] for host in memory.hosts]
        held = [frozenset[int]()] * world.size
        for host in memory.hosts:
            held[host[0]] = frozenset().union(*(holdings.held[rank] for rank in host))
        self._between = Scatter(world, buckets, Holdings(holdings.tree, world.rank, held), leaders)
        self._parts = [entry for entry in holdings.order if entry[1] in self._host]
        self._merges, left = holdings.tree.partial_merges([node for node, _, _ in self._parts])
        self._totals = [number for _, number in left]
        self._inputs = [
            [layout.input(memory.own, number, at) for number in range(len(holdings.own))] for at in range(len(buckets))
        ]
        self._results = [torch.zeros(bucket.numel, dtype=bucket.dtype) for bucket in buckets]

    @property
    def _leads(self) -> bool:
        return self._host[0] == self._world.rank

    def begin_step(self) -> None:
        self._between.begin_step()
        self._memory.wait_for_readers()

    def inputs(self, at: int) -> list[torch.Tensor]:
        return self._inputs[at]

    def send(self, at: int) -> None:
        return  # the leader reads it

    def sent(self) -> list[Any]:
        return []

    def reduce(self) -> None:
        for at, bucket in enumerate(self._buckets):
            if self._leads and self._parts:
                parts = [self._layout.input(self._memory.regions[rank], k, at) for _, rank, k in self._parts]
                into = (flat[: bucket.numel] for flat in self._between.inputs(at))
                add_up(parts, self._merges, dict(zip(self._totals, into, strict=True)))
            self._between.send(at)
        self._world.finish(self._between.sent())
        self._between.reduce()
        leader = self._memory.regions[self._host[0]]
        if self._leads:
            for at, bucket in enumerate(self._buckets):
                self._layout.total(leader, at, bucket.numel).copy_(self._between.result(at))
        self._memory.barrier()
        for at, result in enumerate(self._results):
            result.copy_(self._layout.total(leader, at, result.numel()))
        self._memory.end_reading()

    def result(self, at: int) -> torch.Tensor:
        return self._results[at]
