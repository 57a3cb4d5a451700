"""A seeded permutation of ``range(size)`` that is computed, not stored.

Small sizes use a shuffled table; large ones a generalised Feistel network over ``a * b >= size`` with cycle walking,
so that any element of an order of 10^12 costs a microsecond and no memory. The order is a pure function of the size
and the key, the same in every process and release: it may be recomputed after a crash, or by another machine.
"""

from __future__ import annotations

from hashlib import blake2b
from math import isqrt

from pliant.core.errors import InvalidRequest

_MASK = (1 << 64) - 1
_TABLE_SIZE = 1024  # up to here a table is better mixed and still constant in size
ROUNDS = 4


def mix(value: int) -> int:
    """Scramble 64 bits (the finaliser of splitmix64)."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def round_keys(*key: int | str) -> tuple[int, ...]:
    """Derive the keys of the rounds from whatever identifies an order."""
    digest = blake2b("/".join(map(str, key)).encode(), digest_size=8 * ROUNDS).digest()
    return tuple(int.from_bytes(digest[8 * i : 8 * i + 8], "little") for i in range(ROUNDS))


class Permutation:
    """``p[i]`` for ``0 <= i < size`` visits each number of ``range(size)`` once."""

    __slots__ = ("_table", "columns", "keys", "rows", "size")

    def __init__(self, size: int, *key: int | str) -> None:
        if size < 0:
            raise InvalidRequest(f"a permutation of {size} elements does not exist")
        self.size = size
        self.keys = round_keys(*key)
        self.rows = max(1, isqrt(size))
        self.columns = -(-size // self.rows)
        self._table = _shuffled(size, self.keys) if size <= _TABLE_SIZE else None

    def __len__(self) -> int:
        return self.size

    @property
    def is_stored(self) -> bool:
        """Small enough for a table."""
        return self._table is not None

    def __getitem__(self, index: int) -> int:
        if not 0 <= index < self.size:
            raise IndexError(index)
        if self._table is not None:
            return self._table[index]
        rows, columns = self.rows, self.columns
        one, two, three, four = self.keys
        while True:  # the network permutes rows * columns >= size; walk on until we are inside
            left, right = divmod(index, columns)
            left = (left + mix(right ^ one)) % rows
            right = (right + mix(left ^ two)) % columns
            left = (left + mix(right ^ three)) % rows
            right = (right + mix(left ^ four)) % columns
            index = left * columns + right
            if index < self.size:
                return index


def _shuffled(size: int, keys: tuple[int, ...]) -> list[int]:
    table = list(range(size))
    for i in range(size - 1, 0, -1):
        j = mix(keys[i % ROUNDS] + i * 0x9E3779B97F4A7C15 & _MASK) % (i + 1)
        table[i], table[j] = table[j], table[i]
    return table
