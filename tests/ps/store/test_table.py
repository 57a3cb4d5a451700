"""A table beside a dictionary: whatever its history, its width, its partitions, and however little room it begins with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pliant.ps.payloads import Floats, Ids
from pliant.ps.placement import GOLDEN, key_of, partition_of, splitmix64
from pliant.ps.specs import EvictionSpec, InitializerSpec, OptimizerSpec, TableSpec
from pliant.ps.store import table as table_module
from pliant.ps.store.kernels import BLOCK, CHUNK
from pliant.ps.store.table import Table

NAME = "t"
EVERY, UNUSED = 3, 2
SIZES = (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 3 * BLOCK + CHUNK + 3)
_ALL_BITS = (1 << 64) - 1


def unshifted(value: int, bits: int) -> int:
    """x of value = x ^ (x >> bits)."""
    found = value
    for _ in range(64 // bits):
        found = value ^ (found >> bits)
    return found


def unmixed(hashed: int) -> int:
    """``splitmix64`` backwards."""
    value = unshifted(hashed, 31) * pow(0x94D049BB133111EB, -1, 1 << 64) & _ALL_BITS
    value = unshifted(value, 27) * pow(0xBF58476D1CE4E5B9, -1, 1 << 64) & _ALL_BITS
    return unshifted(value, 30) - GOLDEN & _ALL_BITS


def alike(upper: int, step: int) -> Iterator[int]:
    """Ids whose hashes have this upper half, so that the index cannot tell them apart, and lower ones ``step`` apart."""
    for lower in range(0, 1 << 32, step):
        row = unmixed(upper << 32 | lower) ^ key_of(NAME)
        if row < 1 << 63:
            yield row


def some_ids() -> Ids:
    same_place, same_tag = alike(0xFFFFFFFF, 7 * 256), alike(3, 1)  # in one partition of 1, 7 or 256; in any
    ids = [next(same_place) for _ in range(60)] + [next(same_tag) for _ in range(300)] + list(range(2_000))
    return np.array(ids, np.int64)


IDS = some_ids()


def test_ids_are_alike_as_they_should_be() -> None:
    assert unmixed(splitmix64(12_345)) == 12_345
    assert {splitmix64(row ^ key_of(NAME)) >> 32 for row in IDS[:60].tolist()} == {0xFFFFFFFF}
    assert len({partition_of(NAME, row, 256 * 7) for row in IDS[:60].tolist()}) == 1
    assert np.unique(IDS).size == IDS.size


@dataclass
class Row:
    value: Floats
    momentum: Floats
    updates: int = 0
    last: int = 0


@dataclass
class Reference:
    """Learning rate 1 and momentum 1/2: all numbers are exact."""

    begin: Floats
    rows: dict[int, Row] = field(default_factory=dict)

    def update(self, ids: Ids, gradients: Floats, weight: float, iteration: int) -> None:
        for row, gradient in zip(ids.tolist(), gradients, strict=True):
            found = self.rows.setdefault(row, Row(self.begin.copy(), np.zeros_like(self.begin)))
            found.momentum = found.momentum / 2 + np.float32(weight) * gradient
            found.value = found.value - found.momentum
            found.updates, found.last = found.updates + 1, iteration

    def remove(self, ids: list[int]) -> int:
        return sum(self.rows.pop(row, None) is not None for row in ids)


def check(table: Table, reference: Reference, partitions: int, order: Ids) -> None:
    assert table.rows == len(reference.rows) == sum(map(table.rows_of, range(partitions)))
    out = np.full((order.size, reference.begin.size), np.nan, np.float32)
    table.read(order, out)
    expected = [found.value if (found := reference.rows.get(row)) else reference.begin for row in order.tolist()]
    assert np.array_equal(out, np.stack(expected))
    seen = set()
    for batch in table.export(range(partitions)):
        for row, data, counters in zip(batch.ids.tolist(), batch.data, batch.counters, strict=True):
            assert row not in seen
            seen.add(row)
            found = reference.rows[row]
            assert np.array_equal(data, np.concatenate([found.value, found.momentum]))
            assert counters.tolist() == [found.updates, found.last]
    assert seen == reference.rows.keys()


@pytest.mark.parametrize("slab", [1 << 10, 32 << 20])
@given(
    dim=st.sampled_from([1, 3, 17]),
    partitions=st.sampled_from([1, 7, 256]),
    history=st.lists(
        st.tuples(st.sampled_from(["update", "update", "remove", "evict", "drop", "move"]), st.sampled_from(SIZES)),
        min_size=2,
        max_size=8,
    ),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_table_is_a_dictionary_of_rows(
    monkeypatch: pytest.MonkeyPatch, slab: int, dim: int, partitions: int, history: list[tuple[str, int]], seed: int
) -> None:
    monkeypatch.setattr(table_module, "SLAB", slab)
    random = np.random.default_rng(seed)
    optimizer, initializer = OptimizerSpec("momentum", 1.0, momentum=0.5), InitializerSpec("constant", value=3.0)
    table = Table(TableSpec(NAME, dim, optimizer, initializer, EvictionSpec(EVERY, UNUSED)), partitions)
    reference = Reference(np.full(dim, 3.0, np.float32))
    for iteration, (what, size) in enumerate(history, 1):
        ids = random.permutation(IDS)[:size].copy()
        if what == "update":
            gradients = random.integers(-8, 9, (size, dim)).astype(np.float32)
            weight = float(random.choice([1.0, 0.5]))
            table.update(ids, gradients, weight, 1.0, iteration)
            reference.update(ids, gradients, weight, iteration)
        elif what == "remove":
            assert table.remove(ids) == reference.remove(ids.tolist())
        elif what == "evict":
            turn, last = range(iteration % EVERY, partitions, EVERY), iteration - UNUSED
            old = [row for row, found in reference.rows.items() if found.last <= last]
            assert table.evict(iteration) == reference.remove(
                [row for row in old if partition_of(NAME, row, partitions) in turn]
            )
        else:
            chosen = np.flatnonzero(random.integers(0, 2, partitions)).tolist()
            there = [row for row in reference.rows if partition_of(NAME, row, partitions) in chosen]
            batches = list(table.export(chosen))
            assert table.drop(chosen) == len(there)
            if what == "drop":
                reference.remove(there)
            for batch in batches if what == "move" else ():
                table.write(batch)
        check(table, reference, partitions, random.permutation(IDS))
