"""Pushes that do not wait for the master's decision: what is sent together, what is refused, what ends a window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.ps.client.scripted_master import Master
from tests.ps.server_cluster import VARIABLES, ServerCluster

from pliant.core.errors import InvalidRequest, PermanentError, ServerUnavailable, SessionExpired
from pliant.core.parameters.contributions import PushOutcome
from pliant.ps.client.client import PsClient
from pliant.ps.client.push_window import PushWindow
from pliant.ps.store.store import ParameterStore
from pliant.testing.waiting import MAX_WAIT_S

GRADIENTS = {"w": np.ones((3, 2)), "b": np.ones(5)}


class OneShard:
    """Of twelve records."""

    lease, offset, session = 1, 0, "cluster"

    def __init__(self) -> None:
        self.lost = self.finished = False
        self.accepted = 0

    def contributed(self, records: int) -> None:
        self.accepted = records

    def done(self) -> None:
        self.finished = True

    def release(self) -> None:
        self.finished = True


class OneSource:
    def __init__(self, shard: OneShard) -> None:
        self._shards = [shard]

    def __iter__(self) -> Iterator[OneShard]:
        return self

    def __next__(self) -> OneShard:
        if not self._shards:
            raise StopIteration
        return self._shards.pop()

    def poll(self) -> OneShard | None:
        return self._shards.pop() if self._shards else None


@pytest.fixture
def cluster() -> Iterator[ServerCluster]:
    made = ServerCluster(VARIABLES, sync=False)
    yield made
    made.close()


@pytest.fixture
def master(cluster: ServerCluster) -> Master:
    return Master(cluster)


def push(window: PushWindow, work: Any) -> None:
    window.push(0, examples=1, dense=GRADIENTS, work=work)


def test_what_gathers_while_a_question_is_on_its_way_goes_as_one_batch(master: Master, client: PsClient) -> None:
    with client.window(4) as window:
        master.may_answer.clear()
        push(window, "a")
        assert master.asked.wait(MAX_WAIT_S)
        push(window, "b")
        push(window, "c")
        assert window.undecided == 3
        assert window.collect() == []
        for waiting in list(window._waiting):
            waiting.staging.wait()
        master.may_answer.set()
        assert [(one.work, one.pushed.accepted) for one in window.drain()] == [("a", True), ("b", True), ("c", True)]
    assert master.batches == [[1], [2, 3]]


def test_a_push_waits_for_room_in_the_window(master: Master, client: PsClient) -> None:
    with client.window(1) as window:
        for number in range(3):
            push(window, number)
            assert window.undecided == 0
            assert [one.work for one in window.collect()] == [number]
    assert master.batches == [[1], [2], [3]]


def test_servers_are_told_which_push_of_a_window_was_refused(
    cluster: ServerCluster, master: Master, client: PsClient
) -> None:
    with client.window(4) as window:
        master.outcomes = [PushOutcome.ACCEPTED, PushOutcome.STALE]
        push(window, "a")
        push(window, "b")
        assert [one.pushed.stale for one in window.drain()] == [False, True]
        assert window.size == 2
        push(window, "b")
        window.drain()
    for store in cluster.stores:
        assert [sequence for _, sequence, _ in store.staged()] == [1, 3]


def test_what_is_refused_comes_again_in_order(master: Master, client: PsClient) -> None:
    shard = OneShard()
    master.outcomes = [PushOutcome.ACCEPTED, PushOutcome.STALE, PushOutcome.ACCEPTED, PushOutcome.MOVED]
    computed = []
    with client.pipeline(4) as pipeline:
        for batch in pipeline.batches(OneSource(shard), lambda _: [(n, 3 * n + 3) for n in range(4)]):
            computed.append((batch.work, batch.begin, batch.end))
            pipeline.push(batch, 0, examples=3, dense=GRADIENTS)
    assert list(dict.fromkeys(computed)) == [(n, 3 * n, 3 * n + 3) for n in range(4)]
    assert len(computed) > 4
    assert master.records == [3, 6, 9, 12]
    assert (shard.accepted, shard.finished) == (12, True)


@pytest.mark.parametrize("outcome", [PushOutcome.LOST, PushOutcome.OVER])
def test_what_nobody_wants_any_more_is_released(master: Master, client: PsClient, outcome: PushOutcome) -> None:
    shard = OneShard()
    master.outcomes = [outcome] * 4
    with client.pipeline(2) as pipeline:
        for batch in pipeline.batches(OneSource(shard), lambda _: [(n, n + 1) for n in range(4)]):
            pipeline.push(batch, 0, examples=1, dense=GRADIENTS)
    assert (shard.accepted, shard.finished) == (0, True)
    assert sum(map(len, master.batches)) < 4, "what is left of it is not computed"


def test_pushes_of_a_session_that_ended_come_again_or_are_lost(
    cluster: ServerCluster, master: Master, client: PsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed: list[str] = []

    def renew(name: str) -> None:
        renewed.append(name)
        cluster.name = "cluster-2"

    monkeypatch.setattr(cluster, "renew", renew)
    shard = OneShard()
    with client.window(2) as window:
        master.error = SessionExpired("the worker was silent for too long")
        push(window, "a")
        (found,) = window.drain()
        assert found.pushed.stale
        assert renewed == ["cluster"]
        master.error = None
        window.push(0, examples=1, dense=GRADIENTS, shards=[(shard, 0, 3)])
        (found,) = window.drain()
        assert (found.pushed.accepted, found.pushed.stale, found.pushed.lost) == (False, False, (1,))


def test_records_of_a_session_that_ended_are_not_pushed_by_the_next(
    cluster: ServerCluster, master: Master, client: PsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ParameterStore.knows

    def knows(store: ParameterStore, push: Any) -> bool:
        if cluster.name == "cluster":
            cluster.name = "cluster-2"  # opened by the thread of the beats, while a server is away
            raise ServerUnavailable("cannot keep it now")
        return real(store, push)

    monkeypatch.setattr(ParameterStore, "knows", knows)
    with client.window(2) as window:
        window.push(0, examples=3, dense=GRADIENTS, shards=[(OneShard(), 0, 3)])
        (found,) = window.drain()
    assert (found.pushed.accepted, found.pushed.stale, found.pushed.lost) == (False, False, (1,))
    assert master.batches == []


def test_batches_are_pushed_in_order(master: Master, client: PsClient) -> None:
    """Else the second would be refused for ever, as its records would come after a gap."""
    with client.pipeline(4) as pipeline:
        batches = pipeline.batches(OneSource(OneShard()), lambda _: [(n, 3 * n + 3) for n in range(4)])
        next(batches)
        second = next(batches)
        with pytest.raises(InvalidRequest, match=r"records 0 to 3 .* not pushed"):
            pipeline.push(second, 0, examples=3, dense=GRADIENTS)


def test_a_batch_that_is_left_out_is_an_error(master: Master, client: PsClient) -> None:
    """Else this worker would wait for the shard that it holds itself."""
    with client.pipeline(4) as pipeline:
        batches = pipeline.batches(OneSource(OneShard()), lambda _: [(n, 3 * n + 3) for n in range(4)])
        for _ in range(3):
            pipeline.push(next(batches), 0, examples=3, dense=GRADIENTS)
        next(batches)
        with pytest.raises(InvalidRequest, match=r"records 9 to 12 .* not pushed"):
            next(batches)


@pytest.mark.parametrize("end", ["lost", "finished"])
def test_a_batch_of_a_shard_that_is_gone_may_be_left_out(client: PsClient, end: str) -> None:
    shard = OneShard()
    with client.pipeline(4) as pipeline:
        batches = pipeline.batches(OneSource(shard), lambda _: [(n, 3 * n + 3) for n in range(4)])
        next(batches)
        setattr(shard, end, True)
        assert list(batches) == []


def test_batches_may_be_taken_ahead(master: Master, client: PsClient) -> None:
    shard = OneShard()
    with client.pipeline(4) as pipeline:
        batches = pipeline.batches(OneSource(shard), lambda _: [(n, 3 * n + 3) for n in range(4)])
        for _ in range(2):
            for batch in [next(batches), next(batches)]:
                pipeline.push(batch, 0, examples=3, dense=GRADIENTS)
        assert list(batches) == []
    assert (shard.accepted, shard.finished) == (12, True)


def test_an_error_of_the_master_reaches_the_worker(master: Master, client: PsClient) -> None:
    window = client.window(4)
    master.error = InvalidRequest("that is no contribution")

    def push_and_wait() -> None:
        push(window, "a")  # whichever of these two is later than the answer
        window.drain()

    with pytest.raises(InvalidRequest, match="no contribution"):
        push_and_wait()
    with pytest.raises(InvalidRequest, match="no contribution"):
        push(window, "b")
    window.close()


def test_a_window_that_was_closed_takes_nothing(master: Master, client: PsClient) -> None:
    window = client.window(4)
    window.close()
    with pytest.raises(PermanentError, match="closed"):
        push(window, "a")
    with pytest.raises(InvalidRequest, match="allowed: 1 to 64"):
        client.window(0)
