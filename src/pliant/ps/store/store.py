"""Everything that one parameter server stores, and the only way to change it.

The state is a function of the specs and of the orders: ``define``, ``apply``, ``import_``, ``drop``. A pull changes nothing:
the value of a row that does not exist yet is computed, and the row is created by its first update. So two stores that executed
the same orders are equal bit for bit, and a pull can be repeated safely.

Pushes are staged, and applied by an order that names them with weights (``gradients``), by one step of the optimizer. Merging
happens before readers are locked out; they wait only for the step itself.

Neighbours: ``server.requests`` and ``recovery.order_executor`` (the callers), ``catalog`` (tables and blocks), ``staging``,
``transfer`` (moves, dumps, restores), ``checks`` (validation), ``partition_load`` (what is requested, which is no state).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from pliant.core.errors import InvalidRequest, Moved
from pliant.core.parameters.orders import Contribution
from pliant.core.parameters.partition_map import DEFAULT_PARTITIONS, MAX_PARTITIONS
from pliant.ps.payloads import Applied, Floats, Ids, Ownership, Push, StateChunk
from pliant.ps.specs import Spec
from pliant.ps.store import checks
from pliant.ps.store.catalog import BlockKey, Catalog
from pliant.ps.store.combining_queue import CombiningQueue
from pliant.ps.store.dense import Block
from pliant.ps.store.gradients import merged_gradients
from pliant.ps.store.live_snapshot import LiveSnapshot
from pliant.ps.store.locks import StoreLocks
from pliant.ps.store.partition_load import PartitionLoad
from pliant.ps.store.staging import Staging
from pliant.ps.store.table import Table
from pliant.ps.store.transfer import StateTransfer

PART_BYTES = 256 << 10  # of rows that are sent while the next are looked up


class ParameterStore:
    """Tables and variables of one seat. Every method may be called from any thread."""

    def __init__(self, *, partitions: int = DEFAULT_PARTITIONS) -> None:
        if not 1 <= partitions <= MAX_PARTITIONS:
            raise InvalidRequest(f"{partitions} partitions; allowed: 1 to {MAX_PARTITIONS}")
        self.partitions = partitions
        self._catalog = Catalog(partitions)
        self._staging = Staging()
        self._locks = StoreLocks()
        self._transfer = StateTransfer(self._catalog, self._staging, self._locks, partitions)
        self._owned = Ownership(0, np.ones(partitions, np.uint8))
        self.load = PartitionLoad(partitions)
        self._advanced = threading.Condition()
        self._iteration = 0
        self._promised = 0  # the highest iteration that was promised to a push that is applied at once
        self._at_once: CombiningQueue[tuple[Push, int], Applied] = CombiningQueue(self._apply_promised)
        self._apply_seconds = 0.0
        self._applied = 0
        self._evicted = 0

    # -- definitions

    @property
    def iteration(self) -> int:
        """The iteration that the state is of."""
        return self._iteration

    def wait_for(self, iteration: int, timeout: float) -> bool:
        """Wait until this iteration (or a later one) is applied; False after ``timeout`` seconds without it."""
        if self._iteration >= iteration:
            return True
        with self._advanced:
            return self._advanced.wait_for(lambda: self._iteration >= iteration, timeout)

    def define(self, spec: Spec) -> None:
        """Create a table or variable. The same spec again has no effect; a different one raises ``Conflict``."""
        spec.check()
        with self._locks.orders:
            if self._catalog.is_new(spec):
                with self._locks.state.writing:
                    self._catalog.add(spec)

    def spec_of(self, name: str) -> Spec | None:
        return self._catalog.spec_of(name)

    def specs(self) -> tuple[Spec, ...]:
        return self._catalog.specs()

    @property
    def names(self) -> dict[int, str]:
        """The name of each key that a request may use."""
        return self._catalog.names

    def table(self, name: str) -> Table:
        return self._catalog.table(name)

    def block_length(self, variable: str, number: int) -> int:
        return self._catalog.block_length(variable, number)

    def own(self, ownership: Ownership) -> None:
        """From now on requests for anything else are answered with ``Moved``. A new store owns everything (version 0)."""
        if ownership.partitions.shape != (self.partitions,) or ownership.partitions.dtype != np.uint8:
            raise InvalidRequest(f"ownership is an array of {self.partitions} bytes, one per partition")
        self._owned = ownership
        self.load.keep_only(ownership.partitions)

    @property
    def ownership(self) -> Ownership:
        return self._owned

    # -- pulls

    @contextmanager
    def pulling(
        self,
        rows: Sequence[tuple[str, Ids]],
        out: Sequence[Floats],
        blocks: Sequence[BlockKey] = (),
        have: Mapping[BlockKey, int] | None = None,
        begin: Callable[[int, Mapping[BlockKey, Floats]], None] | None = None,
        ready: Callable[[Floats], None] | None = None,
    ) -> Iterator[tuple[int, dict[BlockKey, Floats]]]:
        """Rows of several tables, written into ``out``, and the values of blocks, all of one iteration. Yields that and the blocks,
        which are no copies and do not change inside the ``with``: an update in the meantime works on a copy. Blocks that did not
        change after the iteration in ``have`` are left out.

        ``begin`` is called with what is yielded once nothing can fail any more, and ``ready`` with each part of ``out`` as soon as
        it is there; neither may block.
        """
        have = have or {}
        held: list[tuple[Block, Floats]] = []
        try:
            with self._locks.state.reading:
                owned, catalog = self._owned, self._catalog
                for (name, ids), target in zip(rows, out, strict=True):
                    table = catalog.table(name)
                    checks.check_rows(name, ids, target, table.spec.dim)
                    checks.check_ids(name, ids, table.check(ids, owned.partitions), owned.map_version)
                for name, number in blocks:
                    catalog.block_length(name, number)
                    if not owned.owns_block(name, number):
                        raise Moved(f"block {number} of {name!r} is on another server", map_version=owned.map_version)
                iteration = self._iteration
                if blocks:
                    found = [catalog.block(name, number) for name, number in blocks]
                    with self._locks.holding:
                        held += [
                            (block, block.hold())
                            for block in found
                            if block.changed > have.get((block.spec.name, block.number), -1)
                        ]
                values = {(block.spec.name, block.number): value for block, value in held}
                if begin is not None:
                    begin(iteration, values)
                for (name, ids), target in zip(rows, out, strict=True):
                    table = catalog.table(name)
                    size = max(1, PART_BYTES // (4 * table.spec.dim)) if ready is not None else max(1, ids.size)
                    for first in range(0, ids.size, size):
                        part = target[first : first + size]
                        table.read(ids[first : first + size], part)
                        if ready is not None:
                            ready(part)
            if self.load.is_sampled():
                for name, ids in rows:
                    self.load.add_rows(name, ids, catalog.table(name).spec.dim)
                if held:
                    self.load.add_blocks(sum(value.size for _, value in held))
            yield iteration, values
        finally:
            if held:
                with self._locks.holding:
                    for block, value in held:
                        block.let_go(value)

    def pull_rows(self, table: str, ids: Ids, out: Floats) -> int:
        """Write the rows of these ids into ``out`` (ids, dim). Raises ``Moved`` if one of them is not owned."""
        with self.pulling([(table, ids)], [out]) as (iteration, _):
            return iteration

    def blocks(
        self, wanted: Sequence[BlockKey], have: Mapping[BlockKey, int] | None = None
    ) -> AbstractContextManager[tuple[int, dict[BlockKey, Floats]]]:
        """The iteration and the values of these blocks, as ``pulling``."""
        return self.pulling((), (), wanted, have)

    # -- pushes

    def stage(self, push: Push) -> bool:
        """Keep a push until an order names it. Checked first: shapes, ids, NaN; an invalid one changes nothing.
        False: it is already here, or its sequence number was already applied or discarded."""
        if self.knows(push):
            return False
        self.check(push)
        self._count(push)  # now, since later its memory may be used again
        with self._locks.staging:
            if self._staging.knows(push):
                return False
            refused = self._staging.drop(push.session, push.void)
            self._staging.add(push)
        for one in refused:
            one.release()
        return True

    def unstage(self, push: Push) -> None:
        """Remove a push that could not be logged; its sender will send it again."""
        with self._locks.staging:
            self._staging.forget(push)

    def waiting(self) -> list[Push]:
        """What is staged."""
        with self._locks.staging:
            return list(self._staging)

    def staged(self) -> list[tuple[str, int, int]]:
        """(session, sequence, part) of what is staged."""
        return [(push.session, push.sequence, push.part) for push in self.waiting()]

    def check(self, push: Push) -> None:
        """Raise what ``stage`` would."""
        checks.check_push(push, self._catalog, self._owned)

    def _count(self, push: Push) -> None:
        if self.load.is_sampled():
            for rows in push.rows:
                if not rows.ids.flags.writeable:  # it comes from the log, and was counted when it was requested
                    return
                self.load.add_rows(rows.table, rows.ids, self._catalog.table(rows.table).spec.dim)
            if push.blocks:
                self.load.add_blocks(sum(block.gradient.size for block in push.blocks))

    def knows(self, push: Push) -> bool:
        """It is staged, or its sequence number was already applied or discarded."""
        with self._locks.staging:
            return self._staging.knows(push)

    def discard(self, session: str) -> int:
        """Drop everything that a session staged; returns the number of pushes."""
        with self._locks.staging:
            gone = self._staging.settle(session)
        for push in gone:
            push.release()
        return len(gone)

    # -- updates

    def apply(
        self, contributions: Sequence[Contribution], scale: float, iteration: int, factors: Sequence[float] = ()
    ) -> Applied:
        """One step of every optimizer concerned, with learning rates times ``scale`` and times the one of ``factors`` that its
        ``rate_group`` names; then the store is at ``iteration``. Staged pushes of the same sessions with lower sequence numbers
        are dropped (they were not accepted)."""
        checks.check_order(contributions, scale, iteration, self._iteration, factors)
        return self._execute(contributions, scale, iteration, factors, settled=self._staging.settle)

    def assign(self, contributions: Sequence[Contribution]) -> Applied:
        """Take the values of staged pushes that assign; the iteration does not change. Gradients with lower sequence numbers
        may be undecided, and are kept."""
        return self._execute(contributions, 1.0, self._iteration, settled=self._staging.drop_one)

    def _execute(
        self,
        contributions: Sequence[Contribution],
        scale: float,
        iteration: int,
        factors: Sequence[float] = (),
        *,
        settled: Callable[[str, int], list[Push]],
    ) -> Applied:
        with self._locks.orders:
            weighted: list[tuple[Push, float]] = []
            missing: list[Contribution] = []
            with self._locks.staging:
                for one in contributions:
                    pushes = self._staging.get(one.session, one.sequence)
                    weighted += [(push, one.weight) for push in pushes]
                    if not pushes:
                        missing.append(one)
            applied = self._apply(weighted, scale, iteration, factors)
            with self._locks.staging:
                gone = [push for one in contributions for push in settled(one.session, one.sequence)]
            for push in gone:
                push.release()
        return replace(applied, missing=tuple(missing))

    def apply_now(self, push: Push, accepted: Callable[[int], None] | None = None) -> Applied:
        """Without orders: check and apply at once as the next iteration. For loops without a master. ``accepted`` is called
        with that iteration as soon as nothing can fail any more: a reader that waits for the iteration gets it."""
        self.check(push)
        entry = self._at_once.enter(lambda: (push, self._promise()))
        try:
            if accepted is not None:
                accepted(entry.work[1])
        finally:
            applied = self._at_once.finish(entry)
        self._count(push)
        push.release()
        return applied

    def _promise(self) -> int:
        self._promised = max(self._promised, self._iteration) + 1
        return self._promised

    def _apply_promised(self, work: tuple[Push, int]) -> Applied:
        push, iteration = work
        with self._locks.orders:
            return self._apply([(push, 1.0)], 1.0, iteration)

    def _apply(
        self, weighted: list[tuple[Push, float]], scale: float, iteration: int, factors: Sequence[float] = ()
    ) -> Applied:
        begun = time.perf_counter()
        catalog = self._catalog
        merged = merged_gradients(weighted, catalog.tables)
        rows = 0
        self._transfer.finish_live(before=iteration)
        with self._locks.state.writing:
            for table, ids, gradients, weight in merged.tables:
                table.update(ids, gradients, weight, table.spec.scaled(scale, factors), iteration)
                rows += ids.size
            for name, number, gradient, weight in merged.blocks:
                block = catalog.block(name, number)
                block.update(gradient, weight, block.spec.scaled(scale, factors), iteration)
            for value in merged.assigned:
                catalog.block(value.variable, value.block).assign(value.gradient, iteration)
            if iteration > self._iteration:
                self._evicted += sum(table.evict(iteration) for table in catalog.tables.values())
            with self._advanced:
                self._iteration = iteration
                self._advanced.notify_all()
        seconds = time.perf_counter() - begun
        self._apply_seconds += seconds
        self._applied += 1
        return Applied(iteration, rows, seconds)

    # -- state on its way elsewhere

    def export(self, partitions: Collection[int], blocks: Collection[BlockKey]) -> Iterator[StateChunk]:
        """Copies of all rows of these partitions (of every table) and of these blocks, state and counters included. They must
        not be owned any more (``own``): the copies are made one after the other while other parameters keep changing."""
        return self._transfer.export(partitions, blocks)

    def export_staged(self, partitions: Collection[int], blocks: Collection[BlockKey], part: int) -> list[Push]:
        """The share of staged pushes that belongs to these partitions and blocks, as copies marked with ``part``."""
        return self._transfer.export_staged(partitions, blocks, part)

    def import_(self, chunks: Iterable[StateChunk]) -> int:
        """Write state over what is there; returns the number of rows and blocks."""
        return self._transfer.import_(chunks)

    def drop(self, partitions: Collection[int], blocks: Collection[BlockKey]) -> int:
        """Delete these partitions of every table and these blocks, and their share of what is staged; returns the number of
        rows and blocks."""
        return self._transfer.drop(partitions, blocks)

    def snapshot(self, since: int | None = None) -> list[StateChunk]:
        """One consistent copy of everything (or of what changed after iteration ``since``) while pulls continue; updates
        wait. In an increment, ``Evicted`` chunks come first."""
        with self._locks.orders, self._locks.state.reading:
            return self._transfer.snapshot(self._iteration, since)

    def live_snapshot(self, since: int | None = None) -> LiveSnapshot:
        """The same, copied a piece at a time by whoever iterates it, while updates go on. One at a time: one that was begun before
        is copied to its end first."""
        with self._locks.orders:
            self._transfer.finish_live()
            with self._locks.state.reading:
                return self._transfer.begin_live(self._iteration, since)

    def reset(self, iteration: int) -> None:
        """After a restore: the state is of this iteration."""
        with self._locks.orders:
            self._transfer.finish_live()
            with self._locks.state.writing, self._advanced:
                self._iteration = self._promised = iteration
                self._advanced.notify_all()

    def stats(self) -> dict[str, Any]:
        """Rows, bytes, staged pushes (the queue), iteration, seconds in apply; each table's rows and bytes."""
        with self._locks.state.reading, self._locks.staging, self._locks.holding:
            tables = {
                name: {"rows": table.rows, "bytes": table.nbytes, "row_floats": table.row_floats}
                for name, table in self._catalog.tables.items()
            }
            dense = sum(block.nbytes for block in self._catalog.blocks.values())
            return {
                "iteration": self._iteration,
                "rows": sum(table["rows"] for table in tables.values()),
                "bytes": sum(table["bytes"] for table in tables.values()) + dense,
                "dense_bytes": dense,
                "tables": tables,
                "queue": len(self._staging),
                "queue_bytes": self._staging.nbytes,
                "applied": self._applied,
                "apply_seconds": self._apply_seconds,
                "evicted": self._evicted,
            }
