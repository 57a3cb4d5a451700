"""One embedding table in memory: slabs of rows, an index per partition, the room they need.

The loops are in ``kernels``; this is what owns the memory they work on. Not safe for threads by itself: ``store`` lets many
read or one write.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pliant.ps.compiled.memory import address_of
from pliant.ps.payloads import Floats, Ids, RowBatch
from pliant.ps.placement import key_of, splitmix64
from pliant.ps.specs import InitializerSpec, TableSpec
from pliant.ps.store import kernels
from pliant.ps.store.arena import IndexMemory, aligned
from pliant.ps.store.optimizer_steps import hyper_parameters

SLAB = 32 << 20  # bytes (of which only what is used costs memory), or one row
MAX_ROWS = (1 << 32) - 2  # of one table on one server; a slot has 32 bits for it
_FIRST_BITS = 3
_CHUNK_ROWS = 65_536


@dataclass(frozen=True)
class TableSnapshot:
    """Rows are being copied as they were after an iteration."""

    iteration: int
    since: int  # rows that did not change after this iteration are not wanted
    partitions: npt.NDArray[np.uint8]  # 1: not copied yet
    changed: list[RowBatch]  # rows that were copied by themselves, because they were about to change

    @property
    def size(self) -> int:
        """The number of partitions."""
        return self.partitions.size


class Table:
    """Rows of one table that this server has."""

    def __init__(self, spec: TableSpec, partitions: int) -> None:
        self.spec = spec
        states = len(spec.optimizer.states)
        words = kernels.HEADER + spec.dim * (1 + states)
        words += -words % 4  # records begin at multiples of 16 bytes
        self._slab_bits = max(0, (SLAB // (4 * words)).bit_length() - 1)
        self._layout = np.zeros(8, np.int64)
        self._layout[:4] = spec.dim, states, words, self._slab_bits
        self._layout.view(np.uint64)[kernels.SALT] = key_of(spec.name)
        self._layout.view(np.uint64)[kernels.SEED] = table_seed(spec.name, spec.seed)
        self._layout[kernels.PARTITIONS] = partitions
        self._layout[kernels.MASK] = partitions - 1 if partitions & (partitions - 1) == 0 else 0
        self._begin = begin_of(spec.initializer, spec.dim, spec.optimizer.initial_accumulator)
        self.forgotten: list[tuple[int, Ids]] = []  # (iteration, ids that were evicted in it)
        self._partitions = partitions
        self._snapshot: TableSnapshot | None = None
        self.clear()

    def clear(self) -> None:
        """Without rows, as new; the memory goes back to the system."""
        self._slabs: list[npt.NDArray[np.uint8]] = []
        self._addresses = np.zeros(16, np.int64)
        self._head = np.zeros(8, np.int64)
        first = np.zeros((self._partitions, 1 << _FIRST_BITS), np.uint64)
        self._indexes = list(first)
        self._memory = IndexMemory(self._partitions)
        self._index = np.zeros((self._partitions, 3), np.int64)
        self._index[:, 0] = [address_of(slots) for slots in self._indexes]
        self._index[:, 1] = _FIRST_BITS

    @property
    def rows(self) -> int:
        return int(self._head[kernels.LIVE])

    @property
    def row_floats(self) -> int:
        """Floats of a row: its value and its optimizer's state."""
        return int(self.spec.dim * (1 + self._layout[kernels.STATES]))

    @property
    def nbytes(self) -> int:
        """Memory in use: records that were ever taken, and the index."""
        records = int(self._head[kernels.USED] * self._layout[kernels.WORDS] * 4)
        return records + sum(slots.nbytes for slots in self._indexes) + self._index.nbytes + self._addresses.nbytes

    def rows_of(self, partition: int) -> int:
        return int(self._index[partition, 2])

    def read(self, ids: Ids, out: Floats) -> None:
        """Values into ``out``; the ids are checked."""
        kernels.read_values(ids, out.reshape(-1), self._addresses, self._index, self._layout, self._begin)

    def check(self, ids: Ids, owned: npt.NDArray[np.uint8]) -> int:
        """0, or what ``kernels.check_ids`` says is wrong with an id."""
        return int(kernels.check_ids(ids, self._layout, owned))

    def update(self, ids: Ids, gradients: Floats, weight: float, scale: float, iteration: int) -> None:
        """One step on each row; the ids are checked and distinct."""
        if self._snapshot is not None:
            self._copy_before_change(self._snapshot, ids)
        hyper = hyper_parameters(self.spec.optimizer, scale, iteration)
        done = 0
        while True:
            done = kernels.update_rows(
                ids,
                address_of(gradients),
                done,
                weight,
                np.uint32(iteration),
                hyper,
                self._addresses,
                self._index,
                self._head,
                self._layout,
                self._begin,
            )
            if done == ids.size:
                return
            self._make_room()

    def write(self, batch: RowBatch) -> None:
        """Take rows as they are, over what is there."""
        done = 0
        data, counters = batch.data.reshape(-1), batch.counters.reshape(-1)
        while True:
            done = kernels.write_records(
                batch.ids,
                data,
                counters,
                done,
                self._addresses,
                self._index,
                self._head,
                self._layout,
                self._begin,
            )
            if done == batch.ids.size:
                return
            self._make_room()

    def export(self, partitions: Sequence[int], since: int = -1) -> Iterator[RowBatch]:
        """Copies of the rows of these partitions that changed after iteration ``since`` (-1: all)."""
        waiting: list[npt.NDArray[np.int64]] = []
        count = 0
        for partition in partitions:
            records = np.empty(self.rows_of(partition), np.int64)
            found = kernels.list_rows(
                partition, since, kernels.EVER, records, self._addresses, self._index, self._layout
            )
            waiting.append(records[:found])
            count += found
            if count >= _CHUNK_ROWS:
                yield self._copy(np.concatenate(waiting))
                waiting, count = [], 0
        if count:
            yield self._copy(np.concatenate(waiting))

    def _copy(self, records: npt.NDArray[np.int64]) -> RowBatch:
        ids = np.empty(records.size, np.int64)
        data = np.empty((records.size, self.row_floats), np.float32)
        counters = np.empty((records.size, 2), np.uint32)
        kernels.read_records(records, ids, data.reshape(-1), counters.reshape(-1), self._layout)
        return RowBatch(self.spec.name, ids, data, counters)

    def begin_snapshot(self, iteration: int, since: int) -> TableSnapshot:
        """From now on rows that changed after iteration ``since`` (-1: all) are kept as they are, after this iteration, until each
        partition was copied."""
        self._snapshot = TableSnapshot(iteration, since, np.ones(self._partitions, np.uint8), [])
        return self._snapshot

    def copy_partitions(self, snapshot: TableSnapshot, partitions: Sequence[int]) -> list[RowBatch]:
        """Their rows as they were then, but for those that changed since, which ``end_snapshot`` returns."""
        waiting: list[npt.NDArray[np.int64]] = []
        places = self._addresses, self._index, self._layout
        for partition in partitions:
            snapshot.partitions[partition] = 0
            records = np.empty(self.rows_of(partition), np.int64)
            found = kernels.list_rows(partition, snapshot.since, snapshot.iteration, records, *places)
            waiting.append(records[:found])
        records = np.concatenate(waiting)
        return [self._copy(records)] if records.size else []

    def end_snapshot(self, snapshot: TableSnapshot) -> list[RowBatch]:
        """Rows that updates have copied before they changed them."""
        if self._snapshot is snapshot:
            self._snapshot = None
        changed = list(snapshot.changed)
        snapshot.changed.clear()
        if not changed:
            return []
        ids, data = np.concatenate([one.ids for one in changed]), np.concatenate([one.data for one in changed])
        return [RowBatch(self.spec.name, ids, data, np.concatenate([one.counters for one in changed]))]

    def _copy_before_change(self, one: TableSnapshot, ids: Ids) -> None:
        records = np.empty(ids.size, np.int64)
        places = self._addresses, self._index, self._layout
        found = kernels.list_unchanged(ids, one.partitions, one.since, one.iteration, records, *places)
        if found:
            one.changed.append(self._copy(records[:found]))

    def drop(self, partitions: Sequence[int]) -> int:
        """Forget all rows of these partitions."""
        gone = sum(self._remove(partition, 2**32, 0).size for partition in partitions)
        if gone and not self.rows:
            self.clear()
        return gone

    def remove(self, ids: Ids) -> int:
        """Forget these rows."""
        touched = np.zeros(self._partitions, np.uint8)
        kernels.mark_rows(ids, touched, self._addresses, self._index, self._layout)
        return sum(self._remove(int(partition), -1, 0).size for partition in np.flatnonzero(touched))

    def evict(self, iteration: int) -> int:
        """The sweep of this iteration: each partition has its turn once in ``every`` iterations, so no sweep is long."""
        rule = self.spec.eviction
        if not rule.every:
            return 0
        before = iteration - rule.unused_for
        if before < 0:
            return 0
        gone = [
            self._remove(partition, before, rule.less_than)
            for partition in range(iteration % rule.every, self._partitions, rule.every)
            if self._index[partition, 2]
        ]
        ids = np.concatenate([part for part in gone if part.size] or [np.empty(0, np.int64)])
        if ids.size:
            self.forgotten.append((iteration, ids))
        return ids.size

    def _remove(self, partition: int, before: int, fewer: int) -> Ids:
        gone = np.empty(self.rows_of(partition), np.int64)
        count = kernels.remove_rows(
            partition, before, fewer, gone, self._addresses, self._index, self._head, self._layout
        )
        return gone[:count]

    def _make_room(self) -> None:
        wanted = int(self._head[kernels.WANTED])
        if wanted == kernels.NO_SLAB:
            self._add_slab()
            return
        bits = int(self._index[wanted, 1]) + 1
        slots = self._memory.take(bits)
        kernels.grow_index(self._indexes[wanted], slots, bits)
        self._indexes[wanted] = slots
        self._index[wanted, 0] = address_of(slots)
        self._index[wanted, 1] = bits

    def _add_slab(self) -> None:
        rows = 1 << self._slab_bits
        if self._head[kernels.ROOM] + rows > MAX_ROWS:
            raise MemoryError(
                f"table {self.spec.name!r} has {self.rows} rows on this server, which is the maximum; add servers"
            )
        slab = aligned(rows * int(self._layout[kernels.WORDS]) * 4)
        if len(self._slabs) == self._addresses.size:
            self._addresses = np.concatenate([self._addresses, np.zeros_like(self._addresses)])
        self._addresses[len(self._slabs)] = address_of(slab)
        self._slabs.append(slab)
        self._head[kernels.ROOM] += rows


def table_seed(name: str, seed: int) -> int:
    """What new values of a table or variable are computed from, besides their place."""
    return splitmix64(key_of(name) ^ splitmix64(seed))


def begin_of(spec: InitializerSpec, fan: int, accumulator: float) -> npt.NDArray[np.float64]:
    """An initializer for ``kernels.begin_values``: kind, its two numbers; then the first value of the first state."""
    if spec.kind == "uniform":
        kind, a, b = kernels.UNIFORM, spec.low, spec.high
    elif spec.kind == "normal":
        kind, a, b = kernels.NORMAL, spec.mean, spec.std
    elif spec.kind == "xavier":
        bound = spec.scale * math.sqrt(3.0 / fan)
        kind, a, b = kernels.UNIFORM, -bound, bound
    else:
        kind, a, b = kernels.CONSTANT, spec.value if spec.kind == "constant" else 0.0, 0.0
    return np.array([kind, a, b, accumulator], np.float64)
