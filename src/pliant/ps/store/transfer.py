"""State on its way out of a store and into one: moves, dumps and restores.

Everything is copied under the locks of the store (``locks``); what comes in is checked chunk by chunk before it is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from pliant.ps.compiled.merging import partitions_of
from pliant.ps.payloads import Evicted, Push, RowBatch, StateChunk
from pliant.ps.store import checks
from pliant.ps.store.catalog import BlockKey, Catalog
from pliant.ps.store.live_snapshot import LiveSnapshot
from pliant.ps.store.locks import StoreLocks
from pliant.ps.store.staging import Staging
from pliant.ps.store.table import Table


class StateTransfer:
    def __init__(self, catalog: Catalog, staging: Staging, locks: StoreLocks, partitions: int) -> None:
        self._catalog = catalog
        self._staging = staging
        self._locks = locks
        self._partitions = partitions
        self._last_full = -1  # iteration of the last full snapshot
        self._live: LiveSnapshot | None = None  # the last one, which may be over

    def export(self, partitions: Collection[int], blocks: Collection[BlockKey]) -> Iterator[StateChunk]:
        """Copies of all rows of these partitions (of every table) and of these blocks, state and counters included. They must
        not be owned any more: the copies are made one after the other while other parameters keep changing."""
        for table in list(self._catalog.tables.values()):
            for partition in sorted(partitions):
                with self._locks.state.reading:
                    batches = list(table.export([partition]))
                yield from batches
        for name, number in sorted(blocks):
            with self._locks.state.reading, self._locks.holding:
                state = self._catalog.block(name, number).copy()
            yield state

    def export_staged(self, partitions: Collection[int], blocks: Collection[BlockKey], part: int) -> list[Push]:
        """The share of staged pushes that belongs to these partitions and blocks, as copies marked with ``part``."""
        with self._locks.staging:
            shares = [self._share(push, partitions, blocks, True) for push in self._staging]
        return [replace(push, part=part, release=lambda: None) for push in shares if push.rows or push.blocks]

    def import_(self, chunks: Iterable[StateChunk]) -> int:
        """Write state over what is there; returns the number of rows and blocks."""
        count = 0
        for chunk in chunks:
            checks.check_chunk(chunk, self._catalog)
            with self._changing():
                if isinstance(chunk, RowBatch):
                    self._catalog.tables[chunk.table].write(chunk)
                    count += chunk.ids.size
                elif isinstance(chunk, Evicted):
                    self._catalog.tables[chunk.table].remove(chunk.ids)
                else:
                    self._catalog.block(chunk.variable, chunk.block).write(chunk)
                    count += 1
        return count

    def drop(self, partitions: Collection[int], blocks: Collection[BlockKey]) -> int:
        """Delete these partitions of every table and these blocks, and their share of what is staged; returns the number of
        rows and blocks."""
        with self._locks.orders:
            self.finish_live()
            with self._locks.state.writing:
                count = sum(table.drop(sorted(partitions)) for table in self._catalog.tables.values())
                with self._locks.holding:
                    count += sum(self._catalog.blocks.pop(key, None) is not None for key in blocks)
            with self._locks.staging:
                self._staging.replace(lambda push: self._share(push, partitions, blocks, False))
        return count

    def snapshot(self, iteration: int, since: int | None) -> list[StateChunk]:
        """A copy of everything (or of what changed after iteration ``since``); the caller holds the locks ``orders`` and
        ``state.reading``. In an increment, ``Evicted`` chunks come first."""
        return self._copied(self._catalog.tables.values(), iteration, since)

    def _copied(self, tables: Collection[Table], iteration: int, since: int | None) -> list[StateChunk]:
        """What was evicted from all tables, the rows of these, and all blocks."""
        chunks: list[StateChunk] = []
        after = -1 if since is None else since
        for table in self._catalog.tables.values():
            if since is None:
                table.forgotten = [entry for entry in table.forgotten if entry[0] > self._last_full]
            else:
                chunks += [Evicted(table.spec.name, ids) for at, ids in table.forgotten if at > since]
        for table in tables:
            chunks += table.export(range(self._partitions), after)
        with self._locks.holding:
            blocks = self._catalog.blocks.values()
            chunks += [block.copy() for block in blocks if since is None or block.changed > since]
        if since is None:
            self._last_full = iteration
        return chunks

    def begin_live(self, iteration: int, since: int | None) -> LiveSnapshot:
        """The same, a piece at a time, while updates continue; the caller holds the same locks."""
        self._live = None
        whole = [table for table in self._catalog.tables.values() if table.spec.eviction.every]  # sweeps are no updates
        live = [table for table in self._catalog.tables.values() if not table.spec.eviction.every]
        first = self._copied(whole, iteration, since)
        self._live = LiveSnapshot(live, first, self._locks, iteration, since)
        return self._live

    def finish_live(self, before: int | None = None) -> None:
        """Whatever is still to be copied is copied now; ``before``: unless the next update is of a later iteration than the copy.
        The caller holds the lock ``orders`` and not ``state``."""
        live = self._live
        if live is None or (before is not None and before > live.iteration):
            return
        live.finish()
        self._live = None

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """State is about to change by other means than an update."""
        with self._locks.orders:
            self.finish_live()
            with self._locks.state.writing:
                yield

    def _share(self, push: Push, partitions: Collection[int], blocks: Collection[BlockKey], inside: bool) -> Push:
        chosen = np.zeros(self._partitions, bool)
        chosen[list(partitions)] = True
        rows = []
        for one in push.rows:
            mask = chosen[partitions_of(one.table, one.ids, self._partitions)] == inside
            if mask.any():
                rows.append(replace(one, ids=one.ids[mask], gradients=one.gradients[mask]))
        kept = [
            replace(one, gradient=one.gradient.copy() if inside else one.gradient)
            for one in push.blocks
            if ((one.variable, one.block) in blocks) == inside
        ]
        return replace(push, rows=tuple(rows), blocks=tuple(kept))
