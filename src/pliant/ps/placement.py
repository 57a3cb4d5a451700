"""Where a parameter belongs: the same in every process, on every machine, in every release.

An embedding row's partition is a hash of its id, salted with its table's name; a dense variable is cut into blocks of at
most ``MAX_BLOCK_FLOATS`` floats. Which seat owns a partition or a block is in ``core/parameters/partition_map.py``.
A table or variable is named on the wire by ``key_of(name)``, 64 bits of a hash of its name; a row's salt is the same number.
``compiled.merging.partitions_of`` is the compiled equivalent for many ids; tests pin both to fixed values.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

from pliant.core.parameters.partition_map import DEFAULT_PARTITIONS, MAX_BLOCK_FLOATS

GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


@lru_cache(maxsize=65_536)
def key_of(name: str) -> int:
    """The table's or variable's number on the wire, and the salt of its rows."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8, person=b"pliant-ps").digest(), "little")


def splitmix64(value: int) -> int:
    """One step of the splitmix64 generator from this state."""
    value = (value + GOLDEN) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def partition_of(table: str, row: int, partitions: int = DEFAULT_PARTITIONS) -> int:
    """The partition of one row."""
    return splitmix64((row & _MASK) ^ key_of(table)) % partitions


def blocks_of(size: int) -> list[tuple[int, int]]:
    """The blocks of a variable of ``size`` floats: (first element, length), in order; at least one element each."""
    return [(start, min(MAX_BLOCK_FLOATS, size - start)) for start in range(0, size, MAX_BLOCK_FLOATS)]
