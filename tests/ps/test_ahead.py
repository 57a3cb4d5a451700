"""Rows that are fetched while something else is computed: what becomes of those that do not come."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

import numpy as np
import pytest
from tests.ps.crew import RULE, ZERO, Crew

from pliant.core.errors import NotFound
from pliant.ps.client import PsClient
from pliant.ps.specs import TableSpec

IDS = np.arange(5)


@pytest.fixture
def crew() -> Iterator[Crew]:
    made = Crew([], servers=1, sync=False, tables=[TableSpec("users", 4, RULE, ZERO)])
    yield made
    made.close()


@pytest.fixture
def client(crew: Crew) -> Iterator[PsClient]:
    made = PsClient(crew, patience=60)
    yield made
    made.close()


def test_an_error_is_of_what_was_asked_for_and_of_nothing_else(client: PsClient) -> None:
    ahead = client.ahead()
    wrong, right = ahead.ask({"nobody": IDS}), ahead.ask({"users": IDS})
    with pytest.raises(NotFound, match="nobody"):
        wrong.result(20)
    assert right.result(20).rows["users"].shape == (5, 4)
    ahead.close()


def test_what_servers_that_are_away_were_asked_for_is_cancelled_at_once(crew: Crew, client: PsClient) -> None:
    ahead = client.ahead()
    assert ahead.ask({"users": IDS}).result(20).rows["users"].shape == (5, 4)
    real, away = crew.master.stubs.parameters.GetMap, threading.Event()

    def get_map(request: Any) -> Any:
        away.set()
        return real(request)

    crew.master.stubs.parameters.GetMap = get_map
    crew.servers[0].stop()
    asked = [ahead.ask({"users": IDS}) for _ in range(3)]
    assert away.wait(20)
    ahead.close()
    assert not ahead._thread.is_alive()
    for rows in (*asked, ahead.ask({"users": IDS})):
        with pytest.raises(CancelledError):
            rows.result(0)
