"""The stream of the model: servers send each new iteration, and a worker sees whole ones only."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.ps.server_cluster import VARIABLES, ServerCluster

from pliant.core.errors import InvalidRequest, NotFound, PliantError
from pliant.core.parameters.contributions import PushDecision, PushOutcome
from pliant.core.parameters.orders import Contribution
from pliant.ps.client import model_stream
from pliant.ps.client.client import PsClient
from pliant.ps.client.model_stream import ModelStream
from pliant.ps.server import requests
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.parameters import push_reply
from pliant.testing import ManualClock, wait_until
from pliant.testing.waiting import MAX_WAIT_S


@pytest.fixture
def stream(cluster: ServerCluster) -> Iterator[ModelStream]:
    made = PsClient(cluster, retry_timeout=MAX_WAIT_S).follow()
    yield made
    made.close()


def test_each_new_iteration_comes_without_being_asked_for(cluster: ServerCluster, stream: ModelStream) -> None:
    with stream.model() as first:
        assert first.iteration == 0
    for iteration in range(1, 6):
        cluster.step()
        with stream.model(at_least=iteration) as model:
            assert model.iteration == iteration == stream.newest
            assert model.dense["w"].shape == (3, 2)
            for values in model.dense.values():
                assert np.all(values == -iteration)


def test_an_iteration_that_only_some_servers_have_is_not_shown(cluster: ServerCluster, stream: ModelStream) -> None:
    cluster.step()
    with stream.model(at_least=1):
        pass
    cluster.step(0)  # the first one is ahead
    late = threading.Timer(0.2, cluster.step, [1])
    late.start()
    with stream.model(at_least=1) as model:  # either the old one or, after the second has followed, the new one
        seen = {float(value) for values in model.dense.values() for value in values.flat}
        assert seen == {-float(model.iteration)}
    with stream.model(at_least=2) as model:
        assert {float(value) for values in model.dense.values() for value in values.flat} == {-2.0}
    late.join()


def test_what_a_reader_has_does_not_change_while_it_reads(cluster: ServerCluster, stream: ModelStream) -> None:
    cluster.step()
    with stream.model(at_least=1) as model:
        cluster.step()
        cluster.step()
        before = {name: values.copy() for name, values in model.dense.items()}
        deadline = time.monotonic() + 0.3
        while time.monotonic() < deadline:
            assert all(np.array_equal(model.dense[name], values) for name, values in before.items())
    with stream.model(at_least=3) as model:
        assert np.all(model.dense["b"] == -3)


def test_the_stream_goes_on_at_the_new_place_of_a_server(cluster: ServerCluster, stream: ModelStream) -> None:
    cluster.step()
    with stream.model(at_least=1):
        pass
    cluster.replace(1)
    cluster.step()
    with stream.model(at_least=2) as model:
        assert np.all(model.dense["b"] == -2)
        assert np.all(model.dense["w"] == -2)


def test_a_server_that_was_restored_with_other_values_is_believed(cluster: ServerCluster, stream: ModelStream) -> None:
    cluster.step()
    with stream.model(at_least=1):
        pass
    cluster.stores[1]._catalog.block("b", 0).value[:] = 7.0  # its log was lost: older values, of the same iteration
    cluster.replace(1)
    cluster.step(0)
    cluster.stores[1].reset(2)
    with stream.model(at_least=2) as model:
        assert np.all(model.dense["b"] == 7)


@pytest.fixture
def endless_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server holds a request until there is something to answer: who waited for its time-out would wait for an hour."""
    for module in (model_stream, requests):
        monkeypatch.setattr(module, "MAX_WAIT_S", 3600.0)


@pytest.mark.usefixtures("endless_requests")
def test_closing_ends_the_thread_and_servers_at_once(cluster: ServerCluster) -> None:
    stream = PsClient(cluster, retry_timeout=MAX_WAIT_S).follow()
    with stream.model():
        pass
    stream.close()
    assert not stream._thread.is_alive()
    with pytest.raises(PliantError, match="closed"), stream.model():
        pass
    cluster.close()


