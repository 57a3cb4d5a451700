"""A journal has one writer, no gaps, and loses nothing that lasts."""

from __future__ import annotations

import os

import pytest
from tests.brain.store.reporting import identity

from pliant.brain.store.database import Database
from pliant.brain.store.errors import DatabaseBusy, FencedOff
from pliant.brain.store.journals import (
    CHUNK_BYTES,
    MAX_BATCH_BYTES,
    JournalBatch,
    OpenedJournal,
    commit,
    open_journal,
    read_from,
)
from pliant.core.errors import Conflict, InvalidRequest, NotFound

JOB = identity()


def add(
    database: Database, fence: int, number: int, operations: bytes = b"{}", lasting: bytes = b"", snapshot: bool = False
) -> int:
    return commit(database, JOB, fence, number, operations, lasting, is_snapshot=snapshot, now=5.0)


def test_what_was_committed_is_read_in_order(database: Database) -> None:
    opened = open_journal(database, JOB, "master-1", 1.0)
    assert opened == OpenedJournal(1, 0, 0)
    assert list(read_from(database, JOB)) == []
    batches = [JournalBatch(n, False, bytes(range(256)) * n, b"event %d" % n) for n in (1, 2, 3)]
    for batch in batches:
        assert add(database, 1, batch.number, batch.operations, batch.lasting) == batch.number
    assert list(read_from(database, JOB)) == batches
    assert list(read_from(database, JOB, after=2)) == batches[2:]
    assert list(read_from(database, JOB, after=3)) == []


def test_whoever_opens_it_fences_off_the_writer_before(database: Database) -> None:
    first = open_journal(database, JOB, "master-1", 1.0)
    add(database, first.fence, 1)
    second = open_journal(database, JOB, "master-2", 2.0)
    assert second == OpenedJournal(2, 1, 0)
    with pytest.raises(FencedOff):
        add(database, first.fence, 2)
    add(database, second.fence, 2)
    assert open_journal(database, JOB, "master-2", 3.0).fence == 2  # its request was sent twice
    assert [batch.number for batch in read_from(database, JOB)] == [1, 2]


def test_the_last_batch_again_changes_nothing_and_others_are_refused(database: Database) -> None:
    fence = open_journal(database, JOB, "master-1", 1.0).fence
    add(database, fence, 1, b"a", b"x")
    assert add(database, fence, 1, b"a", b"x") == 1
    for operations, lasting in ((b"b", b"x"), (b"a", b"y"), (b"ax", b""), (b"", b"ax")):
        with pytest.raises(Conflict):
            add(database, fence, 1, operations, lasting)
    for number in (0, 3, -1):
        with pytest.raises(Conflict):
            add(database, fence, number)
    add(database, fence, 2)
    with pytest.raises(Conflict):
        add(database, fence, 1, b"a", b"x")
    assert [batch.number for batch in read_from(database, JOB)] == [1, 2]


def test_a_snapshot_replaces_operations_and_keeps_what_lasts(database: Database) -> None:
    fence = open_journal(database, JOB, "master-1", 1.0).fence
    add(database, fence, 1, b"o1", b"event 1")
    add(database, fence, 2, b"o2")
    add(database, fence, 3, b"o3", b"event 3")
    add(database, fence, 4, b"state", b"event 4", snapshot=True)
    add(database, fence, 5, b"o5")
    assert list(read_from(database, JOB)) == [
        JournalBatch(1, False, b"", b"event 1"),
        JournalBatch(3, False, b"", b"event 3"),
        JournalBatch(4, True, b"state", b"event 4"),
        JournalBatch(5, False, b"o5", b""),
    ]
    assert open_journal(database, JOB, "master-2", 1.0) == OpenedJournal(2, 5, 4)


def test_a_batch_may_have_16_megabytes_and_no_more(database: Database) -> None:
    fence = open_journal(database, JOB, "master-1", 1.0).fence
    operations, lasting = os.urandom(MAX_BATCH_BYTES - CHUNK_BYTES - 1), os.urandom(CHUNK_BYTES + 1)
    add(database, fence, 1, operations, lasting)
    with pytest.raises(InvalidRequest):
        add(database, fence, 2, operations, lasting + b"x")
    [read] = read_from(database, JOB)
    assert (read.operations, read.lasting) == (operations, lasting)


def test_a_reader_notices_a_snapshot_that_is_written_meanwhile(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pliant.brain.store.journals.PAGE_BATCHES", 1)
    fence = open_journal(database, JOB, "master-1", 1.0).fence
    add(database, fence, 1, b"o1")
    add(database, fence, 2, b"o2")
    reading = read_from(database, JOB)
    assert next(reading).operations == b"o1"
    add(database, fence, 3, b"state", snapshot=True)
    with pytest.raises(DatabaseBusy):
        next(reading)


def test_journals_of_jobs_are_apart(database: Database) -> None:
    open_journal(database, JOB, "master-1", 1.0)
    with pytest.raises(NotFound):
        list(read_from(database, identity(uid="u2")))
    with pytest.raises(NotFound):
        commit(database, identity(uid="u2"), 1, 1, b"", b"", is_snapshot=False, now=1.0)
    with pytest.raises(InvalidRequest):
        open_journal(database, JOB, "", 1.0)
