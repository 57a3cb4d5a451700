"""Rows of an embedding table in this process: what the modules use where there are no parameter servers.

The table is the servers' own (``pliant.ps.store.table``), so a row starts with the same values and is updated by the same rule as
on a server. The optimizer is known with the first update; a table with other state per row is then rebuilt from its rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pliant.core.errors import InvalidRequest
from pliant.core.parameters.partition_map import DEFAULT_PARTITIONS
from pliant.ps.compiled.merging import first_not_finite
from pliant.ps.payloads import Floats, Ids, RowBatch
from pliant.ps.specs import OptimizerSpec, TableSpec
from pliant.ps.store.checks import check_ids
from pliant.ps.store.table import Table

_ALL = np.ones(DEFAULT_PARTITIONS, np.uint8)


class LocalRows:
    def __init__(self, spec: TableSpec) -> None:
        self._table = Table(spec, DEFAULT_PARTITIONS)
        self.steps = 0  # updates of the model
        self._guessed = (
            False  # the state of rows was loaded; which optimizer's it is will be known with its next update
        )

    @property
    def spec(self) -> TableSpec:
        return self._table.spec

    def __len__(self) -> int:
        return self._table.rows

    def pull(self, ids: Ids) -> Floats:
        """Of distinct ids; rows without an update so far are computed, not stored."""
        out = np.empty((ids.size, self.spec.dim), np.float32)
        check_ids(self.spec.name, ids, self._table.check(ids, _ALL), 0)
        self._table.read(ids, out)
        return out

    def step(self, optimizer: OptimizerSpec, ids: Ids | None, gradients: Floats | None) -> None:
        """One update of the model; these rows have a gradient in it."""
        self.steps += 1
        if ids is None or gradients is None or not ids.size:
            return
        bad = first_not_finite(gradients)
        if bad >= 0:
            row, value = int(ids[bad // self.spec.dim]), gradients.reshape(-1)[bad]
            raise InvalidRequest(
                f"the gradient of row {row} of table {self.spec.name!r} has {value}; the table was not changed"
            )
        if optimizer != self.spec.optimizer:
            self._learn_by(optimizer)
        self._table.update(ids, gradients, 1.0, 1.0, self.steps)
        self._table.evict(self.steps)

    def export(self) -> RowBatch:
        """All rows, sorted by id."""
        parts = list(self._table.export(range(DEFAULT_PARTITIONS)))
        ids = np.concatenate([p.ids for p in parts] or [np.empty(0, np.int64)])
        data = np.concatenate([p.data for p in parts] or [np.empty((0, self._table.row_floats), np.float32)])
        counters = np.concatenate([p.counters for p in parts] or [np.empty((0, 2), np.uint32)])
        order = np.argsort(ids)
        return RowBatch(self.spec.name, ids[order], data[order], counters[order])

    def replace(
        self, ids: Ids, values: Floats, state: Floats | None, optimizer: OptimizerSpec | None, steps: int
    ) -> None:
        """These rows and no others. Without state the optimizer starts from its initial state."""
        spec = self.spec if optimizer is None else replace(self.spec, optimizer=optimizer)
        table = Table(spec, DEFAULT_PARTITIONS)
        if ids.size:
            data = np.zeros((ids.size, table.row_floats), np.float32)
            data[:, : spec.dim] = values
            if state is not None and state.shape[1] == data.shape[1] - spec.dim:
                data[:, spec.dim :] = state
            else:
                data[:, spec.dim : 2 * spec.dim] = spec.optimizer.initial_accumulator
            counters = np.zeros((ids.size, 2), np.uint32)
            counters[:, 0], counters[:, 1] = 1, steps
            table.write(RowBatch(spec.name, ids, data, counters))
        self._table, self.steps, self._guessed = table, steps, optimizer is not None and state is not None

    def __reduce__(self) -> Any:
        """Copies and pickles have memory of their own."""
        had, dim = self.export(), self.spec.dim
        return _made, (self.spec, had.ids, had.data[:, :dim], had.data[:, dim:], self.steps)

    def _learn_by(self, optimizer: OptimizerSpec) -> None:
        now = self.spec.optimizer
        if optimizer.kind == now.kind or (self._guessed and len(optimizer.states) == len(now.states)):
            self._guessed = False
            self._table.spec = replace(self.spec, optimizer=optimizer)  # another learning rate, say
            return
        had = self.export()
        self.replace(had.ids, had.data[:, : self.spec.dim], None, optimizer, self.steps)


def _made(spec: TableSpec, ids: Ids, values: Floats, state: Floats, steps: int) -> LocalRows:
    rows = LocalRows(spec)
    rows.replace(ids, values, state, None, steps)
    return rows
