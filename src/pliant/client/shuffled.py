"""Many elements of a shuffled order at once: what ``Permutation`` computes one by one, as arrays.

Neighbours: ``shards``, ``pliant.core.shards.permutation``, which defines the order.
"""

from __future__ import annotations

from typing import Any

from pliant.core.shards.permutation import Permutation

FEW = 64  # elements for which arrays are not worth their while
MAX_SIZE = 1 << 62
_MASK = (1 << 64) - 1


def elements_of(order: Permutation, first: int, last: int) -> list[int]:
    """``[order[i] for i in range(first, last)]``."""
    if last - first <= FEW or order.is_stored or order.size > MAX_SIZE:
        return [order[i] for i in range(first, last)]
    try:
        import numpy as np
    except ImportError:  # programs without arrays need none for this
        return [order[i] for i in range(first, last)]
    found = np.arange(first, last, dtype=np.uint64)
    left = np.arange(found.size)  # elements that are not inside yet
    while left.size:
        found[left] = _walk(order, found[left])
        left = left[found[left] >= order.size]
    elements: list[int] = found.tolist()
    return elements


def _walk(order: Permutation, index: Any) -> Any:
    """One step of the network."""
    import numpy as np

    rows, columns = np.uint64(order.rows), np.uint64(order.columns)
    left, right = index // columns, index % columns
    for number, key in enumerate(order.keys):
        key64 = np.uint64(key & _MASK)
        if number % 2 == 0:  # sums of whole numbers do not wrap: remainders first
            left = (left + _mix(right ^ key64) % rows) % rows
        else:
            right = (right + _mix(left ^ key64) % columns) % columns
    return left * columns + right


def _mix(value: Any) -> Any:
    import numpy as np

    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
