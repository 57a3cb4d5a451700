"""When a dump of the parameters is due, which of them are full, and which are kept; seats before the first server joins."""

from __future__ import annotations

import pytest
from tests.core.parameters.trained_book import TrainedBook

from pliant.core.parameters.book import ParameterBook
from pliant.core.parameters.options import PsOptions


def test_a_dump_is_due_by_seconds_and_by_iterations_and_not_while_there_is_nothing_new() -> None:
    by_time = TrainedBook(dump_seconds=60.0)
    assert by_time.due(1e6) == "", "nothing was trained"
    by_time.trains(1)
    assert by_time.due(59.0) == ""
    assert by_time.due(60.0)
    by_time.dumps()
    assert by_time.due(1e6) == ""
    by_iterations = TrainedBook(dump_seconds=0.0, dump_iterations=3).trains(2)
    assert by_iterations.due(1e6) == ""
    assert by_iterations.trains(1).due()


def test_a_dump_is_due_after_so_many_orders_although_dumps_are_turned_off() -> None:
    trained = TrainedBook(dump_seconds=0.0, max_orders=20).trains(18)
    assert trained.due(1e6) == ""
    assert "20 orders since the last dump" in trained.trains(1).due()  # the definition is one of them


def test_one_dump_of_so_many_is_full_and_the_last_full_ones_are_kept_with_their_increments() -> None:
    trained = TrainedBook(full_every=3, keep=2)
    made = [trained.trains(1).dumps() for _ in range(8)]
    assert [full for _, full in made] == [True, False, False] * 2 + [True, False]
    assert sorted(trained.book.kept_dumps()) == [order for order, _ in made[3:]]


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 4), (3, 3)])
def test_seats_that_nobody_held_are_replaced_at_once(before: int, after: int) -> None:
    book = ParameterBook(PsOptions(), before)
    version, seats_version = book.map.version, book.seats_version
    assert book.resize(0.0, seats=after) == list(range(after, before))
    assert [(seat.number, seat.leaving) for seat in book.seats()] == [(number, False) for number in range(after)]
    assert set(book.map.partitions) == set(range(after)), "nothing has to move"
    assert book.map.version > version, "those who wait hear of it"
    assert book.seats_version > seats_version
    restored = ParameterBook(PsOptions(), before)
    restored.restore(book.snapshot())
    assert restored.snapshot() == book.snapshot()


def test_a_seat_that_somebody_held_gives_its_parameters_to_others_first() -> None:
    book = ParameterBook(PsOptions(), 3)
    book.join(0.0, node="ps-0", incarnation=1)
    assert book.resize(1.0, seats=2) == [2]
    assert book.seat(2).leaving
    assert 2 in book.map.partitions
