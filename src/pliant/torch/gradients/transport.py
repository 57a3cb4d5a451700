"""How the partial sums of all workers become one sum, in the order of the canonical tree: the contract, and gloo's ways.

A transport belongs to one world, one layout of buckets and one distribution of units. For each bucket it names the memory into
which this worker writes its partial sums (``inputs``), brings them to those who add them (``send``, during the last backward
pass; ``reduce``, when all have arrived), and has the sum (``result``).

- ``Allreduce``: at most two partial sums in the whole world, on two workers. Their sum does not depend on who adds them. The
  others contribute -0.0, which changes no bit of anything it is added to.
- ``Scatter``: each worker (or only some, the *owners*) adds one chunk of each bucket. All-to-all brings it the chunks of all
  partial sums, it adds them in the tree's order, and another all-to-all brings the sums to everybody (gloo's all-gather took
  twice as long). The traffic of an allreduce, plus half of it for each further partial sum of a worker.

``shared_transport`` is the way of workers on one machine, ``mixed_transport`` that of several on each of some machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from pliant.torch.gradients.buckets import Bucket
from pliant.torch.gradients.unit_tree import Node, UnitTree
from pliant.torch.worlds.world import World

NOTHING = -0.0  # the neutral element: x + -0.0 is x for every x, also for 0.0 and -0.0
CHUNK_ALIGNMENT = 16  # elements


class Transport(Protocol):
    keeps_inputs: bool  # whether what was written into the inputs stays there; else it is overwritten by the sum

    def begin_step(self) -> None:
        """Before the first input of a step is written; may wait for peers that still read those of the last one."""

    def inputs(self, at: int) -> list[torch.Tensor]:
        """For bucket number ``at``: one flat tensor per partial sum of this worker, in their order; always the same memory."""

    def send(self, at: int) -> None:
        """The inputs of this bucket are written. Buckets are sent in their order, on every worker."""

    def sent(self) -> list[Any]:
        """The collectives in flight."""

    def reduce(self) -> None:
        """What all workers sent has arrived."""

    def result(self, at: int) -> torch.Tensor:
        """The sum of this bucket; this worker's own memory."""


class Holdings:
    """Who brings which partial sums to a step: the same on every worker."""

    def __init__(self, tree: UnitTree, rank: int, held: Sequence[frozenset[int]]) -> None:
        self.tree, self.rank, self.held = tree, rank, tuple(held)
        self.by_rank = [tree.complete(units) for units in held]
        self.own = self.by_rank[rank]
        everything = [(node, rank, at) for rank, nodes in enumerate(self.by_rank) for at, node in enumerate(nodes)]
        self.order: list[tuple[Node, int, int]] = sorted(everything, key=lambda entry: entry[0].first)
        self.merges = tree.merges([node for node, _, _ in self.order])

    @property
    def most(self) -> int:
        """Partial sums of the worker that has most."""
        return max(map(len, self.by_rank))


class Allreduce:
    keeps_inputs = False

    def __init__(self, world: World, buckets: Sequence[Bucket], holdings: Holdings) -> None:
        self._world, self._has_any = world, bool(holdings.own)
        self._flats = [torch.zeros(bucket.numel, dtype=bucket.dtype) for bucket in buckets]
        self._works: list[Any] = []

    @staticmethod
    def is_exact(holdings: Holdings) -> bool:
        return len(holdings.order) <= 2

    def begin_step(self) -> None:
        self._works = []

    def inputs(self, at: int) -> list[torch.Tensor]:
        return [self._flats[at]] if self._has_any else []

    def send(self, at: int) -> None:
        if not self._has_any:
            self._flats[at].fill_(NOTHING)
        self._works.append(self._world.allreduce(self._flats[at]))

    def sent(self) -> list[Any]:
        return self._works

    def reduce(self) -> None:
        return  # it arrived as a sum

    def result(self, at: int) -> torch.Tensor:
        return self._flats[at]


class Scatter:
    keeps_inputs = True

    def __init__(
        self, world: World, buckets: Sequence[Bucket], holdings: Holdings, owners: Sequence[int] | None = None
    ) -> None:
        """``owners``: the ranks that add, and that receive the sums; all, if not given. Only they have partial sums."""
        self._world, self._holdings = world, holdings
        self._owners = list(range(world.size)) if owners is None else list(owners)
        self._is_owner = world.rank in self._owners
        self._works: list[Any] = []
        unit = len(self._owners) * CHUNK_ALIGNMENT
        padded = [-(-bucket.numel // unit) * unit if self._is_owner else 0 for bucket in buckets]
        self._chunks = [numel // len(self._owners) for numel in padded]
        self._sizes = [bucket.numel for bucket in buckets]
        dtypes = [bucket.dtype for bucket in buckets]
        self._inputs = [[torch.zeros(n, dtype=d) for _ in holdings.own] for n, d in zip(padded, dtypes, strict=True)]
        self._results = [torch.zeros(n, dtype=d) for n, d in zip(padded, dtypes, strict=True)]
        # Round k brings everybody's partial sum number k, from those who have as many.
        self._senders = [
            [r for r, nodes in enumerate(holdings.by_rank) if len(nodes) > k] for k in range(holdings.most)
        ]
        self._arrived = [
            [torch.zeros(len(senders) * chunk, dtype=d) for senders in self._senders]
            for chunk, d in zip(self._chunks, dtypes, strict=True)
        ]
        # The sum of this worker's chunk, for everybody; where what arrived has as much memory, it is used again.
        self._copies = [
            first if first.numel() == size else torch.zeros(size, dtype=first.dtype)
            for (first, *_), size in zip(self._arrived, padded, strict=True)
        ]

    def begin_step(self) -> None:
        self._works = []

    def inputs(self, at: int) -> list[torch.Tensor]:
        return self._inputs[at]

    def send(self, at: int) -> None:
        chunk = self._chunks[at]
        for number, (senders, arriving) in enumerate(zip(self._senders, self._arrived[at], strict=True)):
            has_one = number < len(self._inputs[at])
            sending = self._inputs[at][number] if has_one else arriving[:0]
            takes, gives = (
                self._sizes_by_rank(senders, chunk),
                self._sizes_by_rank(self._owners, chunk if has_one else 0),
            )
            self._works.append(self._world.alltoall(arriving, sending, takes, gives))

    def sent(self) -> list[Any]:
        return self._works

    def reduce(self) -> None:
        works = []
        for at, chunk in enumerate(self._chunks):
            parts = []
            for _, rank, number in self._holdings.order:
                first = self._senders[number].index(rank) * chunk
                parts.append(self._arrived[at][number][first : first + chunk])
            for left, right in self._holdings.merges:
                parts[left].add_(parts[right])
            for copy in self._copies[at].view(len(self._owners), chunk):
                if copy.data_ptr() != parts[0].data_ptr():
                    copy.copy_(parts[0])
            each = self._sizes_by_rank(self._owners, chunk)
            works.append(self._world.alltoall(self._results[at], self._copies[at], each, each))
        self._world.finish(works)

    def result(self, at: int) -> torch.Tensor:
        return self._results[at][: self._sizes[at]]

    def _sizes_by_rank(self, ranks: Sequence[int], size: int) -> list[int]:
        return [size if rank in ranks else 0 for rank in range(self._world.size)]
