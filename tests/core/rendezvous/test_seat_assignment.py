"""Which worker hosts how many virtual workers: as assigned, in proportion after a change of the world, else evenly."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.core.errors import Conflict, InvalidRequest, NotAvailable, PliantError
from pliant.core.rendezvous.book import Limits, RendezvousBook
from pliant.core.rendezvous.seat_assignment import announced_virtual_workers, seats_of
from pliant.core.rendezvous.virtual_workers import hosted_counts


def join(book: RendezvousBook, name: str, *, after: int = 0, seats: str = "8") -> None:
    attrs = {"virtual_workers": seats} if seats else {}
    book.join(0.0, member=name, incarnation="a", attrs=attrs, step=1, after=after)


def world_of(*names: str, seats: str = "8") -> RendezvousBook:
    book = RendezvousBook(Limits(1, 9))
    book.expect(0.0, count=len(names))
    for name in names:
        join(book, name, seats=seats)
    assert book.world is not None
    return book


def form_again(book: RendezvousBook) -> dict[str, int]:
    assert book.world is not None
    for member in book.world.members:
        if book.world_of(member.name, "a").__class__.__name__ != "Expelled":
            join(book, member.name, after=book.round)
    return book.hosted()


def test_a_world_hosts_evenly_unless_somebody_assigned_otherwise() -> None:
    book = world_of("a", "b", "c")
    assert book.world is not None
    assert (book.world.seats, book.virtual_workers) == ((3, 3, 2), 8)
    assert book.hosted() == {"a": 3, "b": 3, "c": 2}


def test_an_assignment_outdates_the_world_and_the_next_one_has_it() -> None:
    book = world_of("a", "b", "c")
    world = book.world
    assert not book.status(1).outdated
    book.assign_seats(0.0, seats={"c": 1, "a": 5, "b": 2})
    assert book.world is world, "a world never changes"
    assert book.status(1).intact
    assert book.status(1).outdated
    assert book.assigned_seats() == {"a": 5, "b": 2, "c": 1}
    assert form_again(book) == {"a": 5, "b": 2, "c": 1}
    assert not book.status(2).outdated
    assert not book.status(1).outdated, "it is superseded, which says more"


def test_seats_that_are_hosted_already_outdate_nothing() -> None:
    book = world_of("a", "b")
    book.assign_seats(0.0, seats={"a": 4, "b": 4})
    assert not book.status(1).outdated


def test_after_a_death_the_others_host_in_proportion_and_the_same_worker_comes_back_to_what_it_had() -> None:
    book = world_of("a", "b", "c")
    book.assign_seats(0.0, seats={"a": 4, "b": 3, "c": 1})
    form_again(book)
    book.died(0.0, member="b", incarnation=None)
    assert form_again(book) == {"a": 6, "c": 2}
    book.join(0.0, member="b", incarnation="b", attrs={"virtual_workers": "8"})
    assert book.status(book.round).waiting == 1
    assert form_again(book) == {"a": 4, "c": 1, "b": 3}


def test_a_new_worker_has_the_median_weight() -> None:
    book = world_of("a", "b", "c")
    book.assign_seats(0.0, seats={"a": 4, "b": 3, "c": 1})
    form_again(book)
    join(book, "d")
    assert form_again(book) == {"a": 3, "b": 2, "c": 1, "d": 2}


def test_an_even_assignment_undoes_the_one_before() -> None:
    book = world_of("a", "b")
    book.assign_seats(0.0, seats={"a": 7, "b": 1})
    form_again(book)
    book.assign_seats(0.0, seats={})
    assert form_again(book) == {"a": 4, "b": 4}


def test_a_spare_hosts_when_it_is_needed() -> None:
    book = world_of("a", "b", "c", seats="2")
    book.assign_seats(0.0, seats={"a": 0, "b": 1, "c": 1})
    for name in "abc":
        join(book, name, after=1, seats="2")
    assert book.hosted() == {"a": 0, "b": 1, "c": 1}
    book.died(0.0, member="b", incarnation=None)
    for name in "ac":
        join(book, name, after=2, seats="2")
    assert book.hosted() == {"a": 1, "c": 1}


@pytest.mark.parametrize(
    ("seats", "message"),
    [
        ({"a": 4, "b": 4, "x": 0}, "x not in the present world of a, b, c"),
        ({"a": 4, "b": 4}, "no virtual workers given for c"),
        ({"a": 4, "b": 4, "c": 1}, "the job has 8 virtual workers, but 9 were assigned"),
        ({"a": 4, "b": 4, "c": 0}, "c would host no virtual worker"),
        ({"a": 9, "b": -2, "c": 1}, "b must host a whole number"),
        ({"a": 6, "b": 1, "c": True}, "c must host a whole number"),
    ],
)
def test_an_assignment_that_does_not_fit_is_refused_and_changes_nothing(seats: dict[str, int], message: str) -> None:
    book = world_of("a", "b", "c")
    before = book.snapshot()
    with pytest.raises(InvalidRequest, match=message) as error:
        book.assign_seats(0.0, seats=seats)
    assert book.snapshot() == before
    assert error.value.hint or "whole number" in message


def test_programs_without_virtual_workers_cannot_be_assigned_any() -> None:
    book = world_of("a", "b", seats="")
    assert (book.virtual_workers, book.hosted(), book.assigned_seats()) == (0, {}, {})
    with pytest.raises(NotAvailable, match="no virtual workers"):
        book.assign_seats(0.0, seats={"a": 1, "b": 1})


def test_an_assignment_waits_for_a_world_in_use() -> None:
    book = RendezvousBook(Limits(1, 9))
    with pytest.raises(Conflict, match="no world is in use"):
        book.assign_seats(0.0, seats={})
    book = world_of("a", "b")
    book.died(0.0, member="a", incarnation=None)
    with pytest.raises(Conflict, match="no world is in use"):
        book.assign_seats(0.0, seats={"a": 4, "b": 4})
    book = world_of("a", "b")
    book.close(0.0)
    with pytest.raises(Conflict, match="the job is ending"):
        book.assign_seats(0.0, seats={"a": 4, "b": 4})


def test_a_snapshot_from_before_there_were_assignments_is_read() -> None:
    book = world_of("a", "b", seats="")
    state = json.loads(json.dumps(book.snapshot()))
    del state["assigned"], state["world"]["seats"]
    restored = RendezvousBook(Limits(1, 1))
    restored.restore(state)
    assert restored.snapshot() == book.snapshot()


def test_a_master_that_lost_its_journal_learns_the_assignment_from_the_announced_world() -> None:
    book = world_of("a", "b", "c")
    book.assign_seats(0.0, seats={"a": 5, "b": 2, "c": 1})
    form_again(book)
    assert book.world is not None
    successor = RendezvousBook(Limits(1, 9))
    successor.take_over(0.0, members=["a", "b", "c"])
    successor.announce(0.0, member="b", incarnation="a", world=asdict(book.world), after=2)
    assert successor.hosted() == {"a": 5, "b": 2, "c": 1}
    assert not successor.status(2).outdated
    assert form_again(successor) == {"a": 5, "b": 2, "c": 1}


def test_an_announced_world_whose_seats_do_not_add_up_is_refused() -> None:
    book = world_of("a", "b")
    assert book.world is not None
    for wrong in ([8], [4, 3], [9, -1], ["4", 4]):
        successor = RendezvousBook(Limits(1, 9))
        successor.take_over(0.0, members=["a", "b"])
        world = {**asdict(book.world), "seats": wrong}
        with pytest.raises(InvalidRequest):
            successor.announce(0.0, member="b", incarnation="a", world=world, after=1)


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "eight", "٣", "99999999", "1048577", "8 "])
def test_a_number_that_makes_no_sense_is_as_none(text: str) -> None:
    assert announced_virtual_workers([{"virtual_workers": text}]) == 0


def test_members_that_announce_different_numbers_have_none() -> None:
    assert announced_virtual_workers([{"virtual_workers": "8"}, {"virtual_workers": "8"}]) == 8
    assert announced_virtual_workers([{"virtual_workers": "8"}, {"virtual_workers": "4"}]) == 0
    assert announced_virtual_workers([{"virtual_workers": "8"}, {}]) == 0


@given(st.integers(1, 40), st.sets(st.sampled_from("abcdefgh"), min_size=1), st.data())
def test_the_sum_is_n_and_each_hosts_one_where_that_is_possible(
    total: int, names: set[str], data: st.DataObject
) -> None:
    present = sorted(names)
    weights = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 20))
    assigned = data.draw(weights.filter(lambda found: sum(found.values()) != total))
    counts = seats_of(present, total, assigned)
    assert sum(counts) == total
    assert min(counts) >= 1 or len(present) > total
    assert seats_of(present, total, {}) == tuple(hosted_counts(total, len(present)))


@given(st.lists(st.integers(0, 20), min_size=1, max_size=8).filter(any))
def test_what_can_be_assigned_is_hosted_exactly_so(counts: list[int]) -> None:
    names = [f"worker-{number}" for number in range(len(counts))]
    book = world_of(*names, seats=str(sum(counts)))
    try:
        book.assign_seats(0.0, seats=dict(zip(names, counts, strict=True)))
    except PliantError:
        assert 0 in counts
        assert len(counts) <= sum(counts)
        return
    for name in names:
        join(book, name, after=1, seats=str(sum(counts)))
    assert list(book.hosted().values()) == counts
