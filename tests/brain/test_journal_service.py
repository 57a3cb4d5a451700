"""The Brain's service of journals: who may call, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.brain.journal_brain import JournalBrain
from tests.databases import Databases, databases

from pliant.brain import journal_service
from pliant.core.errors import Conflict, FencedOff, InvalidRequest, Unauthenticated
from pliant.rpc import brain_pb2 as bp
from pliant.rpc.brain.channel import BrainClient
from pliant.rpc.brain.identity import LOCAL_NAMESPACE, PROTOCOL
from pliant.rpc.brain.journal_parts import split

__all__ = ["databases"]

JOB = bp.JobIdentity(namespace=LOCAL_NAMESPACE, name="job", uid="uid-1")


@pytest.fixture
def brain(databases: Databases, tmp_path: Path) -> Iterator[JournalBrain]:
    with databases.migrated("sqlite") as database:
        found = JournalBrain(tmp_path / "brain", database).start()
        yield found
        found.stop()


@pytest.fixture
def client(brain: JournalBrain) -> Iterator[BrainClient]:
    found = BrainClient(brain.access())
    yield found
    found.close()


def opened(client: BrainClient, *, writer: str = "w1", job: bp.JobIdentity = JOB, has: int = 0) -> list[bp.JournalPart]:
    request = bp.OpenJournalRequest(protocol=PROTOCOL, job=job, writer=writer, has=has)
    return list(client.stream(client.stubs.journals.Open, request, timeout=60))


def part(number: int, operations: bytes, *, fence: int = 1, job: bp.JobIdentity = JOB) -> bp.CommitRequest:
    return bp.CommitRequest(job=job, fence=fence, number=number, operations=operations, lasting=b"")


def test_what_is_committed_is_read_after_the_number_that_the_caller_has(client: BrainClient) -> None:
    (head,) = opened(client)
    assert (head.fence, head.last, head.number) == (1, 0, 0)
    for number in (1, 2, 3):
        client.call(client.stubs.journals.Commit, part(number, b"%d" % number))
    head, *batches = opened(client, has=1)
    assert (head.fence, head.last) == (1, 3), "the same writer has the same fence"
    assert [(found.number, found.operations) for found in batches] == [(2, b"2"), (3, b"3")]


def test_the_token_of_one_job_opens_and_writes_no_other_journal(brain: JournalBrain, client: BrainClient) -> None:
    opened(client)
    stranger = BrainClient(brain.access("other"))
    try:
        with pytest.raises(Unauthenticated):
            opened(stranger)
        with pytest.raises(Unauthenticated):
            stranger.call(stranger.stubs.journals.Commit, part(1, b"x"))
        with pytest.raises(Unauthenticated):
            stranger.send_all(stranger.stubs.journals.CommitParts, [part(1, b"x")], timeout=60)
    finally:
        stranger.close()
    assert opened(client)[0].last == 0


def test_an_older_fence_is_refused_before_the_number_is_looked_at(client: BrainClient) -> None:
    opened(client)
    opened(client, writer="w2")
    for number in (0, 1, 7):
        with pytest.raises(FencedOff):
            client.call(client.stubs.journals.Commit, part(number, b"x"))
        with pytest.raises(FencedOff):
            client.send_all(client.stubs.journals.CommitParts, [part(number, b"x")], timeout=60)


def test_a_number_that_does_not_follow_is_refused_to_the_writer(client: BrainClient) -> None:
    opened(client)
    for number in (0, 2):
        with pytest.raises(Conflict) as refused:
            client.call(client.stubs.journals.Commit, part(number, b"x"))
        assert type(refused.value) is Conflict


def test_parts_make_one_batch_in_their_order(client: BrainClient) -> None:
    opened(client)
    client.send_all(client.stubs.journals.CommitParts, [part(1, b"a"), part(1, b"b"), part(1, b"c")], timeout=60)
    assert [found.operations for found in opened(client)[1:]] == [b"abc"]


def test_parts_of_two_batches_none_and_too_many_are_refused_and_leave_nothing(
    client: BrainClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_service, "MAX_BATCH_BYTES", 10)
    opened(client)
    for parts in ([part(1, b"a"), part(2, b"b")], [], [part(1, b"a" * 6), part(1, b"a" * 6)]):
        with pytest.raises(InvalidRequest):
            client.send_all(client.stubs.journals.CommitParts, parts, timeout=60)
    assert opened(client)[0].last == 0


@pytest.mark.parametrize("operations", [0, 1, 9, 10, 11, 25])
@pytest.mark.parametrize("lasting", [0, 1, 10, 33])
def test_a_batch_is_what_its_parts_are(operations: int, lasting: int) -> None:
    first, second = bytes(range(operations)), bytes(range(100, 100 + lasting))
    parts = list(split(first, second, 10))
    assert b"".join(found for found, _, _ in parts) == first
    assert b"".join(found for _, found, _ in parts) == second
    assert all(len(a) + len(b) <= 10 for a, b, _ in parts)
    assert [more for _, _, more in parts] == [True] * (len(parts) - 1) + [False]
