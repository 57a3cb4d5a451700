"""Where each parameter is kept: embedding rows by partition, dense variables by block, both on numbered seats.

A *seat* is the place of a parameter server; it outlives the node that fills it, so the death of one moves nothing.

- A row belongs to a partition by a hash of its id (``ps/placement.py``). The number of partitions is fixed for a job; what
  changes is which seat has which partition.
- A dense variable is cut into flat blocks of at most ``BLOCK`` floats; each block has a seat.

``PsMap`` is a value: every change gives a new map with the next version. ``core/ps_orders.py`` decides when it changes.

What always holds:

1. Each partition and each block has exactly one seat.
2. ``next_move`` names what one seat gives to another so that the shares come nearer to the weights; carried out until it
   gives none, no partition moves twice, and seats of weight 0 have nothing left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pliant.core.errors import InvalidRequest

PARTITIONS = 256  # of a job that says nothing else
BLOCK = 1 << 20  # floats
MOST_PARTITIONS = 1 << 16


def block_sizes(size: int) -> list[int]:
    """Floats in each block of a variable of so many floats."""
    whole, rest = divmod(size, BLOCK)
    return [BLOCK] * whole + ([rest] if rest else [])


@dataclass(frozen=True, slots=True)
class Move:
    """What one seat gives to another."""

    giver: int
    taker: int
    partitions: tuple[int, ...] = ()
    blocks: tuple[tuple[str, int], ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PsMap:
    version: int
    partitions: tuple[int, ...]  # partition -> seat
    blocks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # variable -> the seat of each of its blocks
    sizes: Mapping[str, int] = field(default_factory=dict)  # variable -> floats

    @classmethod
    def first(cls, seats: Sequence[int], partitions: int = PARTITIONS) -> PsMap:
        if not seats or not 1 <= partitions <= MOST_PARTITIONS:
            raise InvalidRequest(f"{partitions} partitions on {len(seats)} parameter servers")
        return cls(1, tuple(seats[p % len(seats)] for p in range(partitions)))

    def with_variables(self, sizes: Mapping[str, int], weights: Mapping[int, float]) -> PsMap:
        """New variables, their largest blocks first, each to the seat with the least for its weight."""
        load = self.floats(weights)
        wanted = [(block, name, at) for name, size in sizes.items() for at, block in enumerate(block_sizes(size))]
        placed: dict[str, list[int]] = {name: [0] * len(block_sizes(size)) for name, size in sizes.items()}
        for block, name, at in sorted(wanted, key=lambda entry: (-entry[0], entry[1], entry[2])):
            seat = min(
                (s for s, weight in weights.items() if weight > 0), key=lambda s: ((load[s] + block) / weights[s], s)
            )
            load[seat] += block
            placed[name][at] = seat
        blocks = {**self.blocks, **{name: tuple(seats) for name, seats in placed.items()}}
        return replace(self, version=self.version + 1, blocks=blocks, sizes={**self.sizes, **sizes})

    def moved(self, move: Move) -> PsMap:
        """After a move; refuses one whose giver does not have it."""
        partitions = list(self.partitions)
        for partition in move.partitions:
            if not 0 <= partition < len(partitions) or partitions[partition] != move.giver:
                raise InvalidRequest(f"partition {partition} is not on seat {move.giver}")
            partitions[partition] = move.taker
        blocks = {name: list(seats) for name, seats in self.blocks.items()}
        for name, at in move.blocks:
            if name not in blocks or not 0 <= at < len(blocks[name]) or blocks[name][at] != move.giver:
                raise InvalidRequest(f"block {at} of {name!r} is not on seat {move.giver}")
            blocks[name][at] = move.taker
        frozen = {name: tuple(seats) for name, seats in blocks.items()}
        return replace(self, version=self.version + 1, partitions=tuple(partitions), blocks=frozen)

    # --- reading

    def partitions_of(self, seat: int) -> list[int]:
        return [at for at, owner in enumerate(self.partitions) if owner == seat]

    def blocks_of(self, seat: int) -> list[tuple[str, int]]:
        return [(name, at) for name, seats in self.blocks.items() for at, owner in enumerate(seats) if owner == seat]

    def is_empty(self, seat: int) -> bool:
        return seat not in self.partitions and not self.blocks_of(seat)

    def floats(self, seats: Mapping[int, float]) -> dict[int, int]:
        """Of dense variables on each seat."""
        load = dict.fromkeys(seats, 0)
        for name, owners in self.blocks.items():
            for size, owner in zip(block_sizes(self.sizes[name]), owners, strict=True):
                load[owner] = load.get(owner, 0) + size
        return load

    def next_move(self, weights: Mapping[int, float], most: int = 16) -> Move | None:
        """Finder: at most so many partitions, or one block, that bring the shares nearer to the weights."""
        if not any(weight > 0 for weight in weights.values()):
            return None
        return self._partition_move(weights, most) or self._block_move(weights)

    def _partition_move(self, weights: Mapping[int, float], most: int) -> Move | None:
        wanted = shares(len(self.partitions), weights)
        surplus = {seat: self.partitions.count(seat) - share for seat, share in wanted.items()}
        giver = max(surplus, key=lambda seat: (surplus[seat], -seat))
        taker = min(surplus, key=lambda seat: (surplus[seat], seat))
        count = min(surplus[giver], -surplus[taker], most)
        if count <= 0:
            return None
        why = f"seat {giver} has {surplus[giver]} partitions too many, seat {taker} {-surplus[taker]} too few"
        return Move(giver, taker, tuple(self.partitions_of(giver)[-count:]), reason=why)

    def _block_move(self, weights: Mapping[int, float]) -> Move | None:
        load = self.floats(weights)

        def fullness(seat: int, more: int = 0) -> float:
            return (load[seat] + more) / weights[seat] if weights[seat] > 0 else float("inf")

        leaving = [seat for seat, weight in weights.items() if weight <= 0 and load[seat]]
        giver = leaving[0] if leaving else max(weights, key=lambda seat: (fullness(seat) if load[seat] else 0.0, -seat))
        taker = min(weights, key=lambda seat: (fullness(seat), seat))
        sizes = {(n, at): block_sizes(self.sizes[n])[at] for n, at in self.blocks_of(giver)}
        for (name, at), size in sorted(sizes.items(), key=lambda entry: (-entry[1], entry[0])):
            if leaving or fullness(taker, size) < fullness(giver):
                why = f"seat {giver} has {load[giver]:,} floats of dense variables, seat {taker} {load[taker]:,}"
                return Move(giver, taker, blocks=((name, at),), reason=why)
        return None

    # --- as JSON

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "partitions": list(self.partitions),
            "blocks": {name: list(seats) for name, seats in self.blocks.items()},
            "sizes": dict(self.sizes),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PsMap:
        blocks = {str(name): tuple(int(s) for s in seats) for name, seats in value["blocks"].items()}
        sizes = {str(name): int(size) for name, size in value["sizes"].items()}
        return cls(int(value["version"]), tuple(int(s) for s in value["partitions"]), blocks, sizes)


def shares(total: int, weights: Mapping[int, float]) -> dict[int, int]:
    """``total`` things in proportion to the weights, whole ones; what is left over goes to the largest remainders."""
    whole = sum(weights.values())
    exact = {seat: total * weight / whole for seat, weight in weights.items()}
    given = {seat: int(share) for seat, share in exact.items()}
    left = total - sum(given.values())
    for seat in sorted(exact, key=lambda seat: (given[seat] - exact[seat], seat))[:left]:
        given[seat] += 1
    return given
