"""Checkpoints by destination: what counts as one failure, and what ends a streak of them."""

from __future__ import annotations

import json

from pliant.core.checkpoints.book import MAX_COUNTED_STEPS, MAX_DESTINATIONS, CheckpointBook
from pliant.core.checkpoints.destination import Destination

HERE = "s3://bucket/here"


def failed(book: CheckpointBook, now: float, step: int, node: str = "worker-0", directory: str = HERE) -> bool:
    reason = f"no space left for step {step}"
    return book.failed(now, directory=directory, step=step, node=node, reason=reason, hint="free some") is not None


def entry(book: CheckpointBook, directory: str = HERE) -> Destination:
    found = book.find(directory)
    assert found is not None
    return found


def test_a_checkpoint_that_several_nodes_could_not_write_counts_once() -> None:
    book = CheckpointBook()
    assert failed(book, 1.0, 100, "worker-0")
    assert failed(book, 2.0, 200, "worker-0")
    assert not failed(book, 3.0, 100, "worker-1"), "its part of the one before"
    assert not failed(book, 3.0, 200, "worker-0"), "the same report again"
    found = entry(book)
    assert (found.failures, found.failures_in_a_row, found.failing_since, found.last_failure) == (2, 2, 1.0, 2.0)
    assert (found.first_reason, found.reason) == ("no space left for step 100", "no space left for step 200")


def test_a_streak_ends_with_a_complete_checkpoint_of_the_same_step_or_a_later_one() -> None:
    book = CheckpointBook()
    failed(book, 1.0, 200)
    assert book.completed(2.0, directory=HERE, step=100) is None, "it was on its way before"
    assert entry(book).is_failing
    assert entry(book).last_step == 100
    ended = book.completed(3.0, directory=HERE, step=200)
    assert ended is not None
    assert (ended.failures_in_a_row, ended.failing_since) == (1, 1.0)
    found = entry(book)
    assert (found.is_failing, found.failures, found.last_step, found.last_time) == (False, 1, 200, 3.0)
    assert book.completed(4.0, directory=HERE, step=300) is None
    assert failed(book, 5.0, 200), "training went back to a checkpoint, and this is another attempt"
    assert entry(book).failures_in_a_row == 1
    assert entry(book).failed_step == 200


def test_a_checkpoint_that_is_reported_after_a_later_one_is_not_the_newest() -> None:
    book = CheckpointBook()
    book.completed(1.0, directory=HERE, step=200)
    book.completed(2.0, directory=HERE, step=100)  # by another node, whose report took longer
    assert (entry(book).last_step, entry(book).written, entry(book).last_time) == (200, 2, 2.0)


def test_destinations_fail_apart_from_each_other() -> None:
    book = CheckpointBook()
    failed(book, 1.0, 10)
    book.completed(2.0, directory="/other", step=10)
    assert [found.directory for found in book.failing()] == [HERE]


def test_what_is_known_already_need_not_be_journaled() -> None:
    book = CheckpointBook()
    assert not book.is_newest(HERE, 10)
    book.completed(1.0, directory=HERE, step=10)
    assert book.is_newest(HERE, 10)
    failed(book, 2.0, 10)
    assert not book.is_newest(HERE, 10), "it ends the streak"
    assert book.is_known_failure(HERE, 10)
    assert not book.is_known_failure(HERE, 20)


def test_memory_is_bounded_and_failing_destinations_stay_longest() -> None:
    book = CheckpointBook()
    for step in range(10 * MAX_COUNTED_STEPS):
        failed(book, 1.0 + step, step)
    assert len(entry(book).counted_steps) == MAX_COUNTED_STEPS
    assert entry(book).failures_in_a_row == 10 * MAX_COUNTED_STEPS
    for number in range(3 * MAX_DESTINATIONS):
        book.completed(1000.0 + number, directory=f"/{number}", step=1)
    assert len(book.destinations()) == MAX_DESTINATIONS
    assert entry(book).is_failing


def test_a_resumed_job_begins_a_new_streak() -> None:
    book = CheckpointBook()
    failed(book, 1.0, 10)
    failed(book, 2.0, 20)
    book.reopen(3.0)
    assert book.failing() == []
    assert failed(book, 4.0, 20), "the same step, tried again"
    found = entry(book)
    assert (found.failures, found.failures_in_a_row, found.failing_since) == (3, 1, 4.0)


def test_it_survives_a_restart() -> None:
    book, other = CheckpointBook(), CheckpointBook()
    book.completed(1.0, directory=HERE, step=5)
    failed(book, 2.0, 10)
    other.restore(json.loads(json.dumps(book.snapshot())))
    assert other.destinations() == book.destinations()
    assert not failed(other, 3.0, 10)
