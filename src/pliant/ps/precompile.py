"""``python -m pliant.ps.precompile``: compile the loops of parameter servers now, not when the first job needs them.

numba compiles a loop when it is first called and keeps the result beside the source file. That takes some fifteen seconds in all,
once per machine; where the files cannot be written to (an image with a read-only file system) it would be once per process, so
images and ``make setup`` run this. It lives one small life of a store: each loop is called with the types that jobs use.
"""

from __future__ import annotations

import numpy as np

from pliant.core.parameters.orders import Contribution
from pliant.ps.compiled.memory import address_of
from pliant.ps.compiled.merging import (
    add_rows,
    checksum,
    copy_finite,
    distinct,
    group_by_seat,
    partitions_of,
    sum_by_seat,
    take_rows,
)
from pliant.ps.payloads import BlockGradient, Floats, Ids, Ownership, Push, RowGradients
from pliant.ps.specs import DenseSpec, EvictionSpec, InitializerSpec, OptimizerSpec, TableSpec
from pliant.ps.store.store import ParameterStore

_TABLE, _DIM = "rows", 4
_ROWS = 5_000  # more than a new table has room for


def compile_loops() -> None:
    ids = np.arange(_ROWS, dtype=np.int64)
    partitions_of(_TABLE, ids)
    checksum(ids.tobytes())
    grouped, counts, places = group_by_seat(_TABLE, ids, np.zeros(16, np.int32), 1)
    gradients = np.empty((ids.size, _DIM), np.float32)
    sum_by_seat(places, np.ones((ids.size, _DIM), np.float32), counts, [gradients])
    copy = np.empty_like(gradients)
    _, numbers = distinct(ids, -1)
    take_rows(numbers, gradients, copy)
    add_rows(numbers, gradients, copy)
    copy_finite(address_of(gradients), address_of(copy), copy.size)
    for optimizer in ("adam", "ftrl"):
        _live(OptimizerSpec(optimizer), grouped, gradients)


def _live(optimizer: OptimizerSpec, ids: Ids, gradients: Floats) -> None:
    store = ParameterStore(partitions=16)
    store.own(Ownership(1, np.ones(16, np.uint8)))
    store.define(TableSpec(_TABLE, _DIM, optimizer, InitializerSpec("normal"), EvictionSpec(every=1, unused_for=1)))
    store.define(DenseSpec("dense", (_DIM,), optimizer, InitializerSpec("normal")))
    for iteration in range(1, 4):
        for session in ("a", "b"):
            push = Push(
                session,
                iteration,
                rows=(RowGradients(_TABLE, ids, gradients),),
                blocks=(BlockGradient("dense", 0, gradients[0].copy()),),
            )
            store.stage(push)
        store.apply([Contribution("a", iteration, 0.5), Contribution("b", iteration, 0.5)], 1.0, iteration)
    store.pull_rows(_TABLE, ids, np.empty((ids.size, _DIM), np.float32))
    chunks = store.snapshot()
    store.drop(range(16), [("dense", 0)])
    store.import_(chunks)
    store.table(_TABLE).evict(100)
    store.table(_TABLE).remove(ids[:1])


if __name__ == "__main__":
    compile_loops()
