"""Validation of what comes into a store, before anything changes; the error says which table, which row and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pliant.core.errors import InvalidRequest, Moved
from pliant.core.parameters.orders import Contribution
from pliant.ps.compiled.merging import first_not_finite
from pliant.ps.payloads import Evicted, Ids, Ownership, Push, RowBatch, StateChunk
from pliant.ps.store.catalog import Catalog

MAX_IDS = 1 << 26  # in one request for one table
MAX_SESSION = 200  # characters
MAX_ITERATION = 2**32 - 2  # a row keeps it in 32 bits


def check_rows(table: str, ids: Any, rows: Any, dim: int, what: str = "the output") -> None:
    """Ids are int64 and flat, rows are float32 of (ids, dim), both contiguous."""
    _array(f"ids of table {table!r}", ids, np.int64)
    _array(f"{what} of table {table!r}", rows, np.float32)
    if ids.ndim != 1 or rows.shape != (ids.size, dim):
        raise InvalidRequest(
            f"table {table!r} has rows of {dim} floats: {ids.shape} ids need an array of ({ids.size}, {dim}) for {what}, "
            f"not {rows.shape}"
        )
    if ids.size > MAX_IDS:
        raise InvalidRequest(f"{ids.size} ids of table {table!r} in one request", hint=f"request at most {MAX_IDS}")


def _array(what: str, array: Any, kind: type) -> None:
    if not isinstance(array, np.ndarray) or array.dtype != kind:
        given = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise InvalidRequest(f"{what} must be a {np.dtype(kind)} array, not {given}")
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise InvalidRequest(f"{what} must be contiguous", hint="use numpy.ascontiguousarray")


def check_ids(table: str, ids: Ids, answer: int, map_version: int) -> None:
    """Turn the answer of ``kernels.check_ids`` into an error."""
    if answer < 0:
        place = -answer - 1
        raise InvalidRequest(
            f"id {ids[place]} (number {place}) of table {table!r} is negative", hint="ids are 0 to 2^63 - 1"
        )
    if answer > 0:
        raise Moved(f"row {ids[answer - 1]} of table {table!r} is on another server", map_version=map_version)


def check_push(push: Push, catalog: Catalog, owned: Ownership) -> None:
    if not isinstance(push.session, str) or not 0 < len(push.session) <= MAX_SESSION:
        raise InvalidRequest(f"invalid session {push.session!r:.80}")
    if push.sequence < 0 or push.part < 0 or push.examples < 0:
        raise InvalidRequest("sequence, part and examples of a push must not be negative")
    for rows in push.rows:
        table = catalog.table(rows.table)
        check_rows(rows.table, rows.ids, rows.gradients, table.spec.dim, "the gradients")
        check_ids(rows.table, rows.ids, table.check(rows.ids, owned.partitions), owned.map_version)
        if not push.finite and (bad := first_not_finite(rows.gradients)) >= 0:
            row, column = divmod(bad, table.spec.dim)
            raise InvalidRequest(
                f"the gradient of row {rows.ids[row]} of table {rows.table!r} has {rows.gradients[row, column]} "
                f"at column {column}; this push was rejected"
            )
    for block in push.blocks:
        length = catalog.block_length(block.variable, block.block)
        what = f"block {block.block} of {block.variable!r}"
        _array(what, block.gradient, np.float32)
        if block.gradient.shape != (length,):
            raise InvalidRequest(f"{what} has {length} floats, not {block.gradient.shape}")
        if not owned.owns_block(block.variable, block.block):
            raise Moved(f"{what} is on another server", map_version=owned.map_version)
        if not push.finite and (bad := first_not_finite(block.gradient)) >= 0:
            raise InvalidRequest(f"{what} has {block.gradient[bad]} at {bad}; this push was rejected")


def check_order(
    contributions: Sequence[Contribution], scale: float, iteration: int, current: int, factors: Sequence[float] = ()
) -> None:
    for number in (scale, *factors, *(one.weight for one in contributions)):
        if not math.isfinite(number) or number < 0:
            raise InvalidRequest(
                f"an order with the weight or scale {number}: it must be a finite number, not negative"
            )
    if not max(current, 1) <= iteration <= MAX_ITERATION:
        raise InvalidRequest(f"an order for iteration {iteration} at iteration {current}")
    if len({(one.session, one.sequence) for one in contributions}) != len(contributions):
        raise InvalidRequest("an order lists a contribution twice")


def check_chunk(chunk: StateChunk, catalog: Catalog) -> None:
    if isinstance(chunk, (RowBatch, Evicted)):
        table = catalog.table(chunk.table)
        _array(f"ids of table {chunk.table!r}", chunk.ids, np.int64)
        if chunk.ids.ndim != 1 or (chunk.ids.size and chunk.ids.min() < 0):
            raise InvalidRequest(f"state of table {chunk.table!r} has invalid ids")
        if isinstance(chunk, Evicted):
            return
        _array(f"state of table {chunk.table!r}", chunk.data, np.float32)
        _array(f"counters of table {chunk.table!r}", chunk.counters, np.uint32)
        if chunk.data.shape != (chunk.ids.size, table.row_floats) or chunk.counters.shape != (chunk.ids.size, 2):
            raise InvalidRequest(
                f"state of table {chunk.table!r} has the shape {chunk.data.shape}, not ({chunk.ids.size}, "
                f"{table.row_floats})",
                hint="it was written with another width or optimizer",
            )
        if first_not_finite(chunk.data) >= 0:
            raise InvalidRequest(f"state of table {chunk.table!r} has NaN or infinity")
        return
    length = catalog.block_length(chunk.variable, chunk.block)
    spec = catalog.spec_of(chunk.variable)
    assert spec is not None
    _array(f"state of {chunk.variable!r}", chunk.data, np.float32)
    if chunk.data.shape != (1 + len(spec.optimizer.states), length):
        raise InvalidRequest(
            f"state of block {chunk.block} of {chunk.variable!r} has the shape {chunk.data.shape}",
            hint="it was written with another shape or optimizer",
        )
    if first_not_finite(chunk.data) >= 0:
        raise InvalidRequest(f"state of {chunk.variable!r} has NaN or infinity")
    if not 0 <= chunk.changed <= MAX_ITERATION:
        raise InvalidRequest(f"state of {chunk.variable!r} was changed at iteration {chunk.changed}")
