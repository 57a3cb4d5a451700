"""Pushes whose staging a worker does not wait for: what it may do meanwhile, and what becomes of them if a server dies."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.ps.client.scripted_master import Master
from tests.ps.server_cluster import RULE, VARIABLES, ZERO, ServerCluster

from pliant.core.errors import InvalidRequest, PermanentError, ServerUnavailable
from pliant.core.parameters.contributions import PushDecision, PushOutcome, PushRequest
from pliant.core.parameters.orders import Contribution
from pliant.ps.client.client import PsClient
from pliant.ps.client.push_staging import StagedPush, _RefusedPushes
from pliant.ps.client.push_window import PushWindow
from pliant.ps.specs import TableSpec
from pliant.ps.store.store import ParameterStore
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.contributions import batch_from_message, batch_reply
from pliant.testing import wait_until
from pliant.testing.waiting import MAX_WAIT_S

DIM, ROWS = 16, 1000  # enough for memory that is shared
KILLS = 12


class Gate:
    """Servers do not get further with a push than to here."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.open.set()
        self.reached = threading.Semaphore(0)
        real = ParameterStore.stage

        def stage(store: ParameterStore, push: Any) -> bool:
            self.reached.release()
            assert self.open.wait(MAX_WAIT_S)
            return real(store, push)

        monkeypatch.setattr(ParameterStore, "stage", stage)

    def wait_for(self, servers: int) -> None:
        for _ in range(servers):
            assert self.reached.acquire(timeout=MAX_WAIT_S)


@pytest.fixture
def cluster() -> Iterator[ServerCluster]:
    made = ServerCluster(VARIABLES, sync=False, tables=[TableSpec("users", DIM, RULE, ZERO)])
    yield made
    made.close()


@pytest.fixture
def master(cluster: ServerCluster) -> Master:
    return Master(cluster)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


def gradients(value: float) -> dict[str, Any]:
    ids = np.concatenate([np.arange(ROWS), np.arange(ROWS)])  # each comes twice
    rows = {"users": (ids, np.full((2 * ROWS, DIM), value / 2, np.float32))}
    return {"dense": {"w": np.full((3, 2), value, np.float32), "b": np.full(5, value, np.float32)}, "rows": rows}


def applied(cluster: ServerCluster, sequence: int) -> float:
    """What the push of this number says, if all of it says the same, after it was applied everywhere."""
    found = set()
    for number, store in enumerate(cluster.stores):
        assert not store.apply([Contribution(cluster.name, sequence, 1.0)], 1.0, store.iteration + 1).missing
        name = VARIABLES[number].name
        with store.blocks([(name, 0)]) as (_, values):
            found |= set((-values[name, 0]).tolist())
        ids = np.arange(ROWS)
        rows = np.empty((ROWS, DIM), np.float32)
        store.pull_rows("users", ids, rows)
        found |= set((-rows[rows.any(axis=1)]).reshape(-1).tolist())
    (value,) = found
    return float(value)


def test_a_worker_goes_on_while_servers_stage_and_nothing_is_decided_before(
    cluster: ServerCluster, master: Master, gate: Gate, client: PsClient
) -> None:
    with client.window(4) as window:
        gate.open.clear()
        window.push(0, examples=1, **gradients(3.0))
        gate.wait_for(2)
        model = client.pull({"users": np.arange(10)})
        assert model.rows["users"].shape == (10, DIM)
        assert (window.undecided, window.collect(), master.batches) == (1, [], [])
        gate.open.set()
        (found,) = window.drain()
    assert found.pushed.accepted
    assert master.batches == [[1]]
    assert applied(cluster, 1) == 3.0


def test_arrays_of_a_push_may_be_changed_at_once(
    cluster: ServerCluster, master: Master, gate: Gate, client: PsClient
) -> None:
    with client.window(4) as window:
        gate.open.clear()
        given = gradients(5.0)
        window.push(0, examples=1, **given)
        for array in (*given["dense"].values(), *given["rows"]["users"]):
            array[:] = 7
        gate.open.set()
        window.drain()
    assert applied(cluster, 1) == 5.0


def test_one_push_is_on_its_way_at_a_time(master: Master, gate: Gate, client: PsClient) -> None:
    with client.window(4) as window:
        gate.open.clear()
        window.push(0, examples=1, **gradients(1.0))
        gate.wait_for(2)
        second = threading.Thread(target=lambda: window.push(0, examples=1, **gradients(2.0)))
        second.start()
        assert not gate.reached.acquire(timeout=0.1), "sent over memory in which the first one may still lie"
        gate.open.set()
        second.join(MAX_WAIT_S)
        assert [one.pushed.accepted for one in window.drain()] == [True, True]
    assert [number for batch in master.batches for number in batch] == [1, 2]


@pytest.mark.parametrize("decided_in", ["the thread", "the next push"])
def test_what_was_on_its_way_to_a_server_that_died_is_sent_to_the_next(
    cluster: ServerCluster, master: Master, gate: Gate, client: PsClient, decided_in: str
) -> None:
    with client.window(4) as window:
        gate.open.clear()
        given = gradients(9.0)
        window.push(0, examples=1, **given)
        gate.wait_for(2)
        for array in (*given["dense"].values(), *given["rows"]["users"]):
            array[:] = 7
        gate.open.set()
        cluster.replace(0)
        if decided_in == "the next push":
            window.push(0, examples=1, **gradients(1.0))
        assert all(one.pushed.accepted for one in window.drain())
    assert applied(cluster, 1) == 9.0


