"""A client of the servers of a test, which says with ``cluster`` which these are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.ps.server_cluster import ServerCluster

from pliant.ps.client.client import PsClient
from pliant.testing.waiting import MAX_WAIT_S


@pytest.fixture
def client(cluster: ServerCluster) -> Iterator[PsClient]:
    made = PsClient(cluster, retry_timeout=MAX_WAIT_S)
    yield made
    made.close()
