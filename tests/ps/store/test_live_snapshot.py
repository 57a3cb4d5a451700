"""A copy of the tables that is made while updates go on: it is the one that would have been made at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ps.conftest import DIM, ids_of, push_of, table_spec

from pliant.ps.payloads import RowBatch, StateChunk
from pliant.ps.specs import DenseSpec, EvictionSpec, OptimizerSpec
from pliant.ps.store import live_snapshot
from pliant.ps.store.store import ParameterStore

Rows = dict[int, tuple[bytes, tuple[int, int]]]


def a_store(**options: Any) -> ParameterStore:
    store = ParameterStore(partitions=8)
    store.define(table_spec("adagrad", **options))
    store.define(DenseSpec("w", (3,), OptimizerSpec("sgd", 0.1)))
    return store


def update(store: ParameterStore, sequence: int, ids: list[int]) -> None:
    gradients = np.full((len(ids), DIM), 0.5 + sequence, np.float32)
    store.apply_now(push_of("s", sequence, ids_of(*ids), gradients))


def rows_in(chunks: list[StateChunk]) -> Rows:
    """Each row once."""
    found: Rows = {}
    for chunk in chunks:
        if isinstance(chunk, RowBatch):
            for number, one in enumerate(chunk.ids.tolist()):
                assert one not in found
                first, second = chunk.counters[number].tolist()
                found[one] = chunk.data[number].tobytes(), (first, second)
    return found


MOVES = st.lists(st.one_of(st.none(), st.lists(st.integers(0, 60), min_size=1, max_size=12, unique=True)), max_size=30)


@settings(deadline=None, max_examples=60)
@given(before=MOVES, during=MOVES, between=st.booleans())
def test_whatever_is_updated_meanwhile_it_is_the_state_of_its_beginning(
    before: list[list[int] | None], during: list[list[int] | None], between: bool
) -> None:
    piece, live_snapshot.PIECE_ROWS = live_snapshot.PIECE_ROWS, 4
    try:
        store, sequence, since = a_store(), 0, None
        for ids in before:
            sequence += 1
            update(store, sequence, ids or [sequence])
            if between and sequence == len(before) // 2:
                since = store.iteration
        expected = rows_in(store.snapshot(since))
        with store.live_snapshot(since) as snapshot:
            coming, chunks = iter(snapshot), list[StateChunk]()
            for ids in during:  # None: a piece is copied
                if ids is None:
                    chunks += [one] if (one := next(coming, None)) is not None else []
                else:
                    sequence += 1
                    update(store, sequence, ids)
            chunks += coming
        assert rows_in(chunks) == expected
    finally:
        live_snapshot.PIECE_ROWS = piece


def test_what_comes_in_or_goes_is_not_mixed_into_it() -> None:
    store = a_store()
    update(store, 1, [1, 2, 3, 4, 5])
    expected = rows_in(store.snapshot())
    chunks = store.snapshot()
    with store.live_snapshot() as snapshot:
        store.drop(range(8), [])
        assert rows_in(list(snapshot)) == expected
    store.import_(chunks)
    with store.live_snapshot() as snapshot:
        store.import_(chunks)
        update(store, 2, [1, 9])
        assert rows_in(list(snapshot)) == expected


def test_a_second_one_does_not_disturb_the_first_though_nothing_changed_between() -> None:
    store = a_store()
    update(store, 1, list(range(40)))
    expected = rows_in(store.snapshot())
    with store.live_snapshot() as first, store.live_snapshot() as second:
        first_rows = rows_in(list(first))
        update(store, 2, [1, 2, 3, 70])
        assert rows_in(list(second)) == expected
        assert first_rows == expected


def test_tables_that_forget_rows_are_copied_at_its_beginning() -> None:
    store = a_store(eviction=EvictionSpec(every=1, unused_for=1))
    update(store, 1, [1, 2, 3])
    expected = rows_in(store.snapshot())
    with store.live_snapshot() as snapshot:
        for sequence in range(2, 6):
            update(store, sequence, [50])
        assert rows_in(list(snapshot)) == expected
    assert set(rows_in(store.snapshot())) == {50}


def test_one_that_nobody_reads_costs_nothing_once_it_is_closed() -> None:
    store = a_store()
    update(store, 1, [1, 2, 3])
    with store.live_snapshot() as snapshot:
        update(store, 2, [1])
    assert not list(snapshot)
    update(store, 3, [2])
    assert len(rows_in(store.snapshot())) == 3
