"""Everything that one parameter server keeps, and the only way to change it.

The state is a function of the specs and of the orders: ``define``, ``apply``, ``import_``, ``drop``. A pull changes
nothing: the value of a row that does not exist yet is computed, and the row is made by its first update. So two stores
that executed the same orders are equal to the last bit, and a pull may be sent again without a thought.

Pushes are staged, and applied by an order that names them with weights: the gradient is the sum of weight times gradient over
the contributions, rows merged by id, then one step of the optimizer; so an order with all workers' contributions equals
one step on their common batch. Merging happens before readers are shut out; they wait only for the step itself.

Neighbours: ``server`` (requests), ``node`` (orders), ``table`` and ``dense`` (the state), ``checks`` (what is let in).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from pliant.core.errors import Conflict, InvalidRequest, Moved, NotFound
from pliant.ps import checks
from pliant.ps.dense import Block, weighted_sum
from pliant.ps.guards import ReadersWriter
from pliant.ps.merging import merge, partitions_of
from pliant.ps.pieces import (
    Applied,
    BlockGradient,
    Contribution,
    Evicted,
    Floats,
    Ids,
    Ownership,
    Piece,
    Push,
    RowBatch,
    RowGradients,
)
from pliant.ps.placement import PARTITIONS, blocks_of, key_of
from pliant.ps.specs import DenseSpec, Spec, TableSpec
from pliant.ps.staging import Staging
from pliant.ps.table import Table
from pliant.ps.turns import Turns

PART = 256 << 10  # bytes of rows that are sent while the next are looked up
Work = tuple[
    list[tuple[Table, Ids, Floats, float]],
    list[tuple[str, int, Floats, float]],
    list[BlockGradient],
]


class ParameterStore:
    """Tables and variables of one seat. Every method may be called from any thread."""

    def __init__(self, *, partitions: int = PARTITIONS) -> None:
        if not 1 <= partitions <= 65_536:
            raise InvalidRequest(f"{partitions} partitions: it must be 1 to 65536")
        self.partitions = partitions
        self._tables: dict[str, Table] = {}
        self._variables: dict[str, DenseSpec] = {}
        self._blocks: dict[tuple[str, int], Block] = {}
        self._names: dict[int, str] = {}
        self._owned = Ownership(0, np.ones(partitions, np.uint8))
        self._state = ReadersWriter()  # guards tables, blocks, iteration
        self._orders = threading.Lock()  # one change of the state at a time
        self._staging = Staging()
        self._staging_lock = threading.Lock()
        self._holding = threading.Lock()  # who holds which block's value, among readers
        self._advanced = threading.Condition()
        self._iteration = 0
        self._promised = 0  # the highest iteration that was promised to a push that is applied at once
        self._at_once: Turns[tuple[Push, int], Applied] = Turns(self._apply_promised)
        self._apply_seconds = 0.0
        self._applied = 0
        self._evicted = 0
        self._last_full = -1

    # -- what is kept

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
        """Make a table or variable. Again with the same spec: nothing happens; with another: ``Conflict``."""
        spec.check()
        with self._orders:
            there = self.spec_of(spec.name)
            if there == spec:
                return
            if there is not None:
                raise Conflict(
                    f"{spec.name!r} is already defined in another way",
                    hint="use another name, or start from an empty job directory",
                )
            key = key_of(spec.name)
            if key in self._names:
                raise Conflict(f"{spec.name!r} and {self._names[key]!r} have the same key", hint="rename one of them")
            with self._state.writing:
                if isinstance(spec, TableSpec):
                    self._tables[spec.name] = Table(spec, self.partitions)
                else:
                    self._variables[spec.name] = spec
                self._names[key] = spec.name

    def spec_of(self, name: str) -> Spec | None:
        if name in self._tables:
            return self._tables[name].spec
        return self._variables.get(name)

    def specs(self) -> tuple[Spec, ...]:
        return (*(table.spec for table in self._tables.values()), *self._variables.values())

    @property
    def names(self) -> dict[int, str]:
        """The name of each key that a request may use."""
        return self._names

    def own(self, ownership: Ownership) -> None:
        """From now on requests for anything else are answered with ``Moved``. A new store owns everything (version 0)."""
        if ownership.partitions.shape != (self.partitions,) or ownership.partitions.dtype != np.uint8:
            raise InvalidRequest(f"ownership is an array of {self.partitions} bytes, one per partition")
        self._owned = ownership

    @property
    def ownership(self) -> Ownership:
        return self._owned

    def table(self, name: str) -> Table:
        table = self._tables.get(name)
        if table is None:
            known = ", ".join(sorted(self._tables)) or "none"
            raise NotFound(f"there is no table {name!r:.200}", hint=f"tables here: {known:.500}")
        return table

    def block_length(self, variable: str, block: int) -> int:
        """Of a block that exists by the variable's spec; ``NotFound`` otherwise."""
        spec = self._variables.get(variable)
        if spec is None:
            known = ", ".join(sorted(self._variables)) or "none"
            raise NotFound(f"there is no variable {variable!r:.200}", hint=f"variables here: {known:.500}")
        blocks = blocks_of(spec.size)
        if not 0 <= block < len(blocks):
            raise NotFound(f"variable {variable!r} has {len(blocks)} blocks; there is no block {block}")
        return blocks[block][1]

    # -- pulls

    def pull(
        self,
        wanted: Sequence[tuple[str, Ids]],
        out: Sequence[Floats],
        begin: Callable[[int], None] | None = None,
        ready: Callable[[Floats], None] | None = None,
    ) -> int:
        """Rows of several tables, all of one iteration, which is returned. ``begin`` is told it once nothing can go wrong any
        more, and ``ready`` each part of ``out`` as soon as it is there; neither may wait for anything."""
        with self._state.reading:
            owned = self._owned
            for (name, ids), target in zip(wanted, out, strict=True):
                table = self.table(name)
                checks.rows_match(name, ids, target, table.spec.dim)
                checks.ids_are_good(name, ids, table.check(ids, owned.partitions), owned.map_version)
            if begin is not None:
                begin(self._iteration)
            for (name, ids), target in zip(wanted, out, strict=True):
                table = self.table(name)
                rows = max(1, PART // (4 * table.spec.dim)) if ready is not None else max(1, ids.size)
                for first in range(0, ids.size, rows):
                    part = target[first : first + rows]
                    table.read(ids[first : first + rows], part)
                    if ready is not None:
                        ready(part)
            return self._iteration

    def pull_rows(self, table: str, ids: Ids, out: Floats) -> int:
        """Write the rows of these ids into ``out`` (ids, dim). Raises ``Moved`` if one of them is not owned."""
        return self.pull([(table, ids)], [out])

    @contextmanager
    def blocks(
        self, wanted: Sequence[tuple[str, int]], have: Mapping[tuple[str, int], int] | None = None
    ) -> Iterator[tuple[int, dict[tuple[str, int], Floats]]]:
        """The iteration and the values of these blocks, without a copy and unchanging inside the ``with``: an update in
        the meantime works on a copy. Blocks that did not change after the iteration in ``have`` are left out."""
        have = have or {}
        with self._state.reading:
            owned = self._owned
            for name, number in wanted:
                self.block_length(name, number)
                if not owned.owns_block(name, number):
                    raise Moved(f"block {number} of {name!r} is elsewhere", map_version=owned.map_version)
            iteration = self._iteration
            with self._holding:
                blocks = [self._block(name, number) for name, number in wanted]
                held = [
                    (block, block.hold())
                    for block in blocks
                    if block.changed > have.get((block.spec.name, block.number), -1)
                ]
        try:
            yield iteration, {(block.spec.name, block.number): value for block, value in held}
        finally:
            with self._holding:
                for block, value in held:
                    block.let_go(value)

    def _block(self, name: str, number: int) -> Block:
        """Made on first use: what a seat does not own costs it nothing."""
        block = self._blocks.get((name, number))
        if block is None:
            self.block_length(name, number)
            block = self._blocks[(name, number)] = Block(self._variables[name], number)
        return block

    def changed_blocks(self, since: int) -> list[tuple[str, int]]:
        """Owned blocks whose value changed after this iteration."""
        with self._state.reading:
            owned = self._owned
            changed = [place for place, block in self._blocks.items() if block.changed > since]
            return [place for place in changed if owned.owns_block(*place)]

    # -- pushes

    def stage(self, push: Push) -> bool:
        """Keep a push until an order names it. Checked first: shapes, ids, NaN; a bad one changes nothing.
        False: it is already here, or its sequence number was already applied or discarded."""
        if self.knows(push):
            return False
        checks.push_is_good(push, self, self._owned)
        with self._staging_lock:
            if self._staging.knows(push):
                return False
            refused = self._staging.drop(push.session, push.void)
            self._staging.add(push)
        for one in refused:
            one.release()
        return True

    def unstage(self, push: Push) -> None:
        """Take back a push that could not be kept; its sender will send it again."""
        with self._staging_lock:
            self._staging.forget(push)

    def waiting(self) -> list[Push]:
        """What is staged."""
        with self._staging_lock:
            return list(self._staging)

    def check(self, push: Push) -> None:
        """Raise what ``stage`` would."""
        checks.push_is_good(push, self, self._owned)

    def knows(self, push: Push) -> bool:
        """It is staged, or its sequence number was already applied or discarded."""
        with self._staging_lock:
            return self._staging.knows(push)

    def apply(
        self, contributions: Sequence[Contribution], scale: float, iteration: int, factors: Sequence[float] = ()
    ) -> Applied:
        """One step of every optimizer concerned, with learning rates times ``scale`` and times the one of ``factors`` that its
        ``rate_group`` names; then the store is at ``iteration``. Staged pushes of the same sessions with lower sequence numbers
        are let go (they were not accepted)."""
        checks.order_is_good(contributions, scale, iteration, self._iteration, factors)
        return self._execute(contributions, scale, iteration, factors)

    def assign(self, contributions: Sequence[Contribution]) -> Applied:
        """Take the values of staged pushes that assign; the iteration stays what it is."""
        return self._execute(contributions, 1.0, self._iteration)

    def _execute(
        self, contributions: Sequence[Contribution], scale: float, iteration: int, factors: Sequence[float] = ()
    ) -> Applied:
        with self._orders:
            parts: list[tuple[Push, float]] = []
            missing: list[Contribution] = []
            with self._staging_lock:
                for one in contributions:
                    pushes = self._staging.get(one.session, one.sequence)
                    parts += [(push, one.weight) for push in pushes]
                    if not pushes:
                        missing.append(one)
            applied = self._apply(parts, scale, iteration, factors)
            with self._staging_lock:
                gone = [push for one in contributions for push in self._staging.settle(one.session, one.sequence)]
            for push in gone:
                push.release()
        return replace(applied, missing=tuple(missing))

    def apply_now(self, push: Push, accepted: Callable[[int], None] | None = None) -> Applied:
        """Without orders: check and apply at once as the next iteration. For loops without a master. ``accepted`` is told which
        iteration that will be as soon as nothing can be wrong with it any more: who waits for that iteration has it."""
        checks.push_is_good(push, self, self._owned)
        turn = self._at_once.enter(lambda: (push, self._promise()))
        try:
            if accepted is not None:
                accepted(turn.work[1])
        finally:
            applied = self._at_once.finish(turn)
        push.release()
        return applied

    def _promise(self) -> int:
        self._promised = max(self._promised, self._iteration) + 1
        return self._promised

    def _apply_promised(self, work: tuple[Push, int]) -> Applied:
        push, iteration = work
        with self._orders:
            return self._apply([(push, 1.0)], 1.0, iteration)

    def _apply(
        self, parts: list[tuple[Push, float]], scale: float, iteration: int, factors: Sequence[float] = ()
    ) -> Applied:
        begun = time.perf_counter()
        tables, gradients, assigned = self._merged(parts)
        rows = 0
        with self._state.writing:
            for table, ids, merged, weight in tables:
                table.update(ids, merged, weight, table.spec.scaled(scale, factors), iteration)
                rows += ids.size
            for name, number, gradient, weight in gradients:
                block = self._block(name, number)
                block.update(gradient, weight, block.spec.scaled(scale, factors), iteration)
            for value in assigned:
                self._block(value.variable, value.block).assign(value.gradient, iteration)
            if iteration > self._iteration:
                self._evicted += sum(table.evict(iteration) for table in self._tables.values())
            with self._advanced:
                self._iteration = iteration
                self._advanced.notify_all()
        seconds = time.perf_counter() - begun
        self._apply_seconds += seconds
        self._applied += 1
        return Applied(iteration, rows, seconds)

    def _merged(self, parts: list[tuple[Push, float]]) -> Work:
        """Per table and block one gradient, however many contributed."""
        by_table: dict[str, list[tuple[RowGradients, float]]] = {}
        by_block: dict[tuple[str, int], list[tuple[Floats, float]]] = {}
        assigned = []
        for push, weight in parts:
            for rows in push.rows:
                if rows.ids.size:
                    by_table.setdefault(rows.table, []).append((rows, weight))
            for block in push.blocks:
                if block.assign:
                    assigned.append(block)
                else:
                    by_block.setdefault((block.variable, block.block), []).append((block.gradient, weight))
        tables: list[tuple[Table, Ids, Floats, float]] = []
        for name, several in by_table.items():
            table = self._tables[name]
            (rows, weight) = several[0]
            if len(several) == 1 and rows.unique:
                tables.append((table, rows.ids, rows.gradients, weight))
            else:
                merged = merge([(rows.ids, rows.gradients, weight) for rows, weight in several], table.spec.dim)
                tables.append((table, *merged, 1.0))
        return tables, [(*place, *weighted_sum(several)) for place, several in by_block.items()], assigned

    def discard(self, session: str) -> int:
        """Let go of everything that a session staged; how many pushes that were."""
        with self._staging_lock:
            gone = self._staging.settle(session)
        for push in gone:
            push.release()
        return len(gone)

    def staged(self) -> list[tuple[str, int, int]]:
        """(session, sequence, part) of what is staged."""
        with self._staging_lock:
            return [(push.session, push.sequence, push.part) for push in self._staging]

    # -- state on its way elsewhere

    def export(self, partitions: Collection[int], blocks: Collection[tuple[str, int]]) -> Iterator[Piece]:
        """Copies of all rows of these partitions (of every table) and of these blocks, state and counters included. Freeze
        them first (``own``): the copies are made one after the other while other parameters go on changing."""
        for table in list(self._tables.values()):
            for partition in sorted(partitions):
                with self._state.reading:
                    batches = list(table.export([partition]))
                yield from batches
        for name, number in sorted(blocks):
            with self._state.reading, self._holding:
                state = self._block(name, number).copy()
            yield state

    def export_staged(self, partitions: Collection[int], blocks: Collection[tuple[str, int]], part: int) -> list[Push]:
        """The share of staged pushes that goes with these partitions and blocks, as copies marked with ``part``."""
        with self._staging_lock:
            shares = [self._share(push, partitions, blocks, True) for push in self._staging]
        return [replace(push, part=part, release=lambda: None) for push in shares if push.rows or push.blocks]

    def _share(
        self, push: Push, partitions: Collection[int], blocks: Collection[tuple[str, int]], inside: bool
    ) -> Push:
        chosen = np.zeros(self.partitions, bool)
        chosen[list(partitions)] = True
        rows = []
        for one in push.rows:
            mask = chosen[partitions_of(one.table, one.ids, self.partitions)] == inside
            if mask.any():
                rows.append(replace(one, ids=one.ids[mask], gradients=one.gradients[mask]))
        kept = [
            replace(one, gradient=one.gradient.copy() if inside else one.gradient)
            for one in push.blocks
            if ((one.variable, one.block) in blocks) == inside
        ]
        return replace(push, rows=tuple(rows), blocks=tuple(kept))

    def import_(self, pieces: Iterable[Piece]) -> int:
        """Take state as it is, over what is there; how many rows and blocks that were."""
        count = 0
        for piece in pieces:
            checks.piece_is_good(piece, self)
            with self._orders, self._state.writing:
                if isinstance(piece, RowBatch):
                    self._tables[piece.table].write(piece)
                    count += piece.ids.size
                elif isinstance(piece, Evicted):
                    self._tables[piece.table].remove(piece.ids)
                else:
                    self._block(piece.variable, piece.block).write(piece)
                    count += 1
        return count

    def drop(self, partitions: Collection[int], blocks: Collection[tuple[str, int]]) -> int:
        """Forget these partitions of every table and these blocks, and their share of what is staged; how many rows and
        blocks that were."""
        with self._orders:
            with self._state.writing:
                count = sum(table.drop(sorted(partitions)) for table in self._tables.values())
                with self._holding:
                    count += sum(self._blocks.pop(place, None) is not None for place in blocks)
            with self._staging_lock:
                self._staging.replace(lambda push: self._share(push, partitions, blocks, False))
        return count

    def snapshot(self, since: int | None = None) -> list[Piece]:
        """One consistent copy of all (or of what changed after iteration ``since``) while pulls go on; updates wait. Of an
        increment, ``Evicted`` pieces come first."""
        pieces: list[Piece] = []
        with self._orders, self._state.reading:
            after = -1 if since is None else since
            for table in self._tables.values():
                if since is None:
                    table.forgotten = [entry for entry in table.forgotten if entry[0] > self._last_full]
                else:
                    pieces += [Evicted(table.spec.name, ids) for at, ids in table.forgotten if at > since]
            for table in self._tables.values():
                pieces += table.export(range(self.partitions), after)
            with self._holding:
                pieces += [block.copy() for block in self._blocks.values() if since is None or block.changed > since]
            if since is None:
                self._last_full = self._iteration
        return pieces

    def reset(self, iteration: int) -> None:
        """After a restore: the state is of this iteration."""
        with self._orders, self._state.writing, self._advanced:
            self._iteration = self._promised = iteration
            self._advanced.notify_all()

    def stats(self) -> dict[str, Any]:
        """Rows, bytes, staged pushes (the queue), iteration, seconds in apply; each table's rows and bytes."""
        with self._state.reading, self._staging_lock, self._holding:
            tables = {
                name: {"rows": table.rows, "bytes": table.nbytes, "row_floats": table.row_floats}
                for name, table in self._tables.items()
            }
            dense = sum(block.nbytes for block in self._blocks.values())
            return {
                "iteration": self._iteration,
                "rows": sum(table.rows for table in self._tables.values()),
                "bytes": sum(table.nbytes for table in self._tables.values()) + dense,
                "dense_bytes": dense,
                "tables": tables,
                "queue": len(self._staging),
                "queue_bytes": self._staging.nbytes,
                "applied": self._applied,
                "apply_seconds": self._apply_seconds,
                "evicted": self._evicted,
            }