def test_waiting_requests_are_neither_work_nor_queue(
    cluster: ServerCluster, stream: ModelStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait_until_idle(iteration: int) -> dict[str, Any]:
        with stream.model(at_least=iteration):
            pass
        return wait_until(lambda: found if not (found := cluster.servers[0].stats())["in_work"] else None)

    clock = ManualClock()
    cluster.step()
    wait_until_idle(1)
    monkeypatch.setattr(requests, "time", SimpleNamespace(perf_counter=clock.now))
    cluster.step()
    before = wait_until_idle(2)  # the request that waits now has begun by this clock
    clock.advance(100)
    cluster.step()
    assert wait_until_idle(3)["busy_seconds"] == pytest.approx(before["busy_seconds"], abs=1e-6)


def test_readers_are_told_when_no_server_answers_for_too_long(cluster: ServerCluster) -> None:
    stream = PsClient(cluster, retry_timeout=0.5).follow()
    with stream.model():
        pass
    cluster.close()
    with pytest.raises(PliantError, match="following the model did not succeed"), stream.model(at_least=9):
        pass
    stream.close()


def test_only_variables_can_be_followed(cluster: ServerCluster) -> None:
    client = PsClient(cluster)
    with pytest.raises(NotFound, match="'x'"):
        client.follow(["x"])
    with pytest.raises(InvalidRequest, match="no variable"):
        client.follow([])


def test_a_model_that_is_here_can_be_read_soon_after_a_server_was_replaced(
    cluster: ServerCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_stream, "MAX_WAIT_S", 0.2)
    stream = PsClient(cluster, retry_timeout=MAX_WAIT_S).follow()
    cluster.step()
    with stream.model(at_least=1):
        pass
    real, noticed = cluster.master.stubs.parameters.GetMap, threading.Event()

    def ask(request: pb.GetMapRequest) -> pb.ParameterMap:
        for module in (model_stream, requests):
            monkeypatch.setattr(module, "MAX_WAIT_S", 3600.0)  # of whatever waits from now on
        noticed.set()
        answer: pb.ParameterMap = real(request)
        return answer

    cluster.master.stubs.parameters.GetMap = ask
    cluster.replace(1)  # and no iteration comes after it
    assert noticed.wait(MAX_WAIT_S)  # the other one had answered before
    with stream.model(at_least=1) as model:
        assert np.all(model.dense["b"] == -1)
    stream.close()


@pytest.mark.usefixtures("endless_requests")
def test_an_asynchronous_model_can_be_read_while_one_server_is_idle() -> None:
    cluster = ServerCluster(VARIABLES, sync=False)
    stream = PsClient(cluster, retry_timeout=MAX_WAIT_S).follow()
    try:
        with stream.model():
            pass
        cluster.step(0)
        value = 0.0
        while value == 0:
            with stream.model() as model:
                value = float(model.dense["w"][0, 0])
        assert value == -1
    finally:
        stream.close()
        cluster.close()


def test_a_model_is_not_older_than_asked_for_if_servers_are_at_different_iterations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model_stream, "MAX_WAIT_S", 0.1)
    cluster = ServerCluster(VARIABLES, sync=False)
    stream = PsClient(cluster, retry_timeout=MAX_WAIT_S).follow()
    try:
        with stream.model():
            pass
        cluster.step(0)
        wait_until(lambda: stream.newest >= 1, what="the iteration of the first one")
        late = threading.Timer(0.2, cluster.step, [1])
        late.start()
        with stream.model(at_least=1) as model:
            assert model.iteration == 1
            assert np.all(model.dense["b"] == -1)
        late.join()
    finally:
        stream.close()
        cluster.close()


def test_who_reads_a_model_cannot_wait_for_a_newer_one(stream: ModelStream) -> None:
    with stream.model() as model:
        with stream.model() as same:
            assert same.iteration == model.iteration
        with pytest.raises(InvalidRequest, match="while this thread reads"), stream.model(model.iteration + 1):
            pass


def test_first_values_that_come_after_the_stream_began_are_seen(cluster: ServerCluster) -> None:
    cluster.initialized = []
    client = PsClient(cluster, retry_timeout=MAX_WAIT_S)
    stream = client.follow()
    try:
        with stream.model() as model:
            assert np.all(model.dense["b"] == 0)

        def assign(request: pb.AssignRequest) -> pb.ContributeReply:
            for store in cluster.stores:
                store.assign([Contribution(request.session, request.sequence, 1.0)])
            cluster.initialized = list(request.names)
            return push_reply(PushDecision(PushOutcome.ACCEPTED, 0))

        cluster.master.stubs.parameters.Assign = assign
        assert client.initialize({"w": np.full((3, 2), 7), "b": np.full(5, 7)})
        with stream.model() as model:
            assert model.iteration == 0
            for values in model.dense.values():
                assert np.all(values == 7)
    finally:
        stream.close()
        client.close()
