"""Gradients of rows on their way to servers: added up by id and sorted by server in one pass, into the memory they leave from.

A server on the same machine shares memory with its client (``sharing``). Sums that are made there need not be copied to be sent;
sums for others are made in memory that is kept, because new memory costs more than what is done in it.

Neighbours: ``client``, which sends them; ``merging`` (the loops); ``connection`` (whose memory it is).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pliant.ps.connection import PsConnection
from pliant.ps.merging import group_by_seat, sum_by_seat
from pliant.ps.pieces import Floats, Ids, RowGradients


class KeptRows:
    """Memory for rows of each table, used again and again."""

    def __init__(self) -> None:
        self._kept: dict[str, Floats] = {}

    def take(self, table: str, rows: int, dim: int) -> Floats:
        kept = self._kept.get(table)
        if kept is None or kept.shape[0] < rows or kept.shape[1] != dim:
            kept = self._kept[table] = np.empty((rows + rows // 8, dim), np.float32)
        return kept[:rows]


class OutgoingRows:
    """The rows of one push. Good until the next request of any of its connections."""

    def __init__(
        self, owner: npt.NDArray[np.int32], seats: int, connection: Callable[[int], PsConnection], kept: KeptRows
    ) -> None:
        """``owner``: the place of each partition's seat; ``connection``: to the server at a place."""
        self._owner = owner
        self._seats = seats
        self._connection = connection
        self._kept = kept
        self._sizes: dict[int, int] = {}  # bytes of the payload so far, by place
        self.by_place: dict[int, list[RowGradients]] = {}

    def add(self, table: str, ids: Ids, gradients: Floats) -> None:
        """Ids may come more than once."""
        dim = gradients.shape[1]
        unique, counts, places = group_by_seat(table, ids, self._owner, self._seats)
        targets: list[Floats] = []
        first = 0
        for place, count in enumerate(counts.tolist()):
            target = self._room(table, place, count, dim)
            targets.append(target)
            if count:
                rows = RowGradients(table, unique[first : first + count], target, unique=True)
                self.by_place.setdefault(place, []).append(rows)
            first += count
        sum_by_seat(places, gradients, counts, targets)

    def _room(self, table: str, place: int, count: int, dim: int) -> Floats:
        if not count:
            return np.empty((0, dim), np.float32)
        at = self._sizes.get(place, 0) + 8 * count  # after the ids
        size = 4 * count * dim
        self._sizes[place] = at + size + (-size & 7)
        shared = self._connection(place).room(at, size)
        if shared is None:
            return self._kept.take(f"{table} {place}", count, dim)
        return shared.view(np.float32).reshape(count, dim)
