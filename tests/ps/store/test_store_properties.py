"""For any updates: however they are merged, and wherever rows are kept, the result is that of one process."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ps.conftest import DIM, push_of, rows_of

from pliant.core.parameters.orders import Contribution
from pliant.ps.payloads import RowBatch
from pliant.ps.specs import OPTIMIZERS, InitializerSpec, OptimizerSpec, TableSpec
from pliant.ps.store.store import ParameterStore

FEW = settings(max_examples=8, deadline=None)
IDS = 12


def store_of(kind: str) -> ParameterStore:
    store = ParameterStore(partitions=16)
    store.define(TableSpec("users", DIM, OptimizerSpec(kind, 0.1, 0.01), InitializerSpec("uniform", -1, 1)))
    return store


@pytest.mark.parametrize("kind", sorted(OPTIMIZERS))
@FEW
@given(seed=st.integers(0, 2**31), workers=st.integers(1, 4), factor=st.sampled_from([1.0, 0.5, 0.0]))
def test_contributions_in_any_order_are_one_step_on_the_whole_batch(
    kind: str, seed: int, workers: int, factor: float
) -> None:
    rng = np.random.default_rng(seed)
    apart, whole = store_of(kind), store_of(kind)
    for iteration in range(1, 4):
        examples = rng.integers(1, 9, workers)
        total: dict[int, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}
        named = []
        for worker, count in enumerate(examples):
            ids = rng.integers(0, IDS, int(rng.integers(1, 9)))
            gradients = rng.standard_normal((ids.size, DIM)).astype(np.float32)
            apart.stage(push_of(f"w{worker}", iteration, ids, gradients))
            weight = float(count / examples.sum())
            named.append(Contribution(f"w{worker}", iteration, weight))
            for row, gradient in zip(ids.tolist(), gradients, strict=True):
                total[row] = total.get(row, np.zeros(DIM)) + weight * gradient
        order = [named[at] for at in rng.permutation(workers)]
        assert apart.apply(order, 1.0, iteration, [factor]).missing == ()
        merged = np.stack(list(total.values())).astype(np.float32)
        whole.stage(push_of("one", iteration, np.array(list(total), np.int64), merged, unique=True))
        whole.apply([Contribution("one", iteration, 1.0)], 1.0, iteration, [factor])
    everything = np.arange(IDS, dtype=np.int64)
    np.testing.assert_allclose(
        rows_of(apart, "users", everything), rows_of(whole, "users", everything), rtol=2e-3, atol=2e-4
    )


@pytest.mark.e2e  # compiles much
@FEW
@given(moves=st.lists(st.tuples(st.integers(0, 2), st.sets(st.integers(0, 15), min_size=1)), max_size=6))
def test_however_partitions_move_each_row_is_in_one_place_and_as_it_was(moves: list[tuple[int, set[int]]]) -> None:
    stores = [store_of("adam") for _ in range(3)]
    ids = np.arange(300, dtype=np.int64) * 11
    stores[0].apply_now(push_of("s", 1, ids, np.ones((300, DIM), np.float32), unique=True))
    before = rows_in(stores[0])
    owner = dict.fromkeys(range(16), 0)
    for target, partitions in moves:
        for source in {owner[p] for p in partitions} - {target}:
            given_away = [p for p in sorted(partitions) if owner[p] == source]
            moved = stores[target].import_(stores[source].export(given_away, []))
            assert moved == stores[source].drop(given_away, [])
        owner |= dict.fromkeys(partitions, target)
    found = [rows_in(store) for store in stores]
    assert sum(map(len, found)) == len(before)
    assert found[0] | found[1] | found[2] == before


def rows_in(store: ParameterStore) -> dict[int, bytes]:
    out: dict[int, bytes] = {}
    for chunk in store.snapshot():
        assert isinstance(chunk, RowBatch)
        for at, row in enumerate(chunk.ids.tolist()):
            out[row] = chunk.data[at].tobytes() + chunk.counters[at].tobytes()
    return out
