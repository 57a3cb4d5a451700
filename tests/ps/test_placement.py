"""Where a parameter belongs never changes: these values are promises to dumps and to other releases."""

from __future__ import annotations

import numpy as np
import pytest

from pliant.core.errors import InvalidRequest
from pliant.core.parameters.partition_map import MAX_BLOCK_FLOATS as BLOCK
from pliant.ps.compiled.merging import group_by_seat, partitions_of, sum_by_seat
from pliant.ps.placement import blocks_of, key_of, partition_of, splitmix64
from pliant.ps.specs import DenseSpec, EvictionSpec, InitializerSpec, OptimizerSpec, TableSpec, spec_from_json


def test_the_hash_is_splitmix64() -> None:
    assert splitmix64(0) == 0xE220A8397B1DCDAF
    assert splitmix64(0x9E3779B97F4A7C15) == 0x6E789E6AA1B965F4


def test_keys_and_partitions_are_pinned() -> None:
    assert (key_of("users"), key_of("items")) == (0x49E2979EAD89B16A, 0xAECFE918AC59DA10)
    assert [partition_of("users", row) for row in (0, 1, 2, 12345, 2**63 - 1)] == [19, 145, 22, 141, 239]
    assert [partition_of("items", row) for row in (0, 1, 2, 12345, 2**63 - 1)] == [206, 129, 76, 235, 174]


def test_the_compiled_hash_is_the_same() -> None:
    ids = np.random.default_rng(0).integers(0, 2**63 - 1, 1000)
    for partitions in (256, 100):
        assert partitions_of("users", ids, partitions).tolist() == [
            partition_of("users", int(i), partitions) for i in ids
        ]


def test_blocks_cover_a_variable_once() -> None:
    assert blocks_of(1) == [(0, 1)]
    assert blocks_of(2 * BLOCK + 1) == [(0, BLOCK), (BLOCK, BLOCK), (2 * BLOCK, 1)]


def test_ids_are_grouped_by_seat_without_repetition_and_gradients_follow_them() -> None:
    ids = np.array([7, 3, 7, 9, 3, 7, 11], np.int64)
    owner = (np.arange(256) % 3).astype(np.int32)
    grouped, counts, places = group_by_seat("users", ids, owner, 3)
    assert sorted(grouped.tolist()) == [3, 7, 9, 11]
    assert (grouped[places] == ids).all()
    seats = [partition_of("users", int(i)) % 3 for i in grouped]
    assert seats == sorted(seats)
    assert counts.tolist() == [seats.count(seat) for seat in range(3)]
    summed = [np.full((count, 2), np.nan, np.float32) for count in counts]
    sum_by_seat(places, np.ones((7, 2), np.float32), counts, summed)
    totals = np.concatenate(summed)[:, 0].tolist()
    assert dict(zip(grouped.tolist(), totals, strict=True)) == {3: 2, 7: 3, 9: 1, 11: 1}


def test_specs_survive_json() -> None:
    table = TableSpec("t", 8, OptimizerSpec("ftrl", l1=0.5), InitializerSpec("xavier"), EvictionSpec(10, 5, 2), 3)
    dense = DenseSpec("w", (2, 3), OptimizerSpec("adam", decoupled=True))
    assert [spec_from_json(spec.to_json()) for spec in (table, dense)] == [table, dense]


@pytest.mark.parametrize(
    "value",
    [
        {"name": "t", "dim": 0},
        {"name": "", "dim": 4},
        {"name": "t", "dim": "4"},
        {"name": "t", "dim": 4, "optimizer": {"kind": "magic"}},
        {"name": "t", "dim": 4, "optimizer": {"learning_rate": float("nan")}},
        {"name": "t", "dim": 4, "optimizer": {"momentum": 1.0, "kind": "momentum"}},
        {"name": "t", "dim": 4, "initializer": {"kind": "uniform", "low": 1, "high": 0}},
        {"name": "t", "dim": 4, "eviction": {"every": 5}},
        {"name": "t", "dim": 4, "colour": "red"},
        {"name": "w", "shape": [0]},
        {"name": "w", "shape": 3},
        {"name": "w", "shape": [-1, 2]},
        {"dim": 4},
        [],
        None,
    ],
)
def test_a_bad_spec_is_refused(value: object) -> None:
    with pytest.raises(InvalidRequest):
        spec_from_json(value)
