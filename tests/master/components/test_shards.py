from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pliant.core.end_policy import lost_records, parked_shards
from pliant.core.errors import InvalidRequest, NotFound, SessionExpired
from pliant.core.events import EventKind
from pliant.core.job import JobBook
from pliant.core.job_state import JobState
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.shards.book import ShardBook
from pliant.core.shards.datasets import DatasetSpec, ShardType
from pliant.core.shards.leases import Availability
from pliant.master.components.shards import DataShardManager
from pliant.master.components.signals import ProgramGone, RecordsAccepted, SignalBus
from pliant.master.journal.journal import Journal
from pliant.master.journal.notes import NoteStore
from pliant.master.journal.store import read_audit, read_events
from pliant.testing import ManualClock, PerishableStore
from pliant.testing.waiting import MAX_WAIT_S


class JournaledShardManager:
    """A shard manager with a clock that stands still and a journal in a file."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.path = folder / "journal.db"
        self.clock = ManualClock()
        self.book = ShardBook()
        state = JobState(job=JobBook(), shards=self.book)
        self.journal = Journal(PerishableStore(self.path), self.clock, state)
        self.signals = SignalBus()
        notes = NoteStore(folder / "notes")
        self.manager = DataShardManager(self.book, self.journal, self.clock, self.signals, notes=notes, **options)
        self.numbers: dict[str, int] = {}

    def open(self, session: str, dataset: DatasetSpec | None = None) -> None:
        if dataset is not None:
            self.manager.create_shards(dataset)
        self.manager.open_session(session, f"node-of-{session}", 0)

    def take(self, session: str, want: int = 1, done: list[int] | None = None, dataset: str = "train") -> list[int]:
        number = self.numbers[session] = self.numbers.get(session, 0) + 1
        answer = self.manager.get_shard(session, number, dataset, want, done or [], [], [], [])
        return [lease.number for lease in answer.leases]

    async def still_waits(self, waiting: asyncio.Task[Any]) -> bool:
        for _ in range(5):
            await asyncio.sleep(0)
        return not waiting.done()


TRAIN = DatasetSpec("train", 10, size=40)
STREAM = DatasetSpec("train", 10, stream=True)


def run(
    folder: Path, scenario: Callable[[JournaledShardManager], Awaitable[None]], **options: Any
) -> JournaledShardManager:
    async def bounded() -> JournaledShardManager:
        shards = JournaledShardManager(folder, **options)
        await asyncio.wait_for(scenario(shards), MAX_WAIT_S)
        await shards.journal.durable()
        await shards.journal.close()
        return shards

    return asyncio.run(bounded())


def test_a_session_that_is_silent_for_too_long_loses_its_shards_to_others(tmp_path: Path) -> None:
    async def scenario(shards: JournaledShardManager) -> None:
        shards.open("silent", TRAIN)
        shards.open("lively")
        assert shards.take("silent", 4) == [1, 2, 3, 4]
        shards.clock.advance(20)
        shards.manager.beat("lively")
        shards.clock.advance(15)
        shards.manager.expire_silent()
        assert shards.book.sessions() == ["lively"]
        assert shards.take("lively", 4) == [1, 2, 3, 4]
        for late in (lambda: shards.manager.beat("silent"), lambda: shards.take("silent", 0, [1])):
            with pytest.raises(SessionExpired):
                late()

    run(tmp_path, scenario, session_timeout=30)
    (event,) = [e for e in read_events(tmp_path / "journal.db") if e.kind is EventKind.SESSION]
    assert (event.node, event.message) == (
        "node-of-silent",
        "no message from the program of node-of-silent for 35 s; its shards are requeued",
    )


def test_silence_is_counted_anew_after_the_master_was_away(tmp_path: Path) -> None:
    async def scenario(shards: JournaledShardManager) -> None:
        shards.open("s", TRAIN)
        shards.take("s", 2)
        shards.clock.advance(100_000)
        shards.manager.prepare()
        shards.manager.expire_silent()
        assert shards.take("s", 0, [1, 2]) == []
        assert shards.book.queue("train").finished_records == 20

    run(tmp_path, scenario)


def test_a_shard_without_a_report_goes_to_others_though_its_session_lives(tmp_path: Path) -> None:
    async def scenario(shards: JournaledShardManager) -> None:
        shards.open("stuck", DatasetSpec("train", 10, size=10, lease_floor=50.0))
        shards.open("other")
        shards.take("stuck")
        waiting = asyncio.create_task(shards.manager.wait_for_shards("train"))
        assert await shards.still_waits(waiting)
        shards.clock.advance(60)
        shards.manager.beat("stuck")
        shards.manager.beat("other")
        shards.manager.expire_silent()
        assert await waiting is Availability.MORE
        assert shards.take("other") == [1]
        answer = shards.manager.report_shard_status("stuck", 2, [1])
        assert answer.refused == (1,)

    run(tmp_path, scenario)


@pytest.mark.parametrize("how", ["finish", "release", "close", "recover", "silence"])
def test_who_waits_for_shards_is_woken_by_whatever_brings_some(tmp_path: Path, how: str) -> None:
    async def scenario(shards: JournaledShardManager) -> None:
        shards.open("holder", DatasetSpec("train", 10, size=10))
        shards.open("idle")
        shards.take("holder")
        waiting = asyncio.create_task(shards.manager.wait_for_shards("train"))
        assert await shards.still_waits(waiting)
        if how == "finish":
            shards.take("holder", 0, [1])
        elif how == "release":
            shards.manager.get_shard("holder", 2, None, 0, [], [], [], [1])
        elif how == "close":
            shards.manager.close_session("holder")
        elif how == "recover":
            shards.manager.recover_shard("node-of-holder", None)
        else:
            shards.clock.advance(100)
            shards.manager.beat("idle")
            shards.manager.expire_silent()
        assert await waiting is (Availability.END if how == "finish" else Availability.MORE)

    run(tmp_path, scenario)


def test_a_stream_wakes_its_readers_when_it_grows_and_when_it_is_closed(tmp_path: Path) -> None:
    async def scenario(shards: JournaledShardManager) -> None:
        shards.open("s", STREAM)
        waiting = asyncio.create_task(shards.manager.wait_for_shards("train"))
        assert await shards.still_waits(waiting)
        assert shards.manager.grow_stream("train", 4, False, "p", 1) == 4
        assert await shards.still_waits(waiting), "less than a shard"
        assert shards.manager.grow_stream("train", 8, False, "p", 2) == 12
        assert await waiting is Availability.MORE
        assert shards.take("s", 5) == [1]
        waiting = asyncio.create_task(shards.manager.wait_for_shards("train"))
        assert await shards.still_waits(waiting)
        assert shards.manager.grow_stream("train", 0, True, "p", 3) == 12
        assert await waiting is Availability.MORE
        assert shards.take("s", 5, [1]) == [2]
        shards.take("s", 0, [2])
        assert await shards.manager.wait_for_shards("train") is Availability.END
        assert shards.book.queue("train").finished_records == 12

    run(tmp_path, scenario)


def test_growth_that_is_sent_again_counts_once_even_if_others_grew_it_meanwhile(tmp_path: Path) -> None:
    async def scenario(shards: JournaledShardManager) -> None:
        shards.open("s", STREAM)
        grow = shards.manager.grow_stream
        assert [grow("train", 5, False, "a", 1), grow("train", 5, False, "b", 1)] == [5, 10]
        assert [grow("train", 5, False, "a", 1), grow("train", 5, False, "b", 1)] == [5, 10]
        assert grow("train", 1, True, "a", 2) == 11
        assert grow("train", 1, True, "a", 2) == 11, "also after it was closed"
        assert grow("train", 0, True, "b", 2) == 11, "closing what is closed is no error"
        with pytest.raises(InvalidRequest, match="closed"):
            grow("train", 1, False, "b", 3)
        assert shards.book.queue("train").length == 11

    run(tmp_path, scenario)


def test_growth_is_recognised_after_a_restart_too(tmp_path: Path) -> None:
    async def scenario(shards: JournaledShardManager) -> None:
        shards.open("s", STREAM)
        shards.manager.grow_stream("train", 5, False, "a", 1)
        again = ShardBook()
        again.restore_definitions(shards.book.definitions())
        again.restore(shards.book.snapshot())
        assert again.grow(0.0, dataset="train", records=5, close=False, producer="a", number=1) == 5
        assert again.snapshot() == shards.book.snapshot()

    run(tmp_path, scenario)


def test_the_program_is_blamed_for_its_error_and_nobody_for_a_preemption(tmp_path: Path) -> None:
    async def scenario(shards: JournaledShardManager) -> None:
        shards.open("a", DatasetSpec("train", 10, size=20, max_failures=1))
        shards.take("a", 2)
        shards.manager.recover_shard("node-of-a", 0, blame="")
        assert parked_shards(shards.book) == []
        shards.open("b")
        shards.take("b", 2)
        shards.manager.recover_shard("node-of-b", 0, blame="ValueError: bad record")
        (parked,) = parked_shards(shards.book)
        assert parked == "dataset train, epoch 0, records [0, 10): failed 1 time, last: ValueError: bad record"

    run(tmp_path, scenario)


def test_an_older_run_of_a_program_ends_without_touching_the_newer_one(tmp_path: Path) -> None:
    async def scenario(shards: JournaledShardManager) -> None:
        shards.manager.create_shards(TRAIN)
        shards.manager.open_session("old", "worker-0", 0)
        shards.manager.open_session("new", "worker-0", 1)
        shards.manager.recover_shard("worker-0", 0)
        assert shards.book.sessions() == ["new"]

    run(tmp_path, scenario)


def test_without_fault_tolerance_nothing_is_taken_back_from_those_that_live(tmp_path: Path) -> None:
    async def scenario(shards: JournaledShardManager) -> None:
        shards.open("a", TRAIN)
        shards.take("a", 2)
        shards.clock.advance(1e9)
        shards.manager.expire_silent()
        assert shards.take("a", 0, [1, 2]) == []
        assert shards.book.queue("train").finished_records == 20

    run(tmp_path, scenario, fault_tolerance=False)


def test_without_fault_tolerance_what_a_killed_worker_had_is_lost_and_named(tmp_path: Path) -> None:
    async def scenario(shards: JournaledShardManager) -> None:
        shards.open("a", TRAIN)
        shards.open("b")
        shards.take("a", 3)
        shards.manager.get_shard("a", 2, None, 0, [1], [[2, 4]], [], [])
        shards.signals.connect(shards.manager.on_event)
        shards.signals.publish(ProgramGone("node-of-a", 0, ExitReason.KILLED, "killed by SIGKILL"))
        assert shards.take("b", 9) == [1], "the lost ones are not handed out again"
        why = "they were leased to node-of-a when it ended (killed by SIGKILL)"
        assert lost_records(shards.book) == f"dataset train, epoch 0, records [14, 30): {why}"
        again = ShardBook()
        again.restore_definitions(shards.book.definitions())
        again.restore(shards.book.snapshot())
        assert lost_records(again) == lost_records(shards.book)

    run(tmp_path, scenario, fault_tolerance=False)


def test_a_hung_program_is_not_taken_for_one_that_waits_for_work(tmp_path: Path) -> None:
    async def scenario(shards: JournaledShardManager) -> None:
        shards.open("hung", DatasetSpec("train", 10, size=10, lease_floor=50.0))
        shards.open("other")
        shards.take("hung")
        waiting = [asyncio.create_task(shards.manager.wait_for_shards("train", s)) for s in ("hung", "other")]
        assert await shards.still_waits(waiting[0])
        assert shards.manager.idle_nodes() == ["node-of-other"]
        shards.clock.advance(60)
        for session in ("hung", "other"):
            shards.manager.beat(session)
        shards.manager.expire_silent()
        assert await waiting[1] is Availability.MORE
        assert await shards.still_waits(waiting[0]), "what was just taken from it goes to somebody else"
        assert shards.take("hung") == []
        assert shards.manager.idle_nodes() == [], "it is not idle: it hangs"
        assert shards.take("other") == [1]
        waiting[0].cancel()

    run(tmp_path, scenario)


def test_the_train_end_shard_is_there_when_training_is_done_and_wakes_its_waiter(tmp_path: Path) -> None:
    async def scenario(shards: JournaledShardManager) -> None:
        shards.open("a", DatasetSpec("train", 10, size=10))
        shards.manager.create_shards(DatasetSpec("end", 1, size=1, type=ShardType.TRAIN_END))
        shards.take("a")
        waiting = asyncio.create_task(shards.manager.wait_for_shards("end"))
        assert await shards.still_waits(waiting)
        assert shards.take("a", 1, dataset="end") == []
        shards.take("a", 0, [1])
        assert await waiting is Availability.MORE
        assert shards.take("a", 1, dataset="end") == [2]

    run(tmp_path, scenario)


def test_progress_is_told_and_audited_range_by_range(tmp_path: Path) -> None:
    told: list[RecordsAccepted] = []

    async def scenario(shards: JournaledShardManager) -> None:
        shards.signals.connect(lambda signal: told.append(signal) if isinstance(signal, RecordsAccepted) else None)
        shards.open("a", TRAIN)
        shards.take("a", 2)
        shards.manager.get_shard("a", 2, None, 0, [], [[1, 4]], [], [])
        shards.manager.get_shard("a", 3, None, 0, [1, 2], [], [], [])
        shards.manager.get_shard("a", 3, None, 0, [1, 2], [], [], [])

    run(tmp_path, scenario, audit=True)
    assert told == [RecordsAccepted("node-of-a", 4), RecordsAccepted("node-of-a", 16)]
    ranges = [(row.start, row.begin, row.end, row.node) for row in read_audit(tmp_path / "journal.db")]
    assert ranges == [(0, 0, 4, "node-of-a"), (0, 4, 10, "node-of-a"), (10, 0, 10, "node-of-a")]


def test_a_checkpoint_continues_what_was_not_done(tmp_path: Path) -> None:
    async def scenario(shards: JournaledShardManager) -> None:
        shards.open("a", TRAIN)
        shards.take("a", 3)
        shards.take("a", 0, [1])
        saved = shards.manager.checkpoint()
        (tmp_path / "other").mkdir()
        other = JournaledShardManager(tmp_path / "other")
        other.open("b", TRAIN)
        waiting = asyncio.create_task(other.manager.wait_for_shards("train"))
        other.manager.restore_checkpoint(saved)
        assert await waiting is Availability.MORE
        assert other.book.queue("train").finished_records == 10
        assert len(other.take("b", 9)) == 3
        await other.journal.close()

    run(tmp_path, scenario)


def test_waiting_for_a_dataset_that_nobody_defined_is_an_error(tmp_path: Path) -> None:
    async def scenario(shards: JournaledShardManager) -> None:
        with pytest.raises(NotFound):
            await shards.manager.wait_for_shards("none")

    run(tmp_path, scenario)
