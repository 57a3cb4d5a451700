"""Which virtual partitions a server works for."""

from __future__ import annotations

import numpy as np
import pytest

from pliant.ps.compiled.merging import partitions_of
from pliant.ps.payloads import BlockGradient, Ids, Ownership, Push, RowGradients
from pliant.ps.specs import DenseSpec, TableSpec
from pliant.ps.store.partition_load import HALF_LIFE_S, MAX_IDS, MAX_REPORTED, REFRESH_S, PartitionLoad
from pliant.ps.store.store import ParameterStore
from pliant.testing import ManualClock


def load_of(partitions: int = 32) -> tuple[PartitionLoad, ManualClock]:
    clock = ManualClock(0.0)
    return PartitionLoad(partitions, clock=clock.now, sampled=1), clock


def ids_in(partition: int, count: int, partitions: int = 32) -> Ids:
    ids = np.arange(100_000, dtype=np.int64)
    return np.ascontiguousarray(ids[partitions_of("t", ids, partitions) == partition][:count])


def test_shares_are_of_floats_heaviest_first() -> None:
    load, _ = load_of()
    load.add_rows("t", ids_in(3, 10), dim=4)
    load.add_rows("t", ids_in(8, 10), dim=8)
    load.add_blocks(40)
    load.add_rows("t", np.empty(0, np.int64), dim=4)
    assert load.heaviest() == ((8, 0.5), (3, 0.25))


def test_an_idle_server_has_no_load_and_a_busy_one_reports_few_partitions() -> None:
    load, _ = load_of()
    assert load.heaviest() == ()
    few, _ = load_of(partitions=2)
    few.add_rows("t", np.arange(10, dtype=np.int64), dim=1)
    assert sum(share for _, share in few.heaviest()) == pytest.approx(1.0)
    many, clock = load_of()
    many.add_rows("t", np.arange(1000, dtype=np.int64), dim=1)
    clock.advance(REFRESH_S)
    shares = [share for _, share in many.heaviest()]
    assert len(shares) == MAX_REPORTED
    assert shares == sorted(shares, reverse=True)


def test_of_a_large_request_some_ids_stand_for_all() -> None:
    load, _ = load_of()
    ids = np.concatenate([ids_in(3, 2000), ids_in(5, 2000), ids_in(5, 2000), ids_in(5, 2000)])
    assert ids.size > MAX_IDS
    load.add_rows("t", ids, dim=4)
    assert dict(load.heaviest()) == pytest.approx({5: 0.75, 3: 0.25})


def test_old_load_fades_and_a_report_is_made_once_a_second() -> None:
    load, clock = load_of()
    load.add_rows("t", ids_in(3, 10), dim=1)
    assert load.heaviest() == ((3, 1.0),)
    load.add_rows("t", ids_in(5, 10), dim=1)
    assert load.heaviest() == ((3, 1.0),)
    clock.advance(HALF_LIFE_S)
    load.heaviest()
    load.add_rows("t", ids_in(5, 10), dim=1)
    clock.advance(REFRESH_S)
    assert dict(load.heaviest()) == pytest.approx({5: 0.75, 3: 0.25}, rel=0.01)


def test_a_store_counts_pulls_and_pushes_and_forgets_what_moved_away() -> None:
    store = ParameterStore(partitions=32)
    store.load, clock = load_of()
    store.define(TableSpec("t", 4))
    store.define(DenseSpec("w", (40,)))
    three, eight = ids_in(3, 5), ids_in(8, 10)
    store.pull_rows("t", three, np.empty((5, 4), np.float32))
    store.stage(Push("a", 1, rows=(RowGradients("t", eight, np.ones((10, 4), np.float32)),), examples=1))
    with store.blocks([("w", 0)]):
        pass
    assert store.load.heaviest() == ((8, 0.4), (3, 0.2))
    owned = np.ones(32, np.uint8)
    owned[8] = 0
    store.own(Ownership(1, owned, frozenset({("w", 0)})))
    clock.advance(REFRESH_S)
    assert dict(store.load.heaviest()) == pytest.approx({3: 1 / 3})
    store.stage(Push("a", 2, blocks=(BlockGradient("w", 0, np.ones(40, np.float32)),), examples=1))
    clock.advance(REFRESH_S)
    assert dict(store.load.heaviest()) == pytest.approx({3: 0.2}, rel=0.05)
