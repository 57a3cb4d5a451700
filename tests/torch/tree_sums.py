"""Workers that add gradients up as Trainers do, in threads around real gloo groups: light enough for random histories.

fleet = Fleet(units=7, grads=grads)
fleet.breaks([0, 1, 2], dying={1: "before"})    # a round in which worker 1 dies
fleet.commits([0, 2, 3])                        # the survivors and a joiner finish the step
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import partial
from typing import Any

import numpy as np
import torch

from pliant.core.rendezvous.virtual_workers import hosted_counts, share_missing
from pliant.torch.gradients.tree_sum import TreeSum
from pliant.torch.gradients.unit_tree import hosted_units
from pliant.torch.worlds.world import Peer, World, WorldBroken, connect

MASTER_NOTICES_S = 0.25  # after a death, if connections do not tell
ALONE = World(0, 0, [Peer("alone", 0, True, frozenset())])
Grads = Sequence[Sequence[torch.Tensor | None]]  # by unit and parameter


def make_worlds(size: int) -> list[World]:
    """The members of one world, by rank."""
    peers = [Peer(f"worker-{rank}", 0, True, frozenset()) for rank in range(size)]
    worlds = [World(1, rank, peers) for rank in range(size)]
    published: dict[int, dict[str, bytes]] = {}
    all_there = threading.Barrier(size)

    def exchange(world: World, keys: dict[str, bytes]) -> Sequence[Mapping[str, bytes]]:
        published[world.rank] = dict(keys)
        all_there.wait()
        return [published[rank] for rank in range(size)]

    together([partial(connect, world, "127.0.0.1", exchange) for world in worlds])
    return worlds


def together(deeds: Sequence[Callable[[], object]]) -> list[object]:
    with ThreadPoolExecutor(len(deeds)) as pool:
        return [done.result() for done in [pool.submit(deed) for deed in deeds]]


class Member:
    def __init__(
        self, shapes: Sequence[tuple[int, ...]], dtype: torch.dtype, units: int, bucket_bytes: int, machine: int | None
    ) -> None:
        self.params = [torch.nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in shapes]
        self.total = TreeSum(bucket_bytes=bucket_bytes, units=units, overlap=True, shared_memory=True)
        self.total.machine = machine
        self.units: set[int] = set()
        self.begin_step()

    def begin_step(self) -> None:
        self.units.clear()
        self.total.begin_step(dict(enumerate(self.params)))

    def compute(self, grads: Grads, unit: int, *, last: bool) -> None:
        """A backward pass that yields these gradients."""
        self.units.add(unit)
        if all(grad is None for grad in grads[unit]):
            self.total.skip_unit(unit)
            return
        self.total.begin_unit(unit, last=last)
        self.total.begin_backward()
        used = [(param, grad) for param, grad in zip(self.params, grads[unit], strict=True) if grad is not None]
        torch.autograd.backward([param for param, _ in used], [grad.clone() for _, grad in used])
        self.total.end_backward()

    def result(self) -> list[torch.Tensor | None]:
        return [param.grad for param in self.params]


class Fleet:
    def __init__(
        self, grads: Grads, *, dtype: torch.dtype = torch.float32, bucket_bytes: int = 256, machines: int = 1
    ) -> None:
        """``machines``: on which the workers are, in turn; 0: they have no memory in common."""
        self.grads, self.count = grads, len(grads)
        shapes = [
            next((tuple(row[at].shape) for row in grads if row[at] is not None), (1,))  # type: ignore[union-attr]
            for at in range(len(grads[0]))
        ]
        self._shapes, self._dtype, self._bucket_bytes, self._machines = shapes, dtype, bucket_bytes, machines
        self.members: dict[int, Member] = {}
        self.used = [int(any(row[at] is not None for row in grads)) for at in range(len(grads[0]))]

    def _make(self, name: int) -> Member:
        machine = name % self._machines + 1 if self._machines else None
        return Member(self._shapes, self._dtype, self.count, self._bucket_bytes, machine)

    def alone(self) -> list[torch.Tensor | None]:
        member = self._make(0)
        member.total.begin_round(ALONE, [frozenset(range(self.count))])
        for unit in range(self.count):
            member.compute(self.grads, unit, last=unit == self.count - 1)
        self._finish(member, ALONE)
        return member.result()

    def commits(self, names: Sequence[int], seats: Sequence[int] | None = None) -> list[list[torch.Tensor | None]]:
        """A round of these workers that ends the step; their results, and the next step begins."""
        worlds, held = self._worlds(names), self._held(names, seats)
        try:
            together([partial(self._work, names[at], worlds[at], held, at) for at in range(len(names))])
            made = [[None if g is None else g.clone() for g in self.members[name].result()] for name in names]
        finally:
            for world in worlds:
                world.leave()
        return made

    def breaks(self, names: Sequence[int], dying: Mapping[int, str], seats: Sequence[int] | None = None) -> None:
        """A round in which some die: "before" or "after" they have sent anything. The others keep what they have."""
        worlds, held = self._worlds(names), self._held(names, seats)

        def work(at: int) -> None:
            name, world = names[at], worlds[at]
            if dying.get(name) == "before":
                world.leave()
                return
            try:
                self._work(name, world, held, at, dies=name in dying)
            except WorldBroken:
                self.members[name].total.abandon()
            finally:
                world.leave()

        with ThreadPoolExecutor(len(names)) as pool:
            rounds = [pool.submit(work, at) for at in range(len(names))]
            # Not everybody sees a closed connection: one may wait for a worker that waits for the dead one. The master tells them.
            wait([done for at, done in enumerate(rounds) if names[at] in dying], return_when=FIRST_COMPLETED)
            wait(rounds, timeout=MASTER_NOTICES_S)
            for world in worlds:
                world.break_up()
            for done in rounds:
                done.result()
        for name in dying:
            del self.members[name]

    def _work(self, name: int, world: World, held: Sequence[frozenset[int]], at: int, *, dies: bool = False) -> None:
        member = self.members[name]
        member.total.begin_round(world, held)
        todo = sorted(held[at] - member.units)
        for unit in todo:
            member.compute(self.grads, unit, last=unit == todo[-1])
        if dies:
            member.total.start()
            world.leave()
            return
        self._finish(member, world)

    def _finish(self, member: Member, world: World) -> None:
        works = member.total.start()
        if not world.alone:
            lane = torch.ones(1, dtype=torch.int64)
            world.finish([*works, world.allreduce(lane)])
            assert int(lane) == world.size
        member.total.reduce()
        member.total.store(self.used)
        made = [None if grad is None else grad.clone() for grad in member.result()]
        member.begin_step()
        for param, grad in zip(member.params, made, strict=True):
            param.grad = grad  # to be compared

    def _worlds(self, names: Sequence[int]) -> list[World]:
        for name in names:
            if name not in self.members:
                self.members[name] = self._make(name)
        return make_worlds(len(names)) if len(names) > 1 else [World(1, 0, [Peer("alone", 0, True, frozenset())])]

    def _held(self, names: Sequence[int], seats: Sequence[int] | None) -> list[frozenset[int]]:
        counts = seats or hosted_counts(self.count, len(names))
        done = [frozenset(self.members[name].units) for name in names]
        if any(done):
            shares = share_missing(self.count, done, counts)
            return [units | frozenset(share) for units, share in zip(done, shares, strict=True)]
        return [frozenset(units) for units in hosted_units(tuple(counts))]


def sequential(grads: Grads, dtype: torch.dtype = torch.float32) -> list[torch.Tensor | None]:
    """The definition, by numpy and recursion."""

    def add(first: int, size: int, at: int) -> np.typing.NDArray[np.floating[Any]] | None:
        if size == 1:
            grad = grads[first][at]
            return None if grad is None else grad.to(dtype).resolve_conj().numpy()
        left, middle = add(first, size // 2, at), first + size // 2
        right = add(middle, size // 2, at) if middle < len(grads) else None
        if left is None or right is None:
            return right if left is None else left
        with np.errstate(all="ignore"):
            total: np.typing.NDArray[np.floating[Any]] = left + right
            return total

    sums = [add(0, 1 << (len(grads) - 1).bit_length(), at) for at in range(len(grads[0]))]
    return [None if total is None else torch.from_numpy(np.array(total)) for total in sums]


def same_bits(a: Sequence[torch.Tensor | None], b: Sequence[torch.Tensor | None]) -> bool:
    """Of a NaN, which one it is does not count."""
    return [_bits(x) for x in a] == [_bits(x) for x in b]


def _bits(value: torch.Tensor | None) -> tuple[object, ...] | None:
    if value is None:
        return None
    real = (torch.view_as_real(value) if value.is_complex() else value).contiguous()
    canonical = torch.where(real.isnan(), torch.full_like(real, float("nan")), real)
    return (value.shape, value.dtype, bytes(canonical.reshape(-1).view(torch.uint8).tolist()))
