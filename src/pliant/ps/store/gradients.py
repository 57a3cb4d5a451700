"""The gradients of several contributions, merged into one per table and block.

The gradient of an order is the sum of weight times gradient over its contributions, rows merged by id; so an order with the
contributions of all workers equals one step on their common batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from pliant.ps.compiled.merging import add_scaled, merge
from pliant.ps.payloads import BlockGradient, Floats, Ids, Push, RowGradients
from pliant.ps.store.table import Table


class TableGradient(NamedTuple):
    table: Table
    ids: Ids  # distinct
    gradients: Floats
    weight: float  # that they still have to be taken with


class DenseGradient(NamedTuple):
    variable: str
    block: int
    gradient: Floats
    weight: float


class MergedGradients(NamedTuple):
    tables: list[TableGradient]
    blocks: list[DenseGradient]
    assigned: list[BlockGradient]  # first values


def merged_gradients(weighted: Iterable[tuple[Push, float]], tables: Mapping[str, Table]) -> MergedGradients:
    by_table: dict[str, list[tuple[RowGradients, float]]] = {}
    by_block: dict[tuple[str, int], list[tuple[Floats, float]]] = {}
    assigned = []
    for push, weight in weighted:
        for rows in push.rows:
            if rows.ids.size:
                by_table.setdefault(rows.table, []).append((rows, weight))
        for block in push.blocks:
            if block.assign:
                assigned.append(block)
            else:
                by_block.setdefault((block.variable, block.block), []).append((block.gradient, weight))
    merged_tables: list[TableGradient] = []
    for name, several in by_table.items():
        table = tables[name]
        (rows, weight) = several[0]
        if len(several) == 1 and rows.unique:
            merged_tables.append(TableGradient(table, rows.ids, rows.gradients, weight))
        else:
            ids, gradients = merge([(rows.ids, rows.gradients, weight) for rows, weight in several], table.spec.dim)
            merged_tables.append(TableGradient(table, ids, gradients, 1.0))
    blocks = [DenseGradient(*key, *weighted_sum(several)) for key, several in by_block.items()]
    return MergedGradients(merged_tables, blocks, assigned)


def weighted_sum(parts: list[tuple[Floats, float]]) -> tuple[Floats, float]:
    """One gradient and the weight that it still has to be taken with."""
    if len(parts) == 1:
        return parts[0]
    total = np.zeros_like(parts[0][0])
    for gradient, weight in parts:
        add_scaled(total, gradient, weight)
    return total, 1.0
