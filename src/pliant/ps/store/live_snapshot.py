"""A copy of all tables as they were after one iteration, made a piece at a time while updates continue.

A dump has to be of one moment, and copying large tables takes seconds. So only the beginning needs that nothing changes. From then
on an update that is the first to change a row that was not copied yet copies it before (``Table.update``); rows that changed since,
or are new, are passed over when their partition's turn comes. The memory that it takes is that of a piece, and of rows that
updates were faster with.

What is no update of rows (state that comes in, partitions that go) does not know of this: before it everything left is copied at
once (``finish``). Neighbours: ``table``; ``transfer`` (makes one); ``pliant.ps.recovery.dumps`` writes the chunks as they come.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

from pliant.ps.payloads import StateChunk
from pliant.ps.store.locks import StoreLocks
from pliant.ps.store.table import Table

PIECE_ROWS = 65_536  # or one partition


class LiveSnapshot:
    """Iterate it once, in any thread. Made under the locks ``orders`` and ``state.reading``."""

    def __init__(
        self, tables: Iterable[Table], first: Iterable[StateChunk], locks: StoreLocks, iteration: int, since: int | None
    ) -> None:
        """``first``: chunks that are copied already."""
        self.iteration = iteration
        self._locks = locks
        self._copying = threading.Lock()
        self._ready: deque[StateChunk] = deque(first)
        self._parts = {table: table.begin_snapshot(iteration, -1 if since is None else since) for table in tables}
        self._left = deque((table, number) for table, part in self._parts.items() for number in range(part.size))
        pieces = sum(2 + table.rows // PIECE_ROWS for table in self._parts)
        self._most = len(self._ready) + pieces

    def __length_hint__(self) -> int:
        return self._most

    def __iter__(self) -> Iterator[StateChunk]:
        try:
            while True:
                with self._locks.state.reading, self._copying:
                    while not self._ready and self._left:
                        self._copy_piece()
                    if not self._ready:
                        return
                    chunk = self._ready.popleft()
                yield chunk
        finally:
            self.close()

    def finish(self) -> None:
        """Copy all that is left, now. The caller holds the lock ``orders``, and not ``state``."""
        with self._locks.state.reading, self._copying:
            while self._left:
                self._copy_piece()

    def close(self) -> None:
        """Copy no more."""
        with self._locks.state.reading, self._copying:
            self._left.clear()
            self._ready.clear()
            for table, part in self._parts.items():
                table.end_snapshot(part)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _copy_piece(self) -> None:
        """Several partitions of one table, or one; after the last one, the rows that updates have copied."""
        table, numbers, rows = self._left[0][0], [], 0
        while self._left and self._left[0][0] is table and rows < PIECE_ROWS:
            numbers.append(self._left.popleft()[1])
            rows += table.rows_of(numbers[-1])
        self._ready.extend(table.copy_partitions(self._parts[table], numbers))
        if not self._left or self._left[0][0] is not table:
            self._ready.extend(table.end_snapshot(self._parts[table]))
