"""Hot calls over one stream per client: they mean what the same calls over gRPC mean, whatever becomes of the stream."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.core.errors import InvalidRequest, MasterUnavailable, NotFound, PliantError, SessionExpired, Unauthenticated
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.call_stream import serving
from pliant.rpc.call_stream.methods import OPEN, STREAMED, Method
from pliant.rpc.channel import Address, AsyncMasterClient, MasterClient
from pliant.rpc.identity import TOKEN_HEADER
from pliant.testing import RunningMaster
from pliant.testing.waiting import MAX_WAIT_S

SPEC = {"components": {"need_pod_manager": False, "keep_serving": True}}
RECORDS, SHARD = 400, 4


@pytest.fixture
def master(tmp_path: Path) -> Iterator[RunningMaster]:
    with RunningMaster(tmp_path, SPEC) as running:
        prepare(running, "s")
        yield running


def prepare(master: RunningMaster, session: str, dataset: str = "d") -> None:
    call, stubs = master.client.call, master.client.stubs.shards
    spec = pb.Dataset(name=dataset, size=RECORDS, shard_size=SHARD, type=pb.SHARD_TYPE_TRAIN, epochs=1)
    call(stubs.CreateDataset, spec)
    call(stubs.OpenSession, pb.OpenSessionRequest(session=session, node="guest"))


def asking(request: int, *, done: tuple[int, ...] = (), want: int = 1, dataset: str = "d") -> pb.ExchangeRequest:
    return pb.ExchangeRequest(session="s", request=request, dataset=dataset, want=want, done=done)


def lease(client: MasterClient, request: int, **more: object) -> list[int]:
    reply = client.call(client.stubs.shards.Exchange, asking(request, **more))  # type: ignore[arg-type]
    return [shard.lease for shard in reply.shards]


def test_hot_calls_are_on_the_stream_and_others_are_not(master: RunningMaster) -> None:
    assert isinstance(master.client.stubs.shards.Exchange, Method)
    assert not isinstance(master.client.stubs.shards.CreateDataset, Method)
    assert "/pliant.v1.Shards/Exchange" in STREAMED


def test_errors_arrive_as_what_they_were(master: RunningMaster) -> None:
    call, stubs = master.client.call, master.client.stubs.shards
    with pytest.raises(SessionExpired):
        call(stubs.Beat, pb.BeatRequest(session="nobody"))
    with pytest.raises(NotFound, match="unknown") as found:
        call(stubs.Exchange, pb.ExchangeRequest(session="s", request=1, dataset="unknown", want=1))
    assert found.value.hint
    with pytest.raises(InvalidRequest):
        call(stubs.Exchange, asking(1, want=1 << 20))
    assert lease(master.client, 1) == [1], "the stream goes on"


def test_a_stream_without_the_token_is_refused(master: RunningMaster) -> None:
    stranger = MasterClient(Address(master.address.target, "x" * 64))
    try:
        with pytest.raises(Unauthenticated):
            stranger.call(stranger.stubs.shards.Beat, pb.BeatRequest(session="s"))
    finally:
        stranger.close()


def test_a_call_that_is_not_answered_in_time_ends_and_the_stream_goes_on(
    master: RunningMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = master._store
    assert store is not None
    commit, may_commit = store.commit, threading.Event()

    def held(batch: object) -> None:
        may_commit.wait(MAX_WAIT_S)
        commit(batch)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "commit", held)
    with pytest.raises(MasterUnavailable, match="no answer within"):
        master.client.call(master.client.stubs.shards.Exchange, asking(1), timeout=0.2)
    may_commit.set()
    assert lease(master.client, 1) == [1], "the same request again gets the answer that was lost"
    assert lease(master.client, 2) == [2]


def test_calls_in_progress_fail_with_the_master_and_their_repetition_counts_once(master: RunningMaster) -> None:
    client = master.client
    assert lease(client, 1, want=3) == [1, 2, 3]
    master.restart()
    reply = client.call_with_retry(
        client.stubs.shards.Exchange, asking(2, done=(1, 2), want=1), retry_timeout=MAX_WAIT_S
    )
    assert [shard.lease for shard in reply.shards] == [4]
    assert lease(client, 2, done=(1, 2)) == [4], "sent again"
    assert next(one for one in master.status().datasets if one.name == "d").shards_done == 2


def test_many_threads_share_a_stream(master: RunningMaster) -> None:
    client, failures = master.client, list[BaseException]()

    def beat() -> None:
        try:
            for _ in range(50):
                client.call(client.stubs.shards.Beat, pb.BeatRequest(session="s"))
        except PliantError as error:
            failures.append(error)

    threads = [threading.Thread(target=beat) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(MAX_WAIT_S)
    assert not failures


def test_a_closed_client_leaves_no_thread(master: RunningMaster) -> None:
    before = set(threading.enumerate())
    client = MasterClient(master.address)
    client.call(client.stubs.shards.Beat, pb.BeatRequest(session="s"))
    (reader,) = [thread for thread in set(threading.enumerate()) - before if thread.name == "pliant-calls"]
    client.close()
    reader.join(MAX_WAIT_S)
    assert not reader.is_alive()


def test_asyncio_clients_make_many_calls_at_once_and_survive_a_restart(master: RunningMaster) -> None:
    async def run() -> None:
        client = AsyncMasterClient(master.address)
        beat = pb.BeatRequest(session="s")
        await asyncio.gather(*(client.call(client.stubs.shards.Beat, beat) for _ in range(200)))
        with pytest.raises(SessionExpired):
            await client.call(client.stubs.shards.Beat, pb.BeatRequest(session="nobody"))
        await asyncio.to_thread(master.restart)
        async with asyncio.timeout(MAX_WAIT_S):
            while True:
                with suppress(MasterUnavailable):
                    await client.call(client.stubs.shards.Beat, beat)
                    break
        await client.close()

    asyncio.run(run())


def test_a_stream_may_not_have_too_many_calls_at_once(master: RunningMaster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "MAX_CALLS_OF_A_STREAM", 3)

    async def run() -> int:
        client, refused = AsyncMasterClient(master.address), 0
        calls = (client.call(client.stubs.shards.Beat, pb.BeatRequest(session="s")) for _ in range(50))
        for found in await asyncio.gather(*calls, return_exceptions=True):
            refused += isinstance(found, MasterUnavailable)  # to be made again
        await client.call(client.stubs.shards.Beat, pb.BeatRequest(session="s"))
        await client.close()
        return refused

    assert asyncio.run(run())


frames = st.builds(
    pb.CallFrame,
    number=st.integers(-(2**63), 2**63 - 1),
    method=st.sampled_from(sorted(STREAMED)) | st.text(max_size=200),
    request=st.binary(max_size=50),
    timeout=st.floats(),
)


@settings(max_examples=40, deadline=None)
@given(messages=st.lists(st.builds(pb.CallFrames, calls=st.lists(frames, max_size=5)), max_size=4))
def test_frames_that_make_no_sense_are_answered_and_take_nothing_down(
    running: RunningMaster, messages: list[pb.CallFrames]
) -> None:
    with grpc.insecure_channel(running.address.target) as channel:
        opened = channel.stream_stream(
            OPEN,
            request_serializer=pb.CallFrames.SerializeToString,
            response_deserializer=pb.AnswerFrames.FromString,
        )
        count = sum(len(message.calls) for message in messages)
        call = opened(iter(messages), metadata=((TOKEN_HEADER, running.address.token),), timeout=MAX_WAIT_S)
        answers = [answer for message in call for answer in message.answers]
    assert len(answers) <= count
    running.client.call(running.client.stubs.shards.Beat, pb.BeatRequest(session="s"))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningMaster]:
    with RunningMaster(tmp_path_factory.mktemp("master"), SPEC) as master:
        prepare(master, "s")
        yield master


@settings(max_examples=15, deadline=None)
@given(deaths=st.lists(st.sampled_from(["none", "before the journal", "after the journal"]), min_size=4, max_size=12))
def test_whenever_the_master_dies_each_shard_is_leased_and_done_once(
    tmp_path_factory: pytest.TempPathFactory, deaths: list[str]
) -> None:
    """A request whose answer was lost with the master is sent again over a new stream."""
    with RunningMaster(tmp_path_factory.mktemp("dying"), SPEC) as master:
        prepare(master, "s")
        client, held, leased = master.client, list[int](), list[int]()
        for number, death in enumerate(deaths, 1):
            request = asking(number, done=tuple(held), want=2)
            if death != "none":
                _dies(master, client, request, commits=death == "after the journal")
            reply = client.call_with_retry(client.stubs.shards.Exchange, request, retry_timeout=MAX_WAIT_S)
            assert not reply.refused
            held = [shard.lease for shard in reply.shards]
            leased += held
        assert leased == list(range(1, 2 * len(deaths) + 1))
        done = next(one for one in master.status().datasets if one.name == "d").shards_done
        assert done == len(leased) - len(held)


def _dies(master: RunningMaster, client: MasterClient, request: pb.ExchangeRequest, *, commits: bool) -> None:
    store = master._store
    assert store is not None
    commit = store.commit

    def dies(batch: object) -> None:
        if commits:
            commit(batch)  # type: ignore[arg-type]
        store.die()
        raise OSError("killed")

    store.commit = dies  # type: ignore[method-assign]
    with pytest.raises(MasterUnavailable):
        client.call(client.stubs.shards.Exchange, request)
    master.restart()
