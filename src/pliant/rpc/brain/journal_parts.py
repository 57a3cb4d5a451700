"""A batch of a journal that is larger than a message, in parts: first its operations, then what is lasting, in order."""

from __future__ import annotations

from collections.abc import Iterator

MAX_PART_BYTES = 15 << 20  # a message has 16 MB, with its other fields


def split(operations: bytes, lasting: bytes, limit: int = MAX_PART_BYTES) -> Iterator[tuple[bytes, bytes, bool]]:
    """Operations, lasting, and whether there is more; at least one part, and one only if both fit together."""
    total = len(operations) + len(lasting)
    for begin in range(0, max(total, 1), limit):
        end = min(total, begin + limit)
        from_lasting = max(0, begin - len(operations)), max(0, end - len(operations))
        yield operations[begin:end], lasting[slice(*from_lasting)], end < total
