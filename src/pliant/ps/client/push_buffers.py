"""Gradients of rows on their way to servers: added up by id and sorted by server in one pass, into the memory they leave from.

A server on the same machine shares memory with its client (``wire.shared_memory``). Sums computed there are sent without a copy;
sums for others are made in memory that is buffers, because new memory costs more than what is done in it.

Neighbours: ``client``, which sends them; ``merging`` (the loops); ``connection`` (whose memory it is).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pliant.ps.client.connection import PsConnection
from pliant.ps.compiled.merging import group_by_seat, sum_by_seat
from pliant.ps.payloads import Floats, Ids, RowGradients


class RowBuffers:
    """Memory for rows of each table, used again and again."""

    def __init__(self) -> None:
        self._buffers: dict[str, Floats] = {}

    def take(self, table: str, rows: int, dim: int) -> Floats:
        buffers = self._buffers.get(table)
        if buffers is None or buffers.shape[0] < rows or buffers.shape[1] != dim:
            buffers = self._buffers[table] = np.empty((rows + rows // 8, dim), np.float32)
        return buffers[:rows]


class OutgoingRows:
    """The rows of one push. Good until the next request of any of its connections."""

    def __init__(
        self, owner: npt.NDArray[np.int32], seats: int, connection: Callable[[int], PsConnection], buffers: RowBuffers
    ) -> None:
        """``owner``: the server of each partition; ``connection``: to a server. Servers are numbered as in ``Route.seats``."""
        self._owner = owner
        self._seats = seats
        self._connection = connection
        self._buffers = buffers
        self._sizes: dict[int, int] = {}  # bytes of the payload so far, by server
        self.by_server: dict[int, list[RowGradients]] = {}

    def add(self, table: str, ids: Ids, gradients: Floats) -> None:
        """Ids may come more than once."""
        dim = gradients.shape[1]
        unique, counts, positions = group_by_seat(table, ids, self._owner, self._seats)
        targets: list[Floats] = []
        first = 0
        for server, count in enumerate(counts.tolist()):
            target = self._room(table, server, count, dim)
            targets.append(target)
            if count:
                rows = RowGradients(table, unique[first : first + count], target, unique=True)
                self.by_server.setdefault(server, []).append(rows)
            first += count
        sum_by_seat(positions, gradients, counts, targets)

    def _room(self, table: str, server: int, count: int, dim: int) -> Floats:
        if not count:
            return np.empty((0, dim), np.float32)
        at = self._sizes.get(server, 0) + 8 * count  # after the ids
        size = 4 * count * dim
        self._sizes[server] = at + size + (-size & 7)
        shared = self._connection(server).room(at, size)
        if shared is None:
            return self._buffers.take(f"{table} {server}", count, dim)
        return shared.view(np.float32).reshape(count, dim)
