"""Saved positions: taken once, never taking a job back, and refused only for what changes their meaning."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pliant.core.errors import Conflict
from pliant.core.shards.audit import AuditRow, audit_dataset
from pliant.core.shards.book import ShardBook
from pliant.core.shards.leases import Accepted, Answer

TRAIN: dict[str, Any] = {"name": "train", "shard_size": 10, "size": 100}


class Program:
    def __init__(self, book: ShardBook, name: str) -> None:
        self.book, self.name, self.request = book, name, 0
        book.open_session(0.0, session=name, node=name, incarnation=0)

    def ask(self, want: int = 0, **reports: Any) -> Answer:
        self.request += 1
        return self.book.exchange(0.0, session=self.name, request=self.request, dataset="train", want=want, **reports)

    def do(self, shards: int) -> tuple[Accepted, ...]:
        return self.ask(done=[lease.number for lease in self.ask(shards).leases]).accepted


def job(origin: str, **changes: Any) -> ShardBook:
    book = ShardBook()
    book.create(0.0, dataset={**TRAIN, **changes}, origin=origin)
    return book


def position(book: ShardBook) -> dict[str, Any]:
    saved: dict[str, Any] = json.loads(json.dumps(book.checkpoint()))
    return saved


def saved_after(shards: int, **changes: Any) -> dict[str, Any]:
    first = job("an earlier job", **changes)
    Program(first, "first").do(shards)
    return position(first)


def restore(book: ShardBook, saved: dict[str, Any]) -> list[str]:
    return book.restore_checkpoint(0.0, checkpoint=saved)


def replayed(book: ShardBook) -> ShardBook:
    again = ShardBook()
    again.restore_definitions(json.loads(json.dumps(book.definitions())))
    again.restore(json.loads(json.dumps(book.snapshot())))
    return again


def test_a_program_that_is_started_again_and_restores_again_does_not_take_the_job_back() -> None:
    book, saved = job("this job"), saved_after(3)
    assert restore(book, saved) == ["train"]
    accepted = Program(book, "killed").do(4)
    book.close_node(0.0, node="killed", incarnation=None)
    assert restore(book, saved) == [], "it was taken before"
    book = replayed(book)
    assert restore(book, saved) == [], "and a successor of the master knows it"
    accepted += Program(book, "again").do(9)
    assert sorted(a.lease.extent.start for a in accepted) == list(range(30, 100, 10))
    assert book.queue("train").is_exact


def test_all_workers_may_restore_the_same_position_at_any_time() -> None:
    book, saved = job("this job"), saved_after(3)
    first = Program(book, "first")
    assert restore(book, saved) == ["train"]
    first.ask(2)
    reordered = json.loads(json.dumps(saved, sort_keys=True))
    assert restore(book, reordered) == [], "the second worker comes late"
    assert book.queue("train").out == 2


def test_a_position_that_the_job_saved_itself_has_no_effect_on_it() -> None:
    book = job("this job")
    program = Program(book, "a")
    program.do(2)
    own = position(book)
    program.do(3)
    assert restore(book, own) == []
    assert book.queue("train").finished_records == 50
    assert restore(job("another job"), own) == ["train"]


def test_another_position_is_refused_once_the_dataset_has_begun() -> None:
    book = job("this job")
    Program(book, "a").do(1)
    before = book.snapshot()
    with pytest.raises(Conflict, match=r"'train' has already started \(10 records done, 0 shards in progress"):
        restore(book, saved_after(3))
    assert book.snapshot() == before


def test_a_second_position_is_refused_even_before_anything_is_handed_out() -> None:
    book = job("this job")
    restore(book, saved_after(3))
    with pytest.raises(Conflict, match="already restored from another position, with 30 records done; this one has 40"):
        restore(book, saved_after(4))


def test_a_stream_that_has_grown_is_not_cut_to_a_saved_length() -> None:
    first = job("an earlier job", size=None, stream=True)
    first.grow(0.0, dataset="train", records=30, close=False)
    book = job("this job", size=None, stream=True)
    book.grow(0.0, dataset="train", records=50, close=False)
    with pytest.raises(Conflict, match="has already started"):
        restore(book, position(first))
    assert book.queue("train").length == 50


def test_of_several_datasets_all_are_restored_or_none() -> None:
    def two(origin: str) -> ShardBook:
        book = job(origin)
        book.create(0.0, dataset={**TRAIN, "name": "eval"}, origin=origin)
        return book

    book, saved = two("this job"), position(two("an earlier job"))
    Program(book, "a").do(1)
    with pytest.raises(Conflict, match="'train' has already started"):
        restore(book, saved)
    assert book.queue("eval").restored is None


# --- what a position means


@pytest.mark.parametrize(
    "change",
    [
        {"epochs": 3},
        {"max_failures": 1},
        {"max_timeouts": 1},
        {"lease_floor": 10.0},
        {"skip_parked": True},
        {"epoch_barrier": True},
        {"type": "eval"},
        {"seed": 5},
    ],
    ids=str,
)
def test_what_does_not_change_the_meaning_of_a_position_may_change(change: dict[str, Any]) -> None:
    book = job("this job", **change)
    assert restore(book, saved_after(3)) == ["train"]
    Program(book, "a").do(100)
    assert book.queue("train").finished_records == 100 * change.get("epochs", 1)
    assert book.queue("train").is_exact


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"size": 200}, "size: 100 in the checkpoint, 200 in this job"),
        ({"shard_size": 5}, "shard_size: 10 in the checkpoint, 5 in this job"),
        ({"seed": 4}, "seed: 3 in the checkpoint, 4 in this job"),
        ({"shuffle_records": True}, "shuffle_records: False in the checkpoint, True in this job"),
        (
            {"size": 90, "shard_size": 9},
            "shard_size: 10 in the checkpoint, 9 in this job; size: 100 in the checkpoint, 90 in this job",
        ),
        ({"size": None, "files": [["a", 0, 100]]}, "files: none in the checkpoint, 1 files, 100 records"),
    ],
    ids=str,
)
def test_what_changes_it_is_refused_by_name_with_both_values(change: dict[str, Any], named: str) -> None:
    shuffled = {"shuffle": True, "seed": 3}
    with pytest.raises(Conflict) as refused:
        restore(job("this job", **{**shuffled, **change}), saved_after(3, **shuffled))
    assert named in refused.value.message


def test_a_position_beyond_the_last_epoch_is_refused_by_its_epochs() -> None:
    saved = saved_after(25, epochs=3)
    assert restore(job("this job", epochs=4), saved) == ["train"]
    with pytest.raises(Conflict, match="epochs: the checkpoint is in epoch 3, 2 in this job"):
        restore(job("this job", epochs=2), saved)


def test_what_was_lost_with_a_worker_is_not_done_at_a_position() -> None:
    first = job("an earlier job")
    Program(first, "a").ask(2)
    first.lose_node(0.0, node="a", incarnation=None, message="killed")
    book = job("this job")
    restore(book, position(first))
    Program(book, "b").do(100)
    assert book.queue("train").is_exact


# --- what follows for the claim that each record was accepted once


@pytest.mark.parametrize("shuffle", [False, True])
def test_the_audit_of_a_restored_job_expects_what_was_not_done_before(shuffle: bool) -> None:
    first = job("an earlier job", shuffle=shuffle, epochs=2)
    program = Program(first, "a")
    program.do(13)
    leased = program.ask(3).leases
    program.ask(progress=[[leased[1].number, 4]])
    book = job("this job", shuffle=shuffle, epochs=2)
    restore(book, position(first))
    queue, accepted = book.queue("train"), Program(book, "b").do(100)
    rows = [row(a) for a in accepted]
    found = audit_dataset(queue, rows)
    assert (found.exact, found.restored, found.records_accepted, queue.is_exact) == (True, 134, 66, True)
    missing = audit_dataset(queue, rows[1:])
    assert (missing.exact, missing.missing, missing.doubled, len(missing.gaps)) == (False, 10, 0, 1)
    again = Accepted(accepted[0].lease, 0, 10)
    double = audit_dataset(queue, [*rows, row(again)])
    assert (double.exact, double.missing, double.doubled) == (False, 0, 10)


def test_a_row_of_what_was_done_before_is_a_double() -> None:
    first = job("an earlier job")
    (before, *_) = Program(first, "a").do(3)
    book = job("this job")
    restore(book, position(first))
    rows = [row(a) for a in Program(book, "b").do(100)]
    found = audit_dataset(book.queue("train"), [*rows, row(before)])
    assert (found.exact, found.doubled) == (False, 10)


def row(accepted: Accepted) -> AuditRow:
    lease = accepted.lease
    shard, extent = lease.shard, lease.extent
    at = (shard.epoch, shard.ordinal, extent.name, extent.start, extent.end)
    return AuditRow("train", *at, accepted.begin, accepted.end, "b", "b", lease.number)
