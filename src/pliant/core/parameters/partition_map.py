"""Where each parameter is kept: embedding rows by partition, dense variables by block, both on numbered seats.

A *seat* is the slot of a parameter server (``core/parameters/seats.py``); it outlives the node that holds it, so when a node
dies nothing moves.

- A row belongs to a partition by a hash of its id (``ps/placement.py``). The number of partitions is fixed for a job; what
  changes is which seat has which partition.
- A dense variable is cut into flat blocks of at most ``MAX_BLOCK_FLOATS`` floats; each block has a seat.

``PartitionMap`` is a value: every change returns a new map with the next version. ``core/parameters/book.py`` decides when it
changes.

Invariants:

1. Each partition and each block has exactly one seat.
2. ``next_move`` returns what to move from one seat to another so that the shares approach the weights; repeated until it
   returns None, no partition moves twice, and seats of weight 0 are empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pliant.core.errors import InvalidRequest

DEFAULT_PARTITIONS = 256
MAX_BLOCK_FLOATS = 1 << 20  # 4 MiB
MAX_PARTITIONS = 1 << 16
MAX_MOVED_PARTITIONS = 16  # by one order


def block_sizes(size: int) -> list[int]:
    """Floats in each block of a variable of ``size`` floats."""
    whole, rest = divmod(size, MAX_BLOCK_FLOATS)
    return [MAX_BLOCK_FLOATS] * whole + ([rest] if rest else [])


@dataclass(frozen=True, slots=True)
class Move:
    """What moves from one seat to another."""

    source: int
    target: int
    partitions: tuple[int, ...] = ()
    blocks: tuple[tuple[str, int], ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PartitionMap:
    version: int
    partitions: tuple[int, ...]  # partition -> seat
    blocks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # variable -> the seat of each of its blocks
    sizes: Mapping[str, int] = field(default_factory=dict)  # variable -> floats

    @classmethod
    def first(cls, seats: Sequence[int], partitions: int = DEFAULT_PARTITIONS) -> PartitionMap:
        if not seats or not 1 <= partitions <= MAX_PARTITIONS:
            raise InvalidRequest(f"{partitions} partitions on {len(seats)} parameter servers")
        return cls(1, tuple(seats[p % len(seats)] for p in range(partitions)))

    def with_variables(self, sizes: Mapping[str, int], weights: Mapping[int, float]) -> PartitionMap:
        """New variables, their largest blocks first, each to the seat with the smallest load for its weight."""
        load = self.floats(weights)
        wanted = [(block, name, at) for name, size in sizes.items() for at, block in enumerate(block_sizes(size))]
        seats_of: dict[str, list[int]] = {name: [0] * len(block_sizes(size)) for name, size in sizes.items()}
        for block, name, at in sorted(wanted, key=lambda entry: (-entry[0], entry[1], entry[2])):
            seat = min(
                (s for s, weight in weights.items() if weight > 0), key=lambda s: ((load[s] + block) / weights[s], s)
            )
            load[seat] += block
            seats_of[name][at] = seat
        blocks = {**self.blocks, **{name: tuple(seats) for name, seats in seats_of.items()}}
        return replace(self, version=self.version + 1, blocks=blocks, sizes={**self.sizes, **sizes})

    def moved(self, move: Move) -> PartitionMap:
        """After a move; refuses one whose source does not have it."""
        partitions = list(self.partitions)
        for partition in move.partitions:
            if not 0 <= partition < len(partitions) or partitions[partition] != move.source:
                raise InvalidRequest(f"partition {partition} is not on seat {move.source}")
            partitions[partition] = move.target
        blocks = {name: list(seats) for name, seats in self.blocks.items()}
        for name, at in move.blocks:
            if name not in blocks or not 0 <= at < len(blocks[name]) or blocks[name][at] != move.source:
                raise InvalidRequest(f"block {at} of {name!r} is not on seat {move.source}")
            blocks[name][at] = move.target
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
        """Floats of dense variables on each seat."""
        load = dict.fromkeys(seats, 0)
        for name, owners in self.blocks.items():
            for size, owner in zip(block_sizes(self.sizes[name]), owners, strict=True):
                load[owner] = load.get(owner, 0) + size
        return load

    def next_move(self, weights: Mapping[int, float], limit: int = MAX_MOVED_PARTITIONS) -> Move | None:
        """Finder: at most ``limit`` partitions, or one block, whose move brings the shares closer to the weights."""
        if not any(weight > 0 for weight in weights.values()):
            return None
        return self._partition_move(weights, limit) or self._block_move(weights)

    def _partition_move(self, weights: Mapping[int, float], limit: int) -> Move | None:
        wanted = shares(len(self.partitions), weights)
        surplus = {seat: self.partitions.count(seat) - share for seat, share in wanted.items()}
        source = max(surplus, key=lambda seat: (surplus[seat], -seat))
        target = min(surplus, key=lambda seat: (surplus[seat], seat))
        count = min(surplus[source], -surplus[target], limit)
        if count <= 0:
            return None
        reason = f"seat {source} has {surplus[source]} partitions too many, seat {target} {-surplus[target]} too few"
        return Move(source, target, tuple(self.partitions_of(source)[-count:]), reason=reason)

    def _block_move(self, weights: Mapping[int, float]) -> Move | None:
        load = self.floats(weights)

        def fullness(seat: int, more: int = 0) -> float:
            return (load[seat] + more) / weights[seat] if weights[seat] > 0 else float("inf")

        leaving = [seat for seat, weight in weights.items() if weight <= 0 and load[seat]]
        source = (
            leaving[0] if leaving else max(weights, key=lambda seat: (fullness(seat) if load[seat] else 0.0, -seat))
        )
        target = min(weights, key=lambda seat: (fullness(seat), seat))
        sizes = {(n, at): block_sizes(self.sizes[n])[at] for n, at in self.blocks_of(source)}
        for (name, at), size in sorted(sizes.items(), key=lambda entry: (-entry[1], entry[0])):
            if leaving or fullness(target, size) < fullness(source):
                reason = f"seat {source} has {load[source]:,} floats of dense variables, seat {target} {load[target]:,}"
                return Move(source, target, blocks=((name, at),), reason=reason)
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
    def from_json(cls, value: Mapping[str, Any]) -> PartitionMap:
        blocks = {str(name): tuple(int(s) for s in seats) for name, seats in value["blocks"].items()}
        sizes = {str(name): int(size) for name, size in value["sizes"].items()}
        return cls(int(value["version"]), tuple(int(s) for s in value["partitions"]), blocks, sizes)


def shares(total: int, weights: Mapping[int, float]) -> dict[int, int]:
    """``total`` in proportion to the weights, as integers; what is left over goes to the largest remainders."""
    whole = sum(weights.values())
    exact = {seat: total * weight / whole for seat, weight in weights.items()}
    given = {seat: int(share) for seat, share in exact.items()}
    left = total - sum(given.values())
    for seat in sorted(exact, key=lambda seat: (given[seat] - exact[seat], seat))[:left]:
        given[seat] += 1
    return given
