"""Memory that the members of one world share, where all of them are on one machine.

Each member makes a region of its own and is the only one that can write it: it is sealed after its maker mapped it, and the
others map it for reading. It belongs to this world. What a member that was frozen or slow writes after the world broke goes
into its own old region, which nobody who trains on reads any more; what a dead one wrote stays readable as long as somebody
reads it. A survivor does not write into its old region again either, since a peer that committed the step may still be
reading it.

The members tell each other where their regions are over the world's own group, and agree: either all can read all regions, or
the memory is not used (``None``), by anybody. Nothing has a name in a folder, so nothing is left behind.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import secrets
import warnings
from typing import Any

import numpy as np
import torch

from pliant.files import sealed_memory
from pliant.torch.worlds.world import World

log = logging.getLogger(__name__)

NAME_WORDS = 4  # of 32 bits
OFFERED, PROCESS, FILE, NAME = 0, 1, 2, 3  # columns of the table that the members fill


class WorldMemory:
    """A region of ``size`` bytes of each member, by rank."""

    def __init__(self, world: World, size: int, regions: list[torch.Tensor]) -> None:
        self.size = size
        self.regions = regions
        self.own = regions[world.rank]
        self._world = world
        self._read: Any = None  # a collective that ends when all have read what was last written

    def barrier(self) -> None:
        """Wait until all members are here. Raises ``WorldBroken``."""
        self._world.finish([self._world.allreduce(torch.zeros(1, dtype=torch.int64))])

    def end_reading(self) -> None:
        """This member has read what it wants of all regions."""
        self._read = self._world.allreduce(torch.zeros(1, dtype=torch.int64))

    def wait_for_readers(self) -> None:
        """Until the own region may be written again. Raises ``WorldBroken``."""
        if self._read is not None:
            self._world.finish([self._read])
            self._read = None


def share(world: World, size: int, *, offers: bool = True) -> WorldMemory | None:
    """All members call this at the same point; ``None`` for all if it is not possible for one. Raises ``WorldBroken``."""
    own = _Offer(size) if offers else None
    try:
        table = torch.zeros(world.size, NAME + NAME_WORDS, dtype=torch.int64)
        if own is not None and own.region is not None:
            table[world.rank] = torch.tensor([1, os.getpid(), own.file, *own.words], dtype=torch.int64)
        world.finish([world.allreduce(table)])
        regions = _open_all(world, table, own, size)
        missing = torch.tensor([int(regions is None)], dtype=torch.int64)
        world.finish([world.allreduce(missing)])
    finally:
        if own is not None:
            own.close()  # all who want it have opened it, or never will
    if regions is None or int(missing):
        log.info("round %d: the gradients travel by sockets: no memory that all members share", world.round)
        return None
    return WorldMemory(world, size, regions)


class _Offer:
    """The own region; without a region if the system does not allow it."""

    def __init__(self, size: int) -> None:
        self.words = [secrets.randbits(32) for _ in range(NAME_WORDS)]
        self.region: torch.Tensor | None = None
        self.file = -1
        if not sealed_memory.AVAILABLE:
            return
        try:
            self.file = sealed_memory.create(_name(self.words), size)
            self.region = _mapped(self.file, size, writable=True)
            sealed_memory.seal(self.file, writers=False)
        except OSError as error:  # no memory, no descriptors, an old kernel
            log.info("no shared memory: %s", error)
            self.region = None

    def close(self) -> None:
        if self.file >= 0:
            os.close(self.file)
            self.file = -1


def _open_all(world: World, table: torch.Tensor, own: _Offer | None, size: int) -> list[torch.Tensor] | None:
    if own is None or own.region is None or not bool((table[:, OFFERED] == 1).all()):
        return None
    regions = []
    for rank, (_, process, file, *words) in enumerate(table.tolist()):
        if rank == world.rank:
            regions.append(own.region)
            continue
        try:
            opened = sealed_memory.open_of(process, file, _name(words), size, writable=False)
        except OSError as error:
            log.info("the shared memory of %s is out of reach: %s", world.peers[rank].name, error)
            return None
        try:
            regions.append(_mapped(opened, size, writable=False))
        except OSError as error:
            log.info("the shared memory of %s cannot be mapped: %s", world.peers[rank].name, error)
            return None
        finally:
            os.close(opened)
    return regions


def _name(words: list[int]) -> str:
    return "pliant-world-" + "".join(f"{word:08x}" for word in words)


def _mapped(file: int, size: int, *, writable: bool) -> torch.Tensor:
    made = mmap.mmap(file, size, prot=mmap.PROT_READ | mmap.PROT_WRITE if writable else mmap.PROT_READ)
    with contextlib.suppress(OSError):
        made.madvise(mmap.MADV_HUGEPAGE)  # fewer page faults, of which there are thousands else
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch has no tensors that cannot be written; these are only read
        return torch.from_numpy(np.frombuffer(made, np.uint8))
