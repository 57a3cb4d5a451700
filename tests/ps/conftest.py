"""What the tests of parameter servers share."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tests.ps.server_cluster import VARIABLES, ServerCluster

from pliant.ps.client.connection import PsConnection
from pliant.ps.payloads import Floats, Ids, Push, RowGradients
from pliant.ps.server.server import PsServer
from pliant.ps.specs import DenseSpec, InitializerSpec, OptimizerSpec, TableSpec
from pliant.ps.store.store import ParameterStore
from pliant.testing.waiting import MAX_WAIT_S

TOKEN = "0123456789abcdef" * 4
DIM = 4


def ids_of(*values: int) -> Ids:
    return np.array(values, np.int64)


def rows_of(store: ParameterStore, table: str, ids: Ids) -> Floats:
    out = np.empty((ids.size, store.table(table).spec.dim), np.float32)
    store.pull_rows(table, ids, out)
    return out


def push_of(session: str, sequence: int, ids: Ids, gradients: Floats, *, unique: bool = False) -> Push:
    return Push(session, sequence, rows=(RowGradients("users", ids, gradients, unique),))


def table_spec(kind: str = "sgd", **fields: object) -> TableSpec:
    return TableSpec("users", DIM, OptimizerSpec(kind, 0.1), InitializerSpec("normal"), **fields)  # type: ignore[arg-type]


@pytest.fixture
def store() -> ParameterStore:
    made = ParameterStore(partitions=16)
    made.define(table_spec("adam"))
    made.define(DenseSpec("bias", (10,), OptimizerSpec("momentum", 0.1)))
    return made


@pytest.fixture
def server(store: ParameterStore) -> Iterator[PsServer]:
    made = PsServer(store, TOKEN, standalone=True)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def connection(server: PsServer) -> Iterator[PsConnection]:
    with PsConnection("127.0.0.1", server.port, TOKEN, timeout=MAX_WAIT_S) as made:
        yield made


@pytest.fixture
def cluster() -> Iterator[ServerCluster]:
    """Two servers with two variables, and a map of them."""
    made = ServerCluster(VARIABLES)
    yield made
    made.close()
