from __future__ import annotations

import asyncio
import json
import random
import shutil
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pliant.core.errors import CorruptData, FencedOff, InvalidRequest, MasterUnavailable, PliantError
from pliant.core.events import EventRecord, TrainingStopped
from pliant.core.job import JobBook
from pliant.core.job_state import JobSnapshot, JobState, Operation
from pliant.core.shards.audit import AuditRow
from pliant.core.shards.book import ShardBook
from pliant.master import process
from pliant.master.job_dir import JobDir
from pliant.master.journal import journal as journal_module
from pliant.master.journal.journal import Journal
from pliant.master.journal.notes import MAX_INLINE_BYTES, NoteStore
from pliant.master.journal.store import (
    Batch,
    JournalStore,
    Recovered,
    SqliteStore,
    read_audit,
    read_events,
)
from pliant.spec import JobSpec
from pliant.testing import ManualClock
from pliant.testing.waiting import MAX_WAIT_S

DATASET = {"name": "train", "size": 100, "shard_size": 10}


class GatedStore(JournalStore):
    """Commits nothing until it is let, and remembers each batch."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.batches: list[Batch] = []
        self.failure: Exception | None = None

    def load(self) -> Recovered:
        return Recovered(None, [], 0)

    def commit(self, batch: Batch) -> None:
        self.gate.wait(MAX_WAIT_S)
        if self.failure is not None:
            raise self.failure
        self.batches.append(batch)

    def close(self) -> None:
        self.gate.set()


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(scenario(), MAX_WAIT_S)

    asyncio.run(bounded())


async def turns(number: int = 5) -> None:
    """Let whatever is ready on the loop run."""
    for _ in range(number):
        await asyncio.sleep(0)


def a_job(book: ShardBook | None = None) -> JobState:
    return JobState(job=JobBook(), shards=book)


def replayed(recovered: Recovered) -> ShardBook:
    book = ShardBook()
    a_job(book).replay(recovered.snapshot, recovered.operations, source="the journal")
    return book


def test_nothing_is_durable_before_the_disk_has_it() -> None:
    async def scenario() -> None:
        store = GatedStore()
        journal = Journal(store, ManualClock(), a_job())
        journal.event(TrainingStopped(reason="first"))
        waiting = asyncio.create_task(journal.durable())
        await turns()
        assert not waiting.done()
        store.gate.set()
        await waiting
        assert [e.facts["reason"] for batch in store.batches for e in batch.events] == ["first"]
        await journal.close()

    run(scenario)


def test_durable_returns_at_once_when_nothing_is_under_way() -> None:
    async def scenario() -> None:
        journal = Journal(GatedStore(), ManualClock(), a_job())
        await journal.durable()
        await journal.close()

    run(scenario)


def test_one_commit_serves_all_that_gathered_while_the_disk_was_busy() -> None:
    async def scenario() -> None:
        store = GatedStore()
        journal = Journal(store, ManualClock(), a_job())

        async def handler(number: int) -> None:
            journal.event(TrainingStopped(reason=str(number)))
            await journal.durable()

        handlers = [asyncio.create_task(handler(n)) for n in range(100)]
        await turns()
        store.gate.set()
        await asyncio.gather(*handlers)
        assert len(store.batches) <= 3
        assert [e.facts["reason"] for batch in store.batches for e in batch.events] == [str(n) for n in range(100)]
        await journal.close()

    run(scenario)


def test_an_answer_waits_for_what_another_call_has_changed_before_it() -> None:
    async def scenario() -> None:
        store = GatedStore()
        journal = Journal(store, ManualClock(), a_job())
        journal.event(TrainingStopped(reason="of another call"))
        reader = asyncio.create_task(journal.durable())  # notes nothing of its own
        await turns()
        assert not reader.done()
        store.gate.set()
        await reader
        await journal.close()

    run(scenario)


def test_what_is_noted_without_an_await_between_is_committed_together_or_not_at_all() -> None:
    async def scenario() -> None:
        store = GatedStore()
        store.gate.set()
        book = ShardBook()
        journal = Journal(store, ManualClock(), a_job(book))
        for number in range(50):
            journal.do(book.create, dataset={**DATASET, "name": f"d{number}"})
            journal.event(TrainingStopped(reason=str(number)))
            journal.audit([AuditRow("d", 0, number, "d", 0, 1, 0, 1, "n", "s", 1)])
            await turns(1)
        await journal.close()
        for batch in store.batches:
            assert len(batch.operations) == len(batch.events) == len(batch.audit)

    run(scenario)


def test_what_was_done_step_by_step_is_replayed_as_the_call_that_it_comes_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "SNAPSHOT_EVERY", 3)

    async def scenario() -> None:
        book, clock = ShardBook(), ManualClock()
        store = SqliteStore(tmp_path / "journal.db")
        journal = Journal(store, clock, a_job(book))
        journal.do(book.create, dataset=DATASET)
        journal.do(book.open_session, session="s", node="w", incarnation=0)
        book.exchange(clock.now(), session="s", request=1, dataset="train", want=2)
        journal.record(book.exchange, 1, session="s", request=1, dataset="train", want=2)
        book.exchange(clock.now(), session="s", request=2, dataset="train", want=1, done=[1])
        journal.record(book.exchange, 16, session="s", request=2, dataset="train", want=1, done=[1])
        await journal.durable()
        found = SqliteStore(tmp_path / "journal.db").load()
        assert len(found.operations) == 1, "many steps count as several operations, so a snapshot is due after them"
        assert replayed(found).snapshot() == book.snapshot()
        await journal.close()

    run(scenario)


def test_a_call_that_is_refused_is_not_in_the_journal() -> None:
    async def scenario() -> None:
        store = GatedStore()
        store.gate.set()
        book = ShardBook()
        journal = Journal(store, ManualClock(), a_job(book))
        with pytest.raises(PliantError):
            journal.do(book.create, dataset={**DATASET, "shard_size": 0})
        await journal.close()
        assert not any(store.batches)

    run(scenario)


def test_operations_after_a_snapshot_in_the_same_batch_are_replayed_on_top_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "SNAPSHOT_EVERY", 3)
    book = ShardBook()

    async def scenario() -> None:
        journal = Journal(SqliteStore(tmp_path / "j.db"), ManualClock(), a_job(book))
        journal.do(book.create, dataset=DATASET)
        journal.do(book.open_session, session="s", node="n", incarnation=0)
        for number in range(1, 9):  # snapshots fall in the middle of it
            journal.do(book.exchange, session="s", request=number, dataset="train", want=1)
        await journal.close()

    run(scenario)
    store = SqliteStore(tmp_path / "j.db")
    recovered = store.load()
    store.close()
    assert recovered.snapshot is not None
    assert len(recovered.operations) < 3, "what the snapshot holds was dropped"
    assert replayed(recovered).snapshot() == book.snapshot()


def test_a_copy_of_the_file_at_any_instant_replays_to_a_state_that_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "SNAPSHOT_EVERY", 7)
    states: list[str] = []
    book = ShardBook()
    dice = random.Random(20)
    copies = 0

    class Copying(SqliteStore):
        def commit(self, batch: Batch) -> None:
            nonlocal copies
            super().commit(batch)
            if dice.random() < 0.5:
                copies += 1
                for file in tmp_path.glob("j.db*"):
                    shutil.copy(file, tmp_path / file.name.replace("j.db", f"copy{copies}.db"))

    def remember() -> None:
        states.append(json.dumps(book.snapshot()))

    async def scenario() -> None:
        clock = ManualClock()
        journal = Journal(Copying(tmp_path / "j.db"), clock, a_job(book))
        remember()
        journal.do(book.create, dataset={**DATASET, "epochs": 3, "shuffle": True})
        remember()
        journal.do(book.open_session, session="s", node="n", incarnation=0)
        remember()
        held: list[int] = []
        for number in range(1, 60):
            done = dice.sample(held, dice.randrange(len(held) + 1))
            answer = journal.do(
                book.exchange, session="s", request=number, dataset="train", want=dice.randrange(3), done=done
            )
            held = [n for n in held if n not in done] + [lease.number for lease in answer.leases]
            remember()
            clock.advance(1.0)
            await (turns(1) if dice.random() < 0.5 else journal.durable())
        await journal.close()

    run(scenario)
    assert copies > 5
    seen = []
    for number in range(1, copies + 1):
        store = SqliteStore(tmp_path / f"copy{number}.db")
        state = json.dumps(replayed(store.load()).snapshot())
        store.close()
        assert state in states
        seen.append(len(states) - 1 - states[::-1].index(state))
    assert seen == sorted(seen), "later copies hold later states"


@pytest.mark.parametrize(
    "failure",
    [
        OSError(28, "No space left on device"),
        sqlite3.OperationalError("database is locked"),
        sqlite3.OperationalError("database or disk is full"),
        TypeError("a bug: not JSON"),
    ],
    ids=str,
)
def test_if_the_disk_fails_nothing_more_is_answered_and_the_master_is_told(failure: Exception) -> None:
    async def scenario() -> None:
        store = GatedStore()
        store.failure = failure
        store.gate.set()
        journal = Journal(store, ManualClock(), a_job())
        told: list[Exception] = []
        journal.on_failure = told.append
        journal.event(TrainingStopped(reason="never stored"))
        for _ in range(2):
            with pytest.raises(MasterUnavailable, match="cannot write its journal"):
                await journal.durable()
        assert told == [failure]
        journal.event(TrainingStopped(reason="after it"))
        with pytest.raises(MasterUnavailable):
            await journal.durable()
        await journal.close()
        assert store.batches == []

    run(scenario)


def test_a_locked_file_is_not_written_to_and_keeps_what_it_had(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "j.db")
    store.commit(Batch(operations=[Operation("job", "a", 1.0, {})]))
    store._db.execute("PRAGMA busy_timeout = 1")
    other = sqlite3.connect(tmp_path / "j.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        store.commit(Batch(operations=[Operation("job", "b", 2.0, {})]))
    other.execute("ROLLBACK")
    other.close()
    store.commit(Batch(operations=[Operation("job", "c", 3.0, {})]))
    assert [op.method for op in store.load().operations] == ["a", "c"]
    store.close()


def test_a_batch_that_cannot_be_stored_leaves_nothing_of_itself(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "j.db")
    store.commit(Batch(events=[EventRecord(1, 0.0, TrainingStopped(reason="first"))]))
    half_bad = Batch(
        operations=[Operation("job", "a", 1.0, {})], events=[EventRecord(1, 0.0, TrainingStopped(reason="again"))]
    )
    with pytest.raises(sqlite3.IntegrityError):
        store.commit(half_bad)
    not_json = Batch(operations=[Operation("job", "a", 1.0, {"x": object()})])
    with pytest.raises(TypeError):
        store.commit(not_json)
    assert store.load().operations == []
    store.commit(Batch(events=[EventRecord(2, 0.0, TrainingStopped(reason="second"))]))
    store.close()
    assert [event.facts["reason"] for event in read_events(tmp_path / "j.db")] == ["first", "second"]


def test_an_event_with_any_text_can_be_stored(tmp_path: Path) -> None:
    async def scenario() -> None:
        journal = Journal(SqliteStore(tmp_path / "j.db"), ManualClock(), a_job())
        journal.event(TrainingStopped(reason="half a pair: \ud800, a nul: \0, and very long: " + "x" * 100_000))
        await journal.durable()
        await journal.close()

    run(scenario)
    (event,) = read_events(tmp_path / "j.db")
    assert event.facts["reason"].startswith("half a pair: ?")
    assert len(event.message) < 5000


def test_events_are_numbered_on_after_a_restart_and_read_in_pages(tmp_path: Path) -> None:
    async def scenario() -> None:
        for _ in range(2):
            store = SqliteStore(tmp_path / "j.db")
            journal = Journal(store, ManualClock(), a_job(), last_event=store.load().last_event)
            for text in "abc":
                journal.event(TrainingStopped(reason=text))
            await journal.close()

    run(scenario)
    assert [(e.number, e.facts["reason"]) for e in read_events(tmp_path / "j.db", after=2, limit=3)] == [
        (3, "c"),
        (4, "a"),
        (5, "b"),
    ]


def test_the_audit_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = [AuditRow("train", 0, n, "f", 10 * n, 10 * n + 10, 0, 10, "worker-0", "s", n) for n in range(3)]
    store = SqliteStore(tmp_path / "j.db")
    store.commit(Batch(audit=rows))
    assert read_audit(tmp_path / "j.db") == rows
    store.close()


@pytest.mark.parametrize(
    "content", [b"this is no database, but long enough to look like one" * 100, b"SQLite format 3\0" + b"\xff" * 8000]
)
def test_a_file_that_is_no_journal_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "j.db").write_bytes(content)
    with pytest.raises(CorruptData, match=r"j\.db is not a Pliant journal"):
        SqliteStore(tmp_path / "j.db").load()
    assert (tmp_path / "j.db").read_bytes() == content, "it was left as it is"


def test_a_database_of_someone_else_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "j.db") as db:
        db.execute("CREATE TABLE meta (something TEXT)")
    db.close()
    with pytest.raises(CorruptData):
        SqliteStore(tmp_path / "j.db")


def test_a_journal_with_a_page_overwritten_is_refused(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "j.db")
    store.commit(Batch(operations=[Operation("job", "a", float(n), {"text": "x" * 200}) for n in range(500)]))
    store.close()
    content = bytearray((tmp_path / "j.db").read_bytes())
    content[4096 * 2 :] = b"\x07" * (len(content) - 4096 * 2)
    (tmp_path / "j.db").write_bytes(content)
    with pytest.raises(CorruptData, match="is corrupt"):
        SqliteStore(tmp_path / "j.db").load()


@pytest.mark.parametrize("found", ["2", "0", "one"])
def test_a_journal_of_another_format_is_refused_naming_both(tmp_path: Path, found: str) -> None:
    SqliteStore(tmp_path / "j.db").close()
    with sqlite3.connect(tmp_path / "j.db") as db:
        db.execute("UPDATE meta SET value = ?", (found,))
    db.close()
    with pytest.raises(CorruptData, match=f"format {found}; this release supports 1"):
        SqliteStore(tmp_path / "j.db")


def test_a_row_that_is_no_json_is_refused(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "j.db")
    store.commit(Batch(operations=[Operation("job", "a", 1.0, {})]))
    store._db.execute("UPDATE operations SET arguments = '{'")
    with pytest.raises(CorruptData):
        store.load()
    store.close()


def test_a_folder_that_is_not_there_is_no_corrupt_journal(tmp_path: Path) -> None:
    with pytest.raises(MasterUnavailable, match="cannot be opened"):
        SqliteStore(tmp_path / "none" / "j.db")


def test_appended_batches_are_one_after_the_other() -> None:
    def operation(method: str) -> Operation:
        return Operation("job", method, 0.0, {})

    state = JobSnapshot({"job": {}}, {})
    whole = Batch(operations=[operation("a")])
    whole.append(Batch(operations=[operation("b")]))
    assert [op.method for op in whole.operations] == ["a", "b"]
    whole.append(Batch(operations=[operation("c")], snapshot=state))
    assert (whole.snapshot, [op.method for op in whole.operations]) == (state, ["c"])
    whole.append(Batch(operations=[operation("d")]))
    assert (whole.snapshot, [op.method for op in whole.operations]) == (state, ["c", "d"])


@pytest.mark.parametrize(("sync", "level"), [("full", 2), ("normal", 1)])
def test_a_journal_is_synced_as_the_job_says(tmp_path: Path, sync: str, level: int) -> None:
    store = SqliteStore(tmp_path / "journal.db", sync=sync)
    (found,) = store._db.execute("PRAGMA synchronous").fetchone()
    store.close()
    assert found == level


@pytest.mark.parametrize(("section", "sync"), [({}, "full"), ({"sync": "normal"}, "normal")])
def test_a_master_has_its_journal_synced_unless_its_job_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: dict[str, str], sync: str
) -> None:
    opened: list[str] = []

    def refuse(_path: Path, *, sync: str) -> None:
        opened.append(sync)
        raise PliantError("that is all we want to know")

    monkeypatch.setattr(process, "SqliteStore", refuse)
    home = JobDir(tmp_path / "job")
    home.create()
    home.spec.write_text(JobSpec.from_dict({"roles": {"worker": {"command": ["x"]}}, "journal": section}).to_yaml())
    with pytest.raises(PliantError, match="all we want to know"):
        asyncio.run(process.Master(home).run())
    assert opened == [sync]


class AwayStore(GatedStore):
    """Its storage is away: a commit waits until that may not last any longer."""

    def commit(self, batch: Batch) -> None:
        assert self.gate.wait(MAX_WAIT_S)
        raise MasterUnavailable("the storage is away")

    def limit_outage(self, seconds: float) -> None:
        self.gate.set()


def test_a_journal_whose_storage_is_away_says_for_how_long_and_can_be_closed() -> None:
    async def scenario() -> None:
        journal = Journal(AwayStore(), ManualClock(), a_job())
        assert journal.waited_s() == 0.0
        journal.event(TrainingStopped(reason="waits"))
        waiting = asyncio.create_task(journal.durable())
        await turns()
        assert journal.waited_s() > 0.0
        await journal.close()
        with pytest.raises(MasterUnavailable, match="the storage is away"):
            await waiting
        with pytest.raises(MasterUnavailable):
            await journal.durable()

    run(scenario)


def test_a_journal_without_anything_to_commit_finds_out_that_another_master_took_over() -> None:
    class TakenOver(GatedStore):
        check_every_s = 0.01

        def check(self) -> None:
            raise FencedOff("another master has taken over")

    async def scenario() -> None:
        journal = Journal(TakenOver(), ManualClock(), a_job())
        told: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        journal.on_failure = told.set_result
        assert isinstance(await told, FencedOff)
        with pytest.raises(MasterUnavailable, match="another master has taken over"):
            await journal.durable()
        await journal.close()

    run(scenario)


def test_a_note_that_would_be_a_file_is_refused_where_the_journal_is_elsewhere(tmp_path: Path) -> None:
    notes = NoteStore(tmp_path, has_files=False)
    assert notes.read("eval", notes.keep("eval", bytes(MAX_INLINE_BYTES))) == bytes(MAX_INLINE_BYTES)
    with pytest.raises(InvalidRequest, match=r"journal\.store: database"):
        notes.keep("eval", bytes(MAX_INLINE_BYTES + 1))
    assert not list(tmp_path.iterdir())
