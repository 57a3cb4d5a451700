"""Memory that those members of a world share that are on one machine.

Each member makes a region of its own and is the only one that can write it: it is sealed after its maker mapped it, and the
others map it for reading. It belongs to this world. What a member that was frozen or slow writes after the world broke goes
into its own old region, which nobody who trains on reads any more; what a dead one wrote stays readable as long as somebody
reads it. A survivor does not write into its old region again either, since a peer that committed the step may still be
reading it.

The members tell each other where their regions are over the world's own group, and whose they can open. Those who can read each
other's are a *host*; all members agree on who is. Nothing has a name in a folder, so nothing is left behind.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import secrets
import warnings
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from pliant.files import sealed_memory
from pliant.torch.worlds.world import World, WorldBroken

log = logging.getLogger(__name__)

NAME_WORDS = 4  # of 32 bits
OFFERED, MACHINE, PROCESS, FILE, NAME = 0, 1, 2, 3, 4  # columns of the table that the members fill


class WorldMemory:
    """A region of ``size`` bytes of each member of this process's host, by rank."""

    def __init__(
        self, world: World, size: int, regions: Mapping[int, torch.Tensor], hosts: Sequence[list[int]]
    ) -> None:
        self.size = size
        self.regions = regions
        self.own = regions[world.rank]
        self.hosts = hosts  # the ranks of each, the same on all members
        self._world = world
        self._broken: WorldBroken | None = None
        self._read: Any = None  # a collective that ends when all have read what was last written

    def barrier(self) -> None:
        """Wait until all members of the world are here. Raises ``WorldBroken``."""
        self._world.finish([self._world.allreduce(torch.zeros(1, dtype=torch.int64))])

    def end_reading(self) -> None:
        """This member has read what it wants of all regions. Not an error if the world broke: it has it."""
        try:
            self._read = self._world.allreduce(torch.zeros(1, dtype=torch.int64))
        except WorldBroken as error:
            self._broken = error

    def wait_for_readers(self) -> None:
        """Until the own region may be written again. Raises ``WorldBroken``."""
        if self._broken is not None:
            raise self._broken
        if self._read is not None:
            self._world.finish([self._read])
            self._read = None


def machine_id() -> int:
    """Of the running system: where two are equal it is worth trying to open each other's memory."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return zlib.crc32(file.read().strip().encode())
    return 0


def share(world: World, size: int, machine: int | None) -> WorldMemory | None:
    """All members call this at the same point; ``None`` for all if nobody can read another's. Raises ``WorldBroken``.

    ``machine``: ``machine_id()``; None for a member that offers no memory.
    """
    own = None if machine is None else _Offer(size)
    try:
        table = torch.zeros(world.size, NAME + NAME_WORDS, dtype=torch.int64)
        if own is not None and own.region is not None:
            table[world.rank] = torch.tensor([1, machine, os.getpid(), own.file, *own.words], dtype=torch.int64)
        world.finish([world.allreduce(table)])
        regions = _open_all(world, table, own, size)
        can_read = torch.zeros(world.size, world.size, dtype=torch.int64)
        can_read[world.rank, list(regions)] = 1
        world.finish([world.allreduce(can_read)])
    finally:
        if own is not None:
            own.close()  # all who want it have opened it, or never will
    hosts = _hosts(can_read.tolist())
    if all(len(host) == 1 for host in hosts):
        return None
    mine = next(host for host in hosts if world.rank in host)
    if mine == [world.rank] and world.rank not in regions:  # without memory that others could open
        regions[world.rank] = torch.zeros(size, dtype=torch.uint8)
    return WorldMemory(world, size, {rank: regions[rank] for rank in mine}, hosts)


def _hosts(can_read: Sequence[Sequence[int]]) -> list[list[int]]:
    """The members by host, each by its lowest rank. Who is not on equal terms with all whom it can read is alone."""
    count = range(len(can_read))
    near = [[b for b in count if a == b or (can_read[a][b] and can_read[b][a])] for a in count]
    found = [members if all(near[b] == members for b in members) else [a] for a, members in enumerate(near)]
    return [members for a, members in enumerate(found) if members[0] == a]


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


def _open_all(world: World, table: torch.Tensor, own: _Offer | None, size: int) -> dict[int, torch.Tensor]:
    """The regions that can be read, by rank, with the own one; none without it."""
    if own is None or own.region is None:
        return {}
    regions = {world.rank: own.region}
    machine = int(table[world.rank, MACHINE])
    for rank, (offered, where, process, file, *words) in enumerate(table.tolist()):
        if rank == world.rank or not offered or where != machine:
            continue
        try:
            opened = sealed_memory.open_of(process, file, _name(words), size, writable=False)
            try:
                regions[rank] = _mapped(opened, size, writable=False)
            finally:
                os.close(opened)
        except OSError as error:
            log.info("cannot share memory with %s: %s", world.peers[rank].name, error)
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
