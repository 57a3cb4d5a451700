"""Gradients of rows on their way to several servers, some of which share memory with the client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.ps.conftest import TOKEN

from pliant.core.parameters.partition_map import DEFAULT_PARTITIONS
from pliant.ps.client.connection import PsConnection
from pliant.ps.client.push_buffers import OutgoingRows, RowBuffers
from pliant.ps.compiled.merging import partitions_of
from pliant.ps.payloads import Floats, Ids, Push
from pliant.ps.server.server import PsServer
from pliant.ps.specs import InitializerSpec, OptimizerSpec, TableSpec
from pliant.ps.store.store import ParameterStore

SEATS = 3
TABLES = {"users": 3, "items": 4}  # name: width; rows of odd widths need padding
ALONE = 2  # the place of a server that shares no memory, as if it were on another machine


class Cluster:
    def __init__(self, stack: ExitStack) -> None:
        self.stores = []
        self.connections = []
        self.kept = RowBuffers()
        self.sequence = 0
        self.owner = (np.arange(DEFAULT_PARTITIONS) % SEATS).astype(np.int32)
        for place in range(SEATS):
            store = ParameterStore()
            for name, dim in TABLES.items():
                store.define(TableSpec(name, dim, OptimizerSpec("sgd", 1.0), InitializerSpec("zeros")))
            server = PsServer(store, TOKEN, standalone=True)
            server.start()
            stack.callback(server.stop)
            connection = stack.enter_context(PsConnection("127.0.0.1", server.port, TOKEN))
            if place == ALONE:
                connection._socket.local = False
            self.stores.append(store)
            self.connections.append(connection)

    def push(self, rows: dict[str, tuple[Ids, Floats]]) -> None:
        outgoing = OutgoingRows(self.owner, SEATS, self.connections.__getitem__, self.kept)
        for table, (ids, gradients) in rows.items():
            outgoing.add(table, ids, gradients)
        self.sequence += 1
        for place, several in outgoing.by_server.items():
            push = Push("s", self.sequence, rows=tuple(several))
            iteration = self.connections[place].push(push, apply_now=True)
            assert self.stores[place].wait_for(iteration, 30)

    def values(self, table: str, ids: Ids) -> Floats:
        """As their servers have them; others have made none of them."""
        owners = self.owner[partitions_of(table, ids)]
        out = np.empty((ids.size, TABLES[table]), np.float32)
        for place, store in enumerate(self.stores):
            mine = owners == place
            part = np.empty((int(mine.sum()), TABLES[table]), np.float32)
            store.pull_rows(table, ids[mine], part)
            out[mine] = part
        return out


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(stack)


@given(
    sizes=st.fixed_dictionaries({name: st.sampled_from([0, 1, 7, 400, 5_000, 40_000]) for name in TABLES}),
    few=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_servers_get_the_sum_of_each_rows_gradients(
    cluster: Cluster, sizes: dict[str, int], few: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    rows = {}
    for table, size in sizes.items():
        ids = random.integers(0, 50 if few else 1 << 40, size)
        rows[table] = (ids, random.integers(-8, 9, (size, TABLES[table])).astype(np.float32))
    distinct = {table: np.unique(ids, return_inverse=True) for table, (ids, _) in rows.items()}
    expected = {table: cluster.values(table, ids) for table, (ids, _) in distinct.items()}
    cluster.push(rows)
    for table, (ids, numbers) in distinct.items():
        np.subtract.at(expected[table], numbers, rows[table][1])
        assert np.array_equal(cluster.values(table, ids), expected[table])


def test_what_is_shared_is_made_where_it_is_sent_from(cluster: Cluster) -> None:
    ids = np.arange(30_000, dtype=np.int64)
    ones = np.ones((ids.size, 4), np.float32)
    cluster.push({"items": (ids, ones)})
    outgoing = OutgoingRows(cluster.owner, SEATS, cluster.connections.__getitem__, cluster.kept)
    outgoing.add("items", ids, ones)
    shared = {
        place: (region := cluster.connections[place]._region) is not None
        and np.shares_memory(rows[0].gradients, region.to_server)
        for place, rows in outgoing.by_server.items()
    }
    assert shared == {place: place != ALONE for place in range(SEATS)}
