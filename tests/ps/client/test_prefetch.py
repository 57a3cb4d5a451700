"""Rows that are fetched while something else is computed: what becomes of those that do not come."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

import numpy as np
import pytest
from tests.ps.server_cluster import RULE, ZERO, ServerCluster

from pliant.core.errors import NotFound
from pliant.ps.client.client import PsClient
from pliant.ps.specs import TableSpec
from pliant.testing.waiting import MAX_WAIT_S

IDS = np.arange(5)


@pytest.fixture
def cluster() -> Iterator[ServerCluster]:
    made = ServerCluster([], servers=1, sync=False, tables=[TableSpec("users", 4, RULE, ZERO)])
    yield made
    made.close()


@pytest.fixture
def client(cluster: ServerCluster) -> Iterator[PsClient]:
    made = PsClient(cluster, retry_timeout=60)
    yield made
    made.close()


def test_an_error_is_of_what_was_asked_for_and_of_nothing_else(client: PsClient) -> None:
    prefetcher = client.ahead()
    wrong, right = prefetcher.ask({"nobody": IDS}), prefetcher.ask({"users": IDS})
    with pytest.raises(NotFound, match="nobody"):
        wrong.result(MAX_WAIT_S)
    assert right.result(MAX_WAIT_S).rows["users"].shape == (5, 4)
    prefetcher.close()


def test_what_servers_that_are_away_were_asked_for_is_cancelled_at_once(
    cluster: ServerCluster, client: PsClient
) -> None:
    prefetcher = client.ahead()
    assert prefetcher.ask({"users": IDS}).result(MAX_WAIT_S).rows["users"].shape == (5, 4)
    real, away = cluster.master.stubs.parameters.GetMap, threading.Event()

    def get_map(request: Any) -> Any:
        away.set()
        return real(request)

    cluster.master.stubs.parameters.GetMap = get_map
    cluster.servers[0].stop()
    asked = [prefetcher.ask({"users": IDS}) for _ in range(3)]
    assert away.wait(MAX_WAIT_S)
    prefetcher.close()
    assert not prefetcher._thread.is_alive()
    for rows in (*asked, prefetcher.ask({"users": IDS})):
        with pytest.raises(CancelledError):
            rows.result(0)
