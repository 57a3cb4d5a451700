"""A store beside a single process: the same numbers, whatever the order and the number of contributions."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.ps.conftest import DIM, ids_of, push_of, rows_of, table_spec

from pliant.core.errors import Conflict, InvalidRequest, Moved, NotFound, PliantError
from pliant.core.parameters.orders import Contribution
from pliant.ps.payloads import BlockGradient, Ownership, Push, RowBatch, RowGradients
from pliant.ps.specs import DenseSpec, EvictionSpec, InitializerSpec, OptimizerSpec, Spec, TableSpec
from pliant.ps.store.store import ParameterStore
from pliant.ps.store.table import Table

RNG = np.random.default_rng(7)
# normal, table users, id 5, seed 0
PINNED_ROW = (0.00910413172096014, 0.00132931733969599, -0.07353225350379944, -0.024897154420614243)


def reference(kind: str, parameter: torch.nn.Parameter) -> torch.optim.Optimizer:
    made: dict[str, object] = {
        "sgd": lambda: torch.optim.SGD([parameter], 0.1, weight_decay=0.01),
        "momentum": lambda: torch.optim.SGD([parameter], 0.1, momentum=0.9, weight_decay=0.01),
        "nesterov": lambda: torch.optim.SGD([parameter], 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        "adagrad": lambda: torch.optim.Adagrad([parameter], 0.1, eps=1e-8, weight_decay=0.01, lr_decay=0.1),
        "adam": lambda: torch.optim.Adam([parameter], 0.1, weight_decay=0.01),
        "amsgrad": lambda: torch.optim.Adam([parameter], 0.1, weight_decay=0.01, amsgrad=True),
        "adamw": lambda: torch.optim.AdamW([parameter], 0.1, weight_decay=0.01),
    }
    return made[kind]()  # type: ignore[operator, no-any-return]


def spec_like(kind: str) -> OptimizerSpec:
    decay = 0.1 if kind == "adagrad" else 0.0
    name = "adam" if kind == "adamw" else kind
    return OptimizerSpec(name, 0.1, 0.01, decoupled=kind == "adamw", learning_rate_decay=decay)


@pytest.mark.parametrize("kind", ["sgd", "momentum", "nesterov", "adagrad", "adam", "amsgrad", "adamw"])
def test_rows_and_variables_learn_as_with_torch(kind: str) -> None:
    store = ParameterStore(partitions=16)
    store.define(TableSpec("users", DIM, spec_like(kind), InitializerSpec("uniform", -1, 1)))
    store.define(DenseSpec("w", (20, DIM), spec_like(kind), InitializerSpec("normal")))
    ids = np.arange(20, dtype=np.int64)
    rows = torch.nn.Parameter(torch.from_numpy(rows_of(store, "users", ids)))
    with store.blocks([("w", 0)]) as (_, values):
        dense = torch.nn.Parameter(torch.from_numpy(values[("w", 0)].copy().reshape(20, DIM)))
    optimizers = [reference(kind, parameter) for parameter in (rows, dense)]
    for sequence in range(5):
        gradients = RNG.standard_normal((20, DIM)).astype(np.float32)
        rows.grad = torch.from_numpy(gradients)
        dense.grad = torch.from_numpy(gradients)
        for optimizer in optimizers:
            optimizer.step()
        push = push_of("s", sequence, ids, gradients, unique=True)
        block = BlockGradient("w", 0, gradients.reshape(-1))
        store.apply_now(Push("s", sequence, rows=push.rows, blocks=(block,)))
    np.testing.assert_allclose(rows_of(store, "users", ids), rows.detach().numpy(), rtol=2e-5, atol=2e-6)
    with store.blocks([("w", 0)]) as (iteration, values):
        assert iteration == 5
        np.testing.assert_allclose(values[("w", 0)], dense.detach().numpy().reshape(-1), rtol=2e-5, atol=2e-6)


def test_ftrl_follows_its_formula() -> None:
    spec = OptimizerSpec("ftrl", 0.5, l1=0.01, l2=0.1, beta=0.2, initial_accumulator=0.1)
    store = ParameterStore()
    store.define(TableSpec("users", DIM, spec, InitializerSpec("constant", value=0.3)))
    value, n, z = np.full(DIM, 0.3), np.full(DIM, 0.1), np.zeros(DIM)
    for sequence in range(5):
        gradient = RNG.standard_normal((1, DIM)).astype(np.float32)
        store.apply_now(push_of("s", sequence, ids_of(3), gradient))
        g = gradient[0].astype(np.float64)
        sigma = (np.sqrt(n + g * g) - np.sqrt(n)) / 0.5
        z += g - sigma * value
        n += g * g
        value = np.where(abs(z) > 0.01, (np.sign(z) * 0.01 - z) / ((0.2 + np.sqrt(n)) / 0.5 + 2 * 0.1), 0)
    np.testing.assert_allclose(rows_of(store, "users", ids_of(3))[0], value, rtol=1e-5)


def test_one_order_of_several_contributions_is_one_step_on_the_whole_batch(store: ParameterStore) -> None:
    whole = ParameterStore(partitions=16)
    for spec in store.specs():
        whole.define(spec)
    for iteration in range(1, 4):
        total: dict[int, np.ndarray[tuple[int], np.dtype[np.float32]]] = {}
        weights = (0.5, 0.3, 0.2)
        contributions = []
        for worker, weight in enumerate(weights):
            ids = RNG.integers(0, 12, 9)
            gradients = RNG.standard_normal((9, DIM)).astype(np.float32)
            assert store.stage(push_of(f"w{worker}", iteration, ids, gradients))
            contributions.append(Contribution(f"w{worker}", iteration, weight))
            for i, gradient in zip(ids.tolist(), gradients, strict=True):
                total[i] = total.get(i, np.zeros(DIM, np.float32)) + np.float32(weight) * gradient
        applied = store.apply(contributions[::-1], 1.0, iteration)
        assert (applied.iteration, applied.rows, applied.missing) == (iteration, len(total), ())
        merged = np.stack(list(total.values()))
        whole.apply_now(push_of("one", iteration, np.array(list(total), np.int64), merged, unique=True))
    everything = np.arange(12, dtype=np.int64)
    np.testing.assert_allclose(
        rows_of(store, "users", everything), rows_of(whole, "users", everything), rtol=1e-4, atol=1e-6
    )
    assert store.stats()["queue"] == 0


def test_the_value_of_a_new_row_depends_on_table_id_and_seed_only() -> None:
    one, other, seeded = ParameterStore(partitions=16), ParameterStore(partitions=100), ParameterStore()
    for store, seed in ((one, 0), (other, 0), (seeded, 1)):
        store.define(table_spec(seed=seed))
    ids = ids_of(5, 1, 2**62)
    rows = rows_of(one, "users", ids)
    assert (rows == rows_of(other, "users", ids[::-1].copy())[::-1]).all()
    assert (rows != rows_of(seeded, "users", ids)).all()
    np.testing.assert_array_equal(
        rows[0],
        np.array(PINNED_ROW, np.float32),
    )
    assert one.stats()["rows"] == 0  # reading makes no rows
    many = rows_of(one, "users", np.arange(5000, dtype=np.int64))
    assert abs(many.mean()) < 0.002
    assert abs(many.std() - 0.05) < 0.002


def nan_row(place: float) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    gradients = np.ones((3, DIM), np.float32)
    gradients[2, 1] = place
    return gradients


BAD_PUSHES: dict[str, tuple[Push, type[PliantError], str]] = {
    "NaN": (push_of("s", 1, ids_of(1, 2, 3), nan_row(float("nan"))), InvalidRequest, "row 3 .* nan at column 1"),
    "infinity": (push_of("s", 1, ids_of(1, 2, 3), nan_row(float("-inf"))), InvalidRequest, "-inf"),
    "a negative id": (push_of("s", 1, ids_of(1, -2), np.ones((2, DIM), np.float32)), InvalidRequest, "negative"),
    "a wrong width": (push_of("s", 1, ids_of(1), np.ones((1, DIM + 1), np.float32)), InvalidRequest, "rows of 4"),
    "too few rows": (push_of("s", 1, ids_of(1, 2), np.ones((1, DIM), np.float32)), InvalidRequest, "2 ids|need"),
    "doubles": (push_of("s", 1, ids_of(1), np.ones((1, DIM))), InvalidRequest, "float32"),  # type: ignore[arg-type]
    "ids of 32 bits": (
        push_of("s", 1, np.ones(1, np.int32), np.ones((1, DIM), np.float32)),
        InvalidRequest,
        "int64",
    ),
    "no such table": (
        Push("s", 1, rows=(RowGradients("nope", ids_of(1), np.ones((1, DIM), np.float32)),)),
        NotFound,
        "table 'nope' not found",
    ),
    "no such variable": (
        Push("s", 1, blocks=(BlockGradient("w", 0, np.ones(10, np.float32)),)),
        NotFound,
        "variable .w. not found",
    ),
    "no such block": (
        Push("s", 1, blocks=(BlockGradient("bias", 1, np.ones(10, np.float32)),)),
        NotFound,
        "block 1 does not exist",
    ),
    "a short block": (
        Push("s", 1, blocks=(BlockGradient("bias", 0, np.ones(9, np.float32)),)),
        InvalidRequest,
        "10 floats",
    ),
    "NaN in a block": (
        Push("s", 1, blocks=(BlockGradient("bias", 0, np.full(10, np.nan, np.float32)),)),
        InvalidRequest,
        "nan at 0",
    ),
    "no session": (Push("", 1), InvalidRequest, "session"),
}


@pytest.mark.parametrize("name", BAD_PUSHES)
def test_a_bad_push_is_refused_and_changes_nothing(store: ParameterStore, name: str) -> None:
    push, kind, text = BAD_PUSHES[name]
    store.apply_now(push_of("s", 0, ids_of(1, 2), np.ones((2, DIM), np.float32)))
    ids = np.arange(10, dtype=np.int64)
    before = (rows_of(store, "users", ids).tobytes(), store.stats()["rows"], store.iteration)
    good = RowGradients("users", ids_of(8), np.ones((1, DIM), np.float32))
    mixed = Push(push.session, push.sequence, rows=(good, *push.rows), blocks=push.blocks)
    for attempt in (store.stage, store.apply_now):
        with pytest.raises(kind, match=text):
            attempt(mixed)
    assert store.staged() == []
    assert (rows_of(store, "users", ids).tobytes(), store.stats()["rows"], store.iteration) == before


def test_a_spec_is_defined_once(store: ParameterStore) -> None:
    store.define(table_spec("adam"))
    with pytest.raises(Conflict):
        store.define(table_spec("sgd"))
    with pytest.raises(Conflict):
        store.define(DenseSpec("users", (3,)))


def test_a_push_is_staged_once_and_applied_once(store: ParameterStore) -> None:
    released = []
    gradients = np.ones((1, DIM), np.float32)
    rows = push_of("s", 3, ids_of(1), gradients).rows
    assert store.stage(Push("s", 2, rows=rows, release=lambda: released.append(2)))
    assert store.stage(Push("s", 3, rows=rows, release=lambda: released.append(3)))
    assert not store.stage(Push("s", 3, rows=rows))
    store.apply([Contribution("s", 3, 1.0)], 1.0, 1)
    assert sorted(released) == [2, 3]
    assert not store.stage(Push("s", 3, rows=rows))  # a late copy
    assert store.staged() == []
    assert store.apply([Contribution("s", 4, 1.0)], 1.0, 2).missing == (Contribution("s", 4, 1.0),)
    store.stage(Push("t", 9, rows=rows))
    assert store.discard("t") == 1
    assert store.staged() == []


def test_an_order_that_makes_no_sense_is_refused(store: ParameterStore) -> None:
    store.apply([], 1.0, 5)
    for contributions, scale, iteration in (
        ([], 1.0, 4),
        ([], float("nan"), 6),
        ([Contribution("s", 1, -1.0)], 1.0, 6),
        ([Contribution("s", 1, 1.0)] * 2, 1.0, 6),
    ):
        with pytest.raises(InvalidRequest):
            store.apply(contributions, scale, iteration)
    assert store.iteration == 5


def test_the_learning_rate_can_be_scaled() -> None:
    store = ParameterStore()
    store.define(DenseSpec("w", (2,), OptimizerSpec("sgd", 0.1)))
    store.stage(Push("s", 1, blocks=(BlockGradient("w", 0, np.ones(2, np.float32)),)))
    store.apply([Contribution("s", 1, 1.0)], 0.5, 1)
    with store.blocks([("w", 0)]) as (_, values):
        np.testing.assert_allclose(values[("w", 0)], -0.05)


def test_a_value_that_is_being_sent_does_not_change() -> None:
    store = ParameterStore()
    store.define(DenseSpec("w", (2,), OptimizerSpec("sgd", 1.0)))
    push = Push("s", 1, blocks=(BlockGradient("w", 0, np.ones(2, np.float32)),))
    with store.blocks([("w", 0)]) as (_, first):
        store.apply_now(push)
        with store.blocks([("w", 0)]) as (_, second):
            store.apply_now(push)
            assert first[("w", 0)].tolist() == [0, 0]
            assert second[("w", 0)].tolist() == [-1, -1]
    with store.blocks([("w", 0)]) as (_, third):
        assert third[("w", 0)].tolist() == [-2, -2]
    with store.blocks([("w", 0)], {("w", 0): 2}) as (_, nothing):
        assert nothing == {}


def test_a_variable_can_be_assigned(store: ParameterStore) -> None:
    values = np.arange(10, dtype=np.float32)
    store.stage(Push("s", 1, blocks=(BlockGradient("bias", 0, values, assign=True),)))
    store.apply([Contribution("s", 1, 1.0)], 1.0, 1)
    with store.blocks([("bias", 0)]) as (_, found):
        assert (found[("bias", 0)] == values).all()


def test_first_values_do_not_settle_gradients_that_were_staged_before_them(store: ParameterStore) -> None:
    """They may be undecided: a worker with a window of pushes gives another variable its first values."""
    released = []
    rows = push_of("s", 1, ids_of(1), np.ones((1, DIM), np.float32)).rows
    values = np.arange(10, dtype=np.float32)
    store.stage(Push("s", 1, rows=rows))
    blocks = (BlockGradient("bias", 0, values, assign=True),)
    store.stage(Push("s", 2, blocks=blocks, release=lambda: released.append(2)))
    assert store.assign([Contribution("s", 2, 1.0)]).missing == ()
    assert released == [2]
    assert store.apply([Contribution("s", 1, 1.0)], 1.0, 1).missing == ()


def test_what_is_not_owned_is_redirected(store: ParameterStore) -> None:
    owned = np.zeros(16, np.uint8)
    store.own(Ownership(7, owned, frozenset()))
    with pytest.raises(Moved) as error:
        rows_of(store, "users", ids_of(1))
    assert error.value.map_version == 7
    with pytest.raises(Moved):
        store.stage(push_of("s", 1, ids_of(1), np.ones((1, DIM), np.float32)))
    with pytest.raises(Moved), store.blocks([("bias", 0)]):
        pass


def filled(rows: int, spec: Spec | None = None) -> ParameterStore:
    store = ParameterStore(partitions=16)
    store.define(spec or table_spec("adam"))
    store.define(DenseSpec("bias", (10,), OptimizerSpec("adam", 0.1)))
    ids = np.arange(rows, dtype=np.int64) * 7
    for iteration in range(2):
        gradients = RNG.standard_normal((rows, DIM)).astype(np.float32)
        block = BlockGradient("bias", 0, np.ones(10, np.float32))
        rows_pushed = push_of("s", iteration, ids, gradients, unique=True).rows
        store.apply_now(Push("s", iteration, rows=rows_pushed, blocks=(block,)))
    return store


def everything(store: ParameterStore) -> dict[object, bytes]:
    found: dict[object, bytes] = {}
    for chunk in store.snapshot():
        if isinstance(chunk, RowBatch):
            for i, data, counters in zip(chunk.ids.tolist(), chunk.data, chunk.counters, strict=True):
                assert (chunk.table, i) not in found
                found[(chunk.table, i)] = data.tobytes() + counters.tobytes()
        else:
            assert not hasattr(chunk, "ids")
            found[(chunk.variable, chunk.block, "block")] = chunk.data.tobytes()
    return found


@pytest.mark.e2e  # compiles much
def test_partitions_move_whole_and_once() -> None:
    one, other = filled(3000), ParameterStore(partitions=16)
    for spec in one.specs():
        other.define(spec)
    before = everything(one)
    assert other.import_(one.export(range(8), [("bias", 0)])) == one.drop(range(8), [("bias", 0)])
    left, right = everything(one), everything(other)
    assert {**left, **right} == before
    assert not left.keys() & right.keys()
    other.import_(one.export(range(8, 16), []))
    one.drop(range(8, 16), [])
    assert everything(other) == before
    assert one.stats()["rows"] == 0


@pytest.mark.e2e  # compiles much
def test_staged_gradients_move_with_their_rows() -> None:
    alone, one, other = filled(0), filled(0), filled(0)
    ids = np.arange(100, dtype=np.int64)
    gradients = RNG.standard_normal((100, DIM)).astype(np.float32)
    alone.stage(push_of("w", 9, ids, gradients))
    one.stage(push_of("w", 9, ids, gradients))
    for push in one.export_staged(range(8), [], part=1):
        assert other.stage(push)
    one.drop(range(8), [])
    for store in (alone, one, other):
        store.apply([Contribution("w", 9, 1.0)], 1.0, 3)
    other.drop([], [("bias", 0)])
    assert {**everything(one), **everything(other)} == everything(alone)


@pytest.mark.e2e  # compiles much
def test_an_increment_over_a_full_copy_is_the_state() -> None:
    store = filled(500, table_spec("sgd", eviction=EvictionSpec(every=1, unused_for=3)))
    full, at = store.snapshot(), store.iteration
    for sequence in range(2, 6):
        ids = RNG.integers(0, 5000, 50)
        store.apply_now(push_of("s", sequence, ids, np.ones((50, DIM), np.float32)))
    restored = ParameterStore(partitions=32)
    for spec in store.specs():
        restored.define(spec)
    restored.import_(full)
    restored.import_(store.snapshot(since=at))
    restored.reset(store.iteration)
    assert store.stats()["evicted"] > 0
    assert everything(restored) == everything(store)
    assert restored.iteration == store.iteration


@pytest.mark.e2e  # compiles much
def test_rows_that_nobody_uses_are_forgotten() -> None:
    store = ParameterStore(partitions=16)
    store.define(table_spec(eviction=EvictionSpec(every=2, unused_for=4, less_than=3)))
    one = np.ones((1, DIM), np.float32)
    for sequence in range(3):  # three updates: it stays
        store.apply_now(push_of("s", sequence, ids_of(1), one))
    store.apply_now(push_of("s", 3, ids_of(2), one))  # one update: it goes
    fresh = rows_of(ParameterStoreWith(store.specs()), "users", ids_of(2))
    for sequence in range(4, 12):
        store.apply_now(push_of("s", sequence, ids_of(3), one))
    assert store.stats()["rows"] == 2
    assert (rows_of(store, "users", ids_of(2)) == fresh).all()
    assert store.stats()["evicted"] == 1


def ParameterStoreWith(specs: tuple[Spec, ...]) -> ParameterStore:
    store = ParameterStore(partitions=16)
    for spec in specs:
        store.define(spec)
    return store


@given(
    st.lists(st.tuples(st.sampled_from(("update", "remove")), st.integers(0, 1500), st.integers(1, 1200)), max_size=8)
)
def test_a_table_holds_what_a_dictionary_of_rows_would(history: list[tuple[str, int, int]]) -> None:
    table = Table(TableSpec("t", 2, OptimizerSpec("sgd", 1.0), InitializerSpec("constant", value=3.0)), 4)
    rows: dict[int, float] = {}
    for what, first, count in history:  # more than one block, and parts of chunks
        ids = np.arange(first, first + count, dtype=np.int64)[::-1].copy()
        if what == "update":
            table.update(ids, np.repeat(ids.astype(np.float32), 2).reshape(-1, 2), -1.0, 1.0, 1)
            rows.update({row: rows.get(row, 3.0) + row for row in ids.tolist()})
        else:
            assert table.remove(ids) == sum(rows.pop(row, None) is not None for row in ids.tolist())
    probe = np.arange(2800, dtype=np.int64)
    out = np.empty((probe.size, 2), np.float32)
    table.read(probe, out)
    assert table.rows == len(rows)
    assert np.array_equal(out[:, 0], [rows.get(row, 3.0) for row in range(probe.size)])
    assert np.array_equal(out[:, 0], out[:, 1])


def test_memory_per_row_is_little_more_than_its_floats() -> None:
    store = ParameterStore()
    store.define(TableSpec("users", 64, OptimizerSpec("sgd")))
    for first in range(0, 40_000, 10_000):
        ids = np.arange(first, first + 10_000, dtype=np.int64)
        store.apply_now(push_of("s", first, ids, np.zeros((10_000, 64), np.float32), unique=True))
        stats = store.stats()["tables"]["users"]
        if first:
            assert stats["bytes"] <= 1.3 * stats["rows"] * stats["row_floats"] * 4


def test_who_reads_sees_one_iteration_while_others_write(store: ParameterStore) -> None:
    sums = ParameterStore()
    sums.define(TableSpec("users", DIM, OptimizerSpec("sgd", 1.0)))
    ids = np.arange(200, dtype=np.int64)
    push = push_of("s", 1, ids, np.ones((200, DIM), np.float32), unique=True)
    done = threading.Event()

    def write() -> None:
        for _ in range(100):
            sums.apply_now(push)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen: list[float] = []
    while not done.is_set() or not seen:
        rows = rows_of(sums, "users", ids)
        assert (rows == rows[0, 0]).all()
        seen.append(float(rows[0, 0]))
    writer.join()
    assert seen == sorted(seen, reverse=True)


def test_a_push_that_comes_after_its_session_was_discarded_is_not_kept(store: ParameterStore) -> None:
    one = np.ones((1, DIM), np.float32)
    store.stage(push_of("s", 1, ids_of(1), one))
    assert store.discard("s") == 1
    assert not store.stage(push_of("s", 2, ids_of(1), one))
    assert not store.staged()
    assert store.stage(push_of("t", 2, ids_of(1), one))