def test_a_gradient_that_is_not_finite_is_refused_where_it_was_pushed(master: Master, client: PsClient) -> None:
    with client.window(4) as window:
        window.push(0, examples=1, **gradients(1.0))
        with pytest.raises(InvalidRequest, match=r"row \d+ of table 'users' has nan at column 0"):
            window.push(0, examples=1, **gradients(float("nan")))
        with pytest.raises(InvalidRequest, match=r"block 0 of 'b' has inf at 2"):
            window.push(0, examples=1, dense={"b": np.array([0, 0, np.inf, 0, 0])})
        assert [one.pushed.accepted for one in window.drain()] == [True], "the one before does not wait for them"


def test_a_push_without_gradients_is_decided_too(master: Master, client: PsClient) -> None:
    """Its records count."""
    with client.window(4) as window:
        window.push(0, examples=1)
        window.push(0, examples=1, **gradients(1.0))
        window.push(0, examples=1, rows={"users": (np.empty(0, np.int64), np.empty((0, DIM)))})
        assert [one.pushed.accepted for one in window.drain()] == [True, True, True]


def test_a_window_that_is_closed_leaves_servers_that_do_not_answer(gate: Gate, client: PsClient) -> None:
    window = client.window(4)
    gate.open.clear()
    try:
        window.push(0, examples=1, **gradients(1.0))
        gate.wait_for(2)
        window.close()
        with pytest.raises(PermanentError):
            window.drain()
        wait_until(lambda: not any(thread.name == "pliant-push-window" for thread in threading.enumerate()))
    finally:
        gate.open.set()


def test_a_server_that_cannot_stage_for_too_long_is_an_error_of_the_window(
    cluster: ServerCluster, master: Master
) -> None:
    impatient = PsClient(cluster, retry_timeout=0.2)
    window: PushWindow = impatient.window(4)
    window.push(0, examples=1, **gradients(1.0))
    cluster.servers[1].stop()

    def push() -> None:
        for _ in range(3):
            window.push(0, examples=1, **gradients(1.0))
            window.drain()

    with pytest.raises(ServerUnavailable, match="did not succeed"):
        push()
    window.close()
    impatient.close()


def test_a_refusal_while_a_push_is_on_its_way_is_named_by_the_next() -> None:
    route: Any = type("Route", (), {"seats": (0,)})
    refused = _RefusedPushes()
    first, second, third = (StagedPush("s", number, route, (0,)) for number in (1, 2, 3))
    refused.add(first)
    assert refused.of("s", 0) == (1,)  # named by the third
    refused.add(second)
    refused.mark_notified(third)
    assert refused.of("s", 0) == (2,)


def test_a_refused_push_is_named_by_the_next_of_the_window(
    cluster: ServerCluster, master: Master, client: PsClient
) -> None:
    with client.window(4) as window:
        master.outcomes = [PushOutcome.STALE]
        window.push(0, examples=1, **gradients(1.0))
        (found,) = window.drain()
        assert found.pushed.stale
        window.push(0, examples=1, **gradients(2.0))
        window.drain()
    for store in cluster.stores:
        assert [sequence for _, sequence, _ in store.staged()] == [2]


class ApplyingMaster:
    """Accepts what was staged on the servers that are there now, and has it applied at once, as orders would."""

    def __init__(self, cluster: ServerCluster) -> None:
        self._cluster = cluster
        self.refused = 0
        cluster.master.stubs.parameters.ContributeBatch = self._contribute

    def _contribute(self, request: pb.ContributeBatchRequest) -> pb.ContributeBatchReply:
        return batch_reply([self._decide(one.push) for one in batch_from_message(request)], 0)

    def _decide(self, one: PushRequest) -> PushDecision:
        if any(token != self._cluster.fencing_tokens[seat] for seat, token in one.holders):
            self.refused += 1
            return PushDecision(PushOutcome.MOVED, 0)
        for store in self._cluster.stores:
            order = [Contribution(one.session, one.sequence, 1.0)]
            assert not store.apply(order, 1.0, store.iteration + 1).missing, "decided before it was staged everywhere"
        return PushDecision(PushOutcome.ACCEPTED, 0)


@pytest.mark.parametrize("seed", range(3))
def test_servers_die_at_random_moments_and_each_push_counts_once(
    cluster: ServerCluster, client: PsClient, seed: int
) -> None:
    """A server's successor has what it had staged, as from its log."""
    ApplyingMaster(cluster)
    random, times = np.random.default_rng(seed), np.random.default_rng(seed + 100)
    ended = threading.Event()

    def kill() -> None:
        for _ in range(KILLS):
            if ended.wait(times.uniform(0.001, 0.1)):
                return
            cluster.replace(int(times.integers(2)))

    killer = threading.Thread(target=kill)
    killer.start()
    left: list[float] = []
    total = 0.0
    try:
        with client.window(4) as window:
            while left or killer.is_alive() or window.undecided:
                if not left and killer.is_alive():
                    left.append(float(random.integers(1, 100)))
                    total += left[0]
                if left:
                    value = left.pop()
                    window.push(0, examples=1, work=value, **gradients(value))
                decided = window.collect() if left or killer.is_alive() else window.drain()
                left += [one.work for one in decided if not one.pushed.accepted]
    finally:
        ended.set()
        killer.join()
    model = client.pull({"users": np.arange(ROWS)})
    assert (model.rows["users"] == -total).all()
    assert all((value == -total).all() for value in model.dense.values())
