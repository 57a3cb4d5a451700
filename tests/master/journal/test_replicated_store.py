"""The journal in the Brain's database, over the real service on a Unix socket, on SQLite, PostgreSQL and MariaDB."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.brain.journal_brain import JournalBrain
from tests.master.journal.copies import Backup, ListMaster, identity, remove_journal

from pliant.brain.store import journals
from pliant.brain.store.database import Database
from pliant.core.errors import BrainUnavailable, Conflict, CorruptData, FencedOff, MasterUnavailable
from pliant.core.job_state import Operation
from pliant.master.journal import brain_caller, replicated_store
from pliant.master.journal.local_copy import LocalCopy
from pliant.master.journal.store import Batch, SqliteStore
from pliant.testing.waiting import MAX_WAIT_S, wait_until

pytestmark = pytest.mark.databases


class Waiting(threading.Thread):
    """Something that waits for the Brain, in a thread as the journal's."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001  # the test looks at it
            self.error = error

    def ended(self) -> Exception | None:
        self.join(MAX_WAIT_S)
        assert not self.is_alive()
        return self.error


def outages(caplog: pytest.LogCaptureFixture) -> int:
    return sum("the journal waits for the Brain" in record.message for record in caplog.records)


# --- a disk that is lost


def test_a_master_with_an_empty_folder_continues_with_everything_that_was_committed(
    brain: JournalBrain, tmp_path: Path
) -> None:
    first = ListMaster.start(brain, tmp_path / "a")
    first.accept(1)
    first.accept(2, 3)
    first.end()
    second = ListMaster.start(brain, tmp_path / "b")
    second.check([1, 2, 3])
    second.accept(4)
    second.end()
    ListMaster.start(brain, tmp_path / "c").end().check([1, 2, 3, 4])


def test_operations_before_a_snapshot_are_gone_and_events_and_audit_are_not(
    brain: JournalBrain, tmp_path: Path, database: Database
) -> None:
    first = ListMaster.start(brain, tmp_path / "a")
    for value in range(10):
        first.accept(value)
    first.snapshot()
    first.snapshot(10)
    first.accept(11)
    first.end()
    stored = Backup.take(database, identity())
    assert {found["number"] for found in stored.chunks if found["kind"] == 0} == {12, 13}
    ListMaster.start(brain, tmp_path / "b").end().check(list(range(12)))


def test_a_copy_that_is_behind_gets_only_what_it_lacks(brain: JournalBrain, tmp_path: Path) -> None:
    first = ListMaster.start(brain, tmp_path / "a")
    first.accept(1)
    first.end()
    shutil.copytree(tmp_path / "a", tmp_path / "old")
    first = ListMaster.start(brain, tmp_path / "a")
    first.accept(2)
    first.snapshot(3)
    first.accept(4)
    first.end()
    ListMaster.start(brain, tmp_path / "old").end().check([1, 2, 3, 4])


