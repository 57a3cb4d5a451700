from __future__ import annotations

import pytest

from pliant.core.errors import InvalidRequest, SessionExpired
from pliant.core.nodes.fault_policy import ExitReason
from pliant.rpc import pliant_pb2 as pb
from pliant.testing import FakeAgent, RunningMaster


def exchange(master: RunningMaster, session: str, number: int, **fields: object) -> pb.ExchangeReply:
    request = pb.ExchangeRequest(session=session, request=number, **fields)  # type: ignore[arg-type]
    reply: pb.ExchangeReply = master.client.call(master.client.stubs.shards.Exchange, request)
    return reply


def open_session(master: RunningMaster, name: str) -> str:
    request = pb.OpenSessionRequest(session=name, node="guest")
    master.client.call(master.client.stubs.shards.OpenSession, request)
    return name


def close_session(master: RunningMaster, name: str) -> None:
    master.client.call(master.client.stubs.shards.CloseSession, pb.CloseSessionRequest(session=name))


def test_a_request_that_is_sent_again_gets_the_same_answer_and_changes_nothing(master: RunningMaster) -> None:
    session = open_session(master, "again")
    first = exchange(master, session, 1, dataset="train", want=2)
    after_first = master.state()
    assert exchange(master, session, 1, dataset="train", want=2) == first
    assert master.state() == after_first
    done = [shard.lease for shard in first.shards]
    second = exchange(master, session, 2, dataset="train", want=1, done=done)
    after_second = master.state()
    assert exchange(master, session, 2, dataset="train", want=1, done=done) == second
    with pytest.raises(InvalidRequest, match="older"):
        exchange(master, session, 1, dataset="train", want=2)
    assert master.state() == after_second
    close_session(master, session)


def test_a_request_of_a_session_that_was_closed_does_not_revive_it(master: RunningMaster) -> None:
    session = open_session(master, "closed")
    exchange(master, session, 1, dataset="train", want=1)
    close_session(master, session)
    close_session(master, session)
    before = master.state()
    with pytest.raises(SessionExpired):
        exchange(master, session, 2, done=[1])
    assert master.state() == before


def test_what_creates_or_opens_counts_once(master: RunningMaster) -> None:
    stubs = master.client.stubs.shards
    session = open_session(master, "twice")
    dataset = pb.Dataset(name="extra", size=5, shard_size=1)
    assert master.client.call(stubs.CreateDataset, dataset).created
    before = master.state()
    assert not master.client.call(stubs.CreateDataset, dataset).created
    open_session(master, session)
    assert master.state() == before
    close_session(master, session)


def test_the_growth_of_a_stream_counts_once_however_often_it_is_sent(master: RunningMaster) -> None:
    def grow(producer: str, number: int, records: int = 3) -> int:
        request = pb.GrowRequest(dataset="log", records=records, producer=producer, number=number)
        return int(master.client.call(master.client.stubs.shards.GrowStream, request).length)

    assert [grow("a", 1), grow("b", 1), grow("a", 1), grow("b", 1)] == [3, 6, 3, 6]
    assert [grow("a", 2), grow("b", 1), grow("a", 2)] == [9, 6, 9]
    with pytest.raises(InvalidRequest, match="its last one was 2"):
        grow("a", 1)


def test_an_exit_that_is_reported_again_is_answered_alike_and_counted_once(master: RunningMaster) -> None:
    agent = FakeAgent(master.client, "worker-0")
    agent.registers()
    run = agent.incarnation
    first = agent.program_exits(ExitReason.KILLED, "killed by SIGKILL")
    assert first.restart
    before = master.state()
    agent.incarnation = run
    again = agent.program_exits(ExitReason.KILLED, "killed by SIGKILL")
    assert again == first
    assert {**master.state(), "rendezvous": None} == {**before, "rendezvous": None}


def test_an_exit_of_a_run_that_never_was_is_no_failure_of_the_job(master: RunningMaster) -> None:
    agent = FakeAgent(master.client, "worker-1")
    agent.incarnation = 99
    assert not agent.program_exits(ExitReason.ERROR, "a lie").restart
    status = master.status()
    assert status.first_failure is None
