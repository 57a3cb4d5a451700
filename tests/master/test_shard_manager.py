from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pliant.core.datasets import DatasetSpec, ShardType
from pliant.core.errors import InvalidRequest, NotFound, SessionExpired
from pliant.core.leases import Supply
from pliant.core.shards import ShardBook
from pliant.master.journal import Journal
from pliant.master.journal_store import read_audit, read_events
from pliant.master.shards import DataShardManager
from pliant.testing import ManualClock, PerishableStore


class Shop:
    """A shard manager with a clock that stands still and a journal in a file."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.path = folder / "journal.db"
        self.clock = ManualClock()
        self.journal = Journal(PerishableStore(self.path), self.clock)
        self.book = ShardBook()
        self.journal.attach("shards", self.book)
        self.manager = DataShardManager(self.book, self.journal, self.clock, **options)
        self.numbers: dict[str, int] = {}

    def open(self, session: str, dataset: DatasetSpec | None = None) -> None:
        if dataset is not None:
            self.manager.create_shards(dataset)
        self.manager.open_session(session, f"node-of-{session}", 0)

    def take(self, session: str, want: int = 1, done: list[int] | None = None, dataset: str = "train") -> list[int]:
        number = self.numbers[session] = self.numbers.get(session, 0) + 1
        answer = self.manager.get_shard(session, number, dataset, want, done or [], [], [], [])
        return [lease.number for lease in answer.leases]

    async def asleep(self, waiting: asyncio.Task[Any]) -> bool:
        for _ in range(5):
            await asyncio.sleep(0)
        return not waiting.done()


TRAIN = DatasetSpec("train", 10, size=40)
STREAM = DatasetSpec("train", 10, stream=True)


def run(folder: Path, scenario: Callable[[Shop], Awaitable[None]], **options: Any) -> Shop:
    async def bounded() -> Shop:
        shop = Shop(folder, **options)
        await asyncio.wait_for(scenario(shop), 20)
        await shop.journal.durable()
        await shop.journal.close()
        return shop

    return asyncio.run(bounded())


def test_a_session_that_is_silent_for_too_long_loses_its_shards_to_others(tmp_path: Path) -> None:
    async def scenario(shop: Shop) -> None:
        shop.open("silent", TRAIN)
        shop.open("lively")
        assert shop.take("silent", 4) == [1, 2, 3, 4]
        shop.clock.advance(20)
        shop.manager.beat("lively")
        shop.clock.advance(15)
        shop.manager.tick()
        assert shop.book.sessions() == ["lively"]
        assert shop.take("lively", 4) == [1, 2, 3, 4]
        for late in (lambda: shop.manager.beat("silent"), lambda: shop.take("silent", 0, [1])):
            with pytest.raises(SessionExpired):
                late()

    run(tmp_path, scenario, session_timeout=30)
    (event,) = [e for e in read_events(tmp_path / "journal.db") if e.kind == "session"]
    assert (event.node, event.message) == (
        "node-of-silent",
        "the program of node-of-silent was silent for 35 s; its shards go to others",
    )


def test_silence_is_counted_anew_after_the_master_was_away(tmp_path: Path) -> None:
    async def scenario(shop: Shop) -> None:
        shop.open("s", TRAIN)
        shop.take("s", 2)
        shop.clock.advance(100_000)
        shop.manager.resume()
        shop.manager.tick()
        assert shop.take("s", 0, [1, 2]) == []
        assert shop.book.queue("train").finished_records == 20

    run(tmp_path, scenario)


def test_a_shard_without_a_report_goes_to_others_though_its_session_lives(tmp_path: Path) -> None:
    async def scenario(shop: Shop) -> None:
        shop.open("stuck", DatasetSpec("train", 10, size=10, lease_floor=50.0))
        shop.open("other")
        shop.take("stuck")
        waiting = asyncio.create_task(shop.manager.wait_for_shards("train"))
        assert await shop.asleep(waiting)
        shop.clock.advance(60)
        shop.manager.beat("stuck")
        shop.manager.beat("other")
        shop.manager.tick()
        assert await waiting is Supply.MORE
        assert shop.take("other") == [1]
        answer = shop.manager.report_shard_status("stuck", 2, [1])
        assert answer.refused == (1,)

    run(tmp_path, scenario)


@pytest.mark.parametrize("how", ["finish", "release", "close", "recover", "silence"])
def test_who_waits_for_shards_is_woken_by_whatever_brings_some(tmp_path: Path, how: str) -> None:
    async def scenario(shop: Shop) -> None:
        shop.open("holder", DatasetSpec("train", 10, size=10))
        shop.open("idle")
        shop.take("holder")
        waiting = asyncio.create_task(shop.manager.wait_for_shards("train"))
        assert await shop.asleep(waiting)
        if how == "finish":
            shop.take("holder", 0, [1])
        elif how == "release":
            shop.manager.get_shard("holder", 2, None, 0, [], [], [], [1])
        elif how == "close":
            shop.manager.close_session("holder")
        elif how == "recover":
            shop.manager.recover_shard("node-of-holder", None)
        else:
            shop.clock.advance(100)
            shop.manager.beat("idle")
            shop.manager.tick()
        assert await waiting is (Supply.END if how == "finish" else Supply.MORE)

    run(tmp_path, scenario)


def test_a_stream_wakes_its_readers_when_it_grows_and_when_it_is_closed(tmp_path: Path) -> None:
    async def scenario(shop: Shop) -> None:
        shop.open("s", STREAM)
        waiting = asyncio.create_task(shop.manager.wait_for_shards("train"))
        assert await shop.asleep(waiting)
        assert shop.manager.grow_stream("train", 4, False, "p", 1) == 4
        assert await shop.asleep(waiting), "less than a shard"
        assert shop.manager.grow_stream("train", 8, False, "p", 2) == 12
        assert await waiting is Supply.MORE
        assert shop.take("s", 5) == [1]
        waiting = asyncio.create_task(shop.manager.wait_for_shards("train"))
        assert await shop.asleep(waiting)
        assert shop.manager.grow_stream("train", 0, True, "p", 3) == 12
        assert await waiting is Supply.MORE
        assert shop.take("s", 5, [1]) == [2]
        shop.take("s", 0, [2])
        assert await shop.manager.wait_for_shards("train") is Supply.END
        assert shop.book.queue("train").finished_records == 12

    run(tmp_path, scenario)


def test_growth_that_is_sent_again_counts_once_even_if_others_grew_it_meanwhile(tmp_path: Path) -> None:
    async def scenario(shop: Shop) -> None:
        shop.open("s", STREAM)
        grow = shop.manager.grow_stream
        assert [grow("train", 5, False, "a", 1), grow("train", 5, False, "b", 1)] == [5, 10]
        assert [grow("train", 5, False, "a", 1), grow("train", 5, False, "b", 1)] == [5, 10]
        assert grow("train", 1, True, "a", 2) == 11
        assert grow("train", 1, True, "a", 2) == 11, "also after it was closed"
        assert grow("train", 0, True, "b", 2) == 11, "closing what is closed is no error"
        with pytest.raises(InvalidRequest, match="closed"):
            grow("train", 1, False, "b", 3)
        assert shop.book.queue("train").length == 11

    run(tmp_path, scenario)


def test_growth_is_recognised_after_a_restart_too(tmp_path: Path) -> None:
    async def scenario(shop: Shop) -> None:
        shop.open("s", STREAM)
        shop.manager.grow_stream("train", 5, False, "a", 1)
        again = ShardBook()
        again.restore(shop.book.snapshot(), shop.book.definitions())
        assert again.grow(0.0, dataset="train", records=5, close=False, producer="a", number=1) == 5
        assert again.snapshot() == shop.book.snapshot()

    run(tmp_path, scenario)


def test_the_program_is_blamed_for_its_error_and_nobody_for_a_preemption(tmp_path: Path) -> None:
    async def scenario(shop: Shop) -> None:
        shop.open("a", DatasetSpec("train", 10, size=20, max_failures=1))
        shop.take("a", 2)
        shop.manager.recover_shard("node-of-a", 0, blame="")
        assert shop.manager.parked() == []
        shop.open("b")
        shop.take("b", 2)
        shop.manager.recover_shard("node-of-b", 0, blame="ValueError: bad record")
        (parked,) = shop.manager.parked()
        assert parked == "dataset train, epoch 0, records [0, 10): failed 1 times, last: ValueError: bad record"

    run(tmp_path, scenario)


def test_an_older_run_of_a_program_ends_without_touching_the_newer_one(tmp_path: Path) -> None:
    async def scenario(shop: Shop) -> None:
        shop.manager.create_shards(TRAIN)
        shop.manager.open_session("old", "worker-0", 0)
        shop.manager.open_session("new", "worker-0", 1)
        shop.manager.recover_shard("worker-0", 0)
        assert shop.book.sessions() == ["new"]

    run(tmp_path, scenario)


def test_without_fault_tolerance_nothing_is_taken_back(tmp_path: Path) -> None:
    async def scenario(shop: Shop) -> None:
        shop.open("a", TRAIN)
        shop.take("a", 2)
        shop.clock.advance(1e9)
        shop.manager.tick()
        shop.manager.recover_shard("node-of-a", None)
        assert shop.take("a", 0, [1, 2]) == []
        assert shop.book.queue("train").finished_records == 20

    run(tmp_path, scenario, fault_tolerance=False)


def test_the_train_end_shard_is_there_when_training_is_done_and_wakes_its_waiter(tmp_path: Path) -> None:
    async def scenario(shop: Shop) -> None:
        shop.open("a", DatasetSpec("train", 10, size=10))
        shop.manager.create_shards(DatasetSpec("end", 1, size=1, type=ShardType.TRAIN_END))
        shop.take("a")
        waiting = asyncio.create_task(shop.manager.wait_for_shards("end"))
        assert await shop.asleep(waiting)
        assert shop.take("a", 1, dataset="end") == []
        shop.take("a", 0, [1])
        assert await waiting is Supply.MORE
        assert shop.take("a", 1, dataset="end") == [2]

    run(tmp_path, scenario)


def test_progress_is_told_and_audited_range_by_range(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []

    async def scenario(shop: Shop) -> None:
        shop.manager.on_progress = lambda node, records: told.append((node, records))
        shop.open("a", TRAIN)
        shop.take("a", 2)
        shop.manager.get_shard("a", 2, None, 0, [], [[1, 4]], [], [])
        shop.manager.get_shard("a", 3, None, 0, [1, 2], [], [], [])
        shop.manager.get_shard("a", 3, None, 0, [1, 2], [], [], [])

    run(tmp_path, scenario, audit=True)
    assert told == [("node-of-a", 4), ("node-of-a", 16)]
    ranges = [(row.start, row.begin, row.end, row.node) for row in read_audit(tmp_path / "journal.db")]
    assert ranges == [(0, 0, 4, "node-of-a"), (0, 4, 10, "node-of-a"), (10, 0, 10, "node-of-a")]


def test_a_checkpoint_continues_what_was_not_done(tmp_path: Path) -> None:
    async def scenario(shop: Shop) -> None:
        shop.open("a", TRAIN)
        shop.take("a", 3)
        shop.take("a", 0, [1])
        saved = shop.manager.checkpoint()
        (tmp_path / "other").mkdir()
        other = Shop(tmp_path / "other")
        other.open("b", TRAIN)
        waiting = asyncio.create_task(other.manager.wait_for_shards("train"))
        other.manager.restore_checkpoint(saved)
        assert await waiting is Supply.MORE
        assert other.book.queue("train").finished_records == 10
        assert len(other.take("b", 9)) == 3
        await other.journal.close()

    run(tmp_path, scenario)


def test_waiting_for_a_dataset_that_nobody_defined_is_an_error(tmp_path: Path) -> None:
    async def scenario(shop: Shop) -> None:
        with pytest.raises(NotFound):
            await shop.manager.wait_for_shards("none")

    run(tmp_path, scenario)