def test_a_master_that_dies_between_the_database_and_its_copy_finds_the_decision_again(
    brain: JournalBrain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = ListMaster.start(brain, tmp_path / "a")
    master.accept(1)
    with monkeypatch.context() as patch:
        patch.setattr(LocalCopy, "add", _killed)
        with pytest.raises(OSError, match="killed"):
            master.accept(2)
    master.end()
    again = ListMaster.start(brain, tmp_path / "a")
    again.check([1, 2])
    again.accept(3)
    again.end().check([1, 2, 3])


def test_a_job_of_another_uid_begins_anew(brain: JournalBrain, tmp_path: Path) -> None:
    first = ListMaster.start(brain, tmp_path / "a")
    first.accept(1)
    first.end()
    ListMaster.start(brain, tmp_path / "b", job=identity(uid="uid-2")).end().check([])


def test_a_journal_that_was_a_file_so_far_is_sent_to_the_database(brain: JournalBrain, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    store = SqliteStore(tmp_path / "a" / "journal.db")
    store.commit(Batch([Operation("list", "add", 1.0, {"value": 7})]))
    store.close()
    first = ListMaster.start(brain, tmp_path / "a")
    assert first.values == [7]
    first.accept(8)
    first.end()
    second = ListMaster.start(brain, tmp_path / "b")
    assert second.values == [7, 8]
    second.end()


# --- another master


def test_a_master_that_another_one_took_over_from_can_never_commit_again(brain: JournalBrain, tmp_path: Path) -> None:
    first = ListMaster.start(brain, tmp_path / "a")
    first.accept(1)
    second = ListMaster.start(brain, tmp_path / "b")
    for _ in range(2):
        with pytest.raises(FencedOff, match="another master has taken over job local/job"):
            first.accept(2)
    second.accept(3)
    second.end().check([1, 3])
    first.end()


def test_a_fenced_off_master_does_not_come_back_by_a_restart_but_by_a_person(
    brain: JournalBrain, tmp_path: Path
) -> None:
    first = ListMaster.start(brain, tmp_path / "a")
    first.accept(1)
    second = ListMaster.start(brain, tmp_path / "b")
    second.accept(2)
    with pytest.raises(FencedOff):
        first.accept(3)
    first.end()
    with pytest.raises(FencedOff, match="another master has taken over") as refused:
        ListMaster.start(brain, tmp_path / "a")
    assert "pliant resume" in refused.value.hint
    second.accept(4)  # it was not disturbed
    back = ListMaster.start(brain, tmp_path / "a", takes_back=True)
    back.check([1, 2, 4])
    with pytest.raises(FencedOff):
        second.accept(5)
    back.accept(6)
    back.end()
    second.end()
    ListMaster.start(brain, tmp_path / "a").end().check([1, 2, 4, 6])


# --- a Brain that is away


def test_a_commit_waits_while_the_brain_is_away_and_says_so_once(
    brain: JournalBrain, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brain_caller, "MAX_PAUSE_S", 0.02)
    master = ListMaster.start(brain, tmp_path / "a")
    master.accept(1)
    brain.stop()
    tries = _count_calls(monkeypatch)
    waiting = Waiting(lambda: master.accept(2))
    wait_until(lambda: tries[0] > 5, MAX_WAIT_S, "some attempts")
    assert waiting.is_alive()
    brain.start()
    assert waiting.ended() is None
    master.accept(3)
    master.end().check([1, 2, 3])
    assert outages(caplog) == 1
    ListMaster.start(brain, tmp_path / "b").end().check([1, 2, 3])


def test_a_decision_whose_answer_was_lost_is_there_once(
    brain: JournalBrain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed: list[int] = []
    real = journals.commit

    def answered_late(*args: Any, **kwargs: Any) -> int:
        number = real(*args, **kwargs)
        committed.append(number)
        if len(committed) % 2:
            raise BrainUnavailable("the connection broke after it was committed")
        return number

    monkeypatch.setattr(journals, "commit", answered_late)
    master = ListMaster.start(brain, tmp_path / "a")
    for value in range(5):
        master.accept(value)
    master.end()
    assert committed == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    ListMaster.start(brain, tmp_path / "b").end().check([0, 1, 2, 3, 4])


def test_a_master_that_is_told_to_end_does_not_wait_for_the_brain(
    brain: JournalBrain, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    master = ListMaster.start(brain, tmp_path / "a")
    brain.stop()
    waiting = Waiting(lambda: master.accept(1))
    wait_until(lambda: outages(caplog), MAX_WAIT_S, "an outage")
    master.store.limit_outage(0.0)
    assert isinstance(waiting.ended(), BrainUnavailable)
    master.end()


def test_without_a_brain_a_master_does_not_start_and_says_why(
    brain: JournalBrain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicated_store, "START_OUTAGE_S", 0.05)
    brain.stop()
    with pytest.raises(BrainUnavailable, match="the Brain does not take the journal") as refused:
        ListMaster.start(brain, tmp_path / "a")
    assert "brain.sock" in refused.value.hint


def test_a_brain_that_is_not_the_active_one_is_one_that_is_away(
    brain: JournalBrain, tmp_path: Path, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    master = ListMaster.start(brain, tmp_path / "a")
    other = JournalBrain(tmp_path / "other", database).start()  # takes the lease; the first one serves on
    waiting = Waiting(lambda: master.accept(1))
    wait_until(lambda: outages(caplog), MAX_WAIT_S, "an outage")
    assert waiting.is_alive()
    other.stop()
    brain.stop()
    brain.start()
    assert waiting.ended() is None
    master.end().check([1])


# --- a database that was restored


def test_a_copy_that_is_ahead_of_a_restored_database_wins_and_the_database_gets_what_it_lacks(
    brain: JournalBrain, tmp_path: Path, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    master = ListMaster.start(brain, tmp_path / "a")
    master.accept(1, 2)
    backup = Backup.take(database, identity())
    master.accept(3)
    master.snapshot(4)
    master.accept(5)
    master.end()
    backup.restore(database)
    again = ListMaster.start(brain, tmp_path / "a")
    again.check([1, 2, 3, 4, 5])
    assert any("restored from a backup" in record.message for record in caplog.records)
    again.accept(6)
    again.end()
    ListMaster.start(brain, tmp_path / "b").end().check([1, 2, 3, 4, 5, 6])


def test_a_database_that_is_restored_under_a_running_master_ends_it_and_the_next_one_mends_it(
    brain: JournalBrain, tmp_path: Path, database: Database
) -> None:
    master = ListMaster.start(brain, tmp_path / "a")
    master.accept(1)
    backup = Backup.take(database, identity())
    master.accept(2)
    backup.restore(database)
    with pytest.raises(MasterUnavailable, match="is not what it was"):
        master.accept(3)
    master.end()
    ListMaster.start(brain, tmp_path / "a").end().check([1, 2])
    ListMaster.start(brain, tmp_path / "b").end().check([1, 2])


def test_a_journal_that_is_gone_from_the_database_is_sent_there_again(
    brain: JournalBrain, tmp_path: Path, database: Database
) -> None:
    master = ListMaster.start(brain, tmp_path / "a")
    master.accept(1)
    master.snapshot(2)
    master.end()
    remove_journal(database, int(Backup.take(database, identity()).head["id"]))
    ListMaster.start(brain, tmp_path / "a").end().check([1, 2])
    ListMaster.start(brain, tmp_path / "b").end().check([1, 2])


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_master_that_dies_while_it_sends_its_copy_again_leaves_nothing_half_done(
    brain: JournalBrain,
    tmp_path: Path,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    is_committed: bool,
) -> None:
    master = ListMaster.start(brain, tmp_path / "a")
    master.accept(1)
    backup = Backup.take(database, identity())
    master.accept(2)  # the batch that is sent again has this one's number
    master.end()
    backup.restore(database)
    real = replicated_store.ReplicatedStore._send

    def killed(store: Any, found: Any) -> None:
        if is_committed:
            real(store, found)
        raise OSError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(replicated_store.ReplicatedStore, "_send", killed)
        with pytest.raises(OSError, match="killed"):
            ListMaster.start(brain, tmp_path / "a")
    again = ListMaster.start(brain, tmp_path / "a")
    again.check([1, 2])
    again.accept(3)
    again.end()
    ListMaster.start(brain, tmp_path / "b").end().check([1, 2, 3])


@pytest.mark.parametrize("others", [1, 2, 5], ids=lambda n: f"{n} others")
@pytest.mark.parametrize("with_snapshot", [True, False])
def test_a_copy_that_went_another_way_than_the_database_is_refused_by_both_names(
    brain: JournalBrain, tmp_path: Path, database: Database, others: int, with_snapshot: bool
) -> None:
    master = ListMaster.start(brain, tmp_path / "a")
    master.accept(1)
    backup = Backup.take(database, identity())
    master.accept(2)
    master.accept(3)
    master.end()
    backup.restore(database)
    elsewhere = ListMaster.start(brain, tmp_path / "b")  # whose disk is lost: it knows nothing of 2 and 3
    for value in range(10, 10 + others):
        elsewhere.accept(value)
    if with_snapshot:
        elsewhere.snapshot()
    elsewhere.end()
    with pytest.raises(Conflict, match="two different histories") as refused:
        ListMaster.start(brain, tmp_path / "a")
    assert "move the file away" in refused.value.hint
    for file in (tmp_path / "a").glob("journal.db*"):
        file.unlink()
    ListMaster.start(brain, tmp_path / "a").end().check([1, *range(10, 10 + others)])


def test_the_copy_of_another_job_is_refused(brain: JournalBrain, tmp_path: Path) -> None:
    ListMaster.start(brain, tmp_path / "a").end()
    with pytest.raises(Conflict, match="is the journal of another job") as refused:
        ListMaster.start(brain, tmp_path / "a", job=identity(uid="uid-2"))
    assert "move the file away" in refused.value.hint


def test_a_batch_that_somebody_edited_in_the_database_is_refused(
    brain: JournalBrain, tmp_path: Path, database: Database
) -> None:
    master = ListMaster.start(brain, tmp_path / "a")
    master.accept(1)
    master.end()
    backup = Backup.take(database, identity())
    backup.chunks[0]["data"] = b'{"writer": 1'
    backup.restore(database)
    with pytest.raises(CorruptData, match="batch 1 of the journal in the Brain's database is corrupt"):
        ListMaster.start(brain, tmp_path / "b")


# --- size


def test_a_snapshot_that_is_larger_than_a_message_travels_in_parts(brain: JournalBrain, tmp_path: Path) -> None:
    noise = Random(1).randbytes(20 << 20).hex()  # compressed to 20 MB
    master = ListMaster.start(brain, tmp_path / "a")
    master.accept(1)
    master.snapshot(2, extra={"noise": noise})
    master.accept(3)
    master.end()
    again = ListMaster.start(brain, tmp_path / "b")
    again.check([1, 2, 3])
    found = again.store._copy.load().snapshot
    assert found is not None
    assert found.state["list"]["noise"] == noise
    again.end()


def test_thousands_of_batches_are_read_in_order(brain: JournalBrain, tmp_path: Path) -> None:
    master = ListMaster.start(brain, tmp_path / "a")
    for value in range(1200):
        master.accept(value)
    master.end()
    ListMaster.start(brain, tmp_path / "b").end().check(list(range(1200)))


# --- helpers


def _killed(*_: object) -> None:
    raise OSError("killed")


def _count_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    count = [0]
    real = brain_caller.BrainCaller._connected

    def counted(caller: brain_caller.BrainCaller) -> Any:
        count[0] += 1
        return real(caller)

    monkeypatch.setattr(brain_caller.BrainCaller, "_connected", counted)
    return count


@pytest.fixture(autouse=True)
def _warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
