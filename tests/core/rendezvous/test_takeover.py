"""Worlds that a rendezvous takes over from one whose journal is lost."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.core.errors import Conflict, InvalidRequest, NotFound
from pliant.core.rendezvous.book import Limits, RendezvousBook, Waiting, World

NAMES = ("worker-0", "worker-1", "worker-2")


def join(book: RendezvousBook, name: str, *, life: str = "a", step: int = 0, after: int = 0, at: float = 0.0) -> Any:
    return book.join(at, member=name, incarnation=life, attrs={"store": name}, step=step, after=after)


def world_of(count: int = 3, rounds: int = 1) -> dict[str, Any]:
    """As its members were told of it, after so many rounds."""
    book = RendezvousBook(Limits(1, count))
    for number in range(rounds):
        for name in NAMES[:count]:
            join(book, name, step=10 * number, after=number)
    assert book.world is not None
    assert book.world.round == rounds
    return asdict(book.world)


def successor(*awaited: str) -> RendezvousBook:
    book = RendezvousBook(Limits(1, 3))
    book.take_over(0.0, members=list(awaited or NAMES))
    return book


def announce(book: RendezvousBook, name: str, world: dict[str, Any] | None, *, life: str = "a", after: int = 0) -> Any:
    return book.announce(
        1.0, member=name, incarnation=life, world=world, after=after or (world or {"round": 0})["round"]
    )


def test_one_member_restores_the_world_of_all_and_it_is_intact() -> None:
    book = successor()
    with pytest.raises(NotFound, match="round 4 was never formed") as error:
        book.status(4)
    assert "announce" in error.value.hint
    announce(book, "worker-1", world_of(rounds=4))
    assert book.status(4).intact
    found = book.world_of("worker-0", "a")
    assert isinstance(found, World)
    assert [member.name for member in found.members] == list(NAMES)
    assert book.awaited == {"worker-0", "worker-2"}


def test_the_next_round_is_above_the_announced_one_and_ages_are_kept() -> None:
    book = successor()
    announce(book, "worker-0", world_of(rounds=4))
    for name in NAMES:
        formed = join(book, name, step=50, after=4).formed
    assert formed is not None
    assert formed.round == 5
    assert [member.seniority for member in formed.members] == [1, 2, 3]


def test_a_member_that_died_meanwhile_is_out_and_the_survivors_go_on_at_once() -> None:
    book = successor("worker-0", "worker-1")
    announce(book, "worker-0", world_of(rounds=2))
    book.died(1.0, member="worker-2", incarnation=None)
    assert book.status(2).missing == ("worker-2",)
    assert join(book, "worker-0", step=7, after=2).formed is None
    formed = join(book, "worker-1", step=7, after=2).formed
    assert formed is not None
    assert (formed.round, [member.name for member in formed.members]) == (3, ["worker-0", "worker-1"])


def test_no_world_is_formed_while_somebody_may_be_in_another() -> None:
    book = successor()
    for name in NAMES[:2]:
        announce(book, name, None, life="new")
        join(book, name, life="new")
    book.expect(1.0, count=2)
    assert not book.due(1e9)
    found = book.world_of("worker-0", "new")
    assert isinstance(found, Waiting)
    assert "may still be in a world" in found.reason
    assert book.stop_awaiting(40.0).formed is not None


def test_who_announces_after_a_world_was_formed_joins_the_next_and_no_round_is_used_twice() -> None:
    book = successor("worker-0")
    join(book, "worker-0")
    book.form(100.0)
    assert book.round == 1
    announce(book, "worker-1", world_of(rounds=6))
    assert book.status(6).superseded
    assert book.round == 1, "the world in use stays"
    join(book, "worker-1", step=99, after=6)
    formed = join(book, "worker-0", step=5, after=1).formed
    assert formed is not None
    assert (formed.round, formed.members[0].name) == (7, "worker-1"), "the newest state leads"


def test_the_highest_round_is_the_world_whoever_announces_first() -> None:
    book = successor()
    old = world_of(rounds=2)
    announce(book, "worker-2", old)
    announce(book, "worker-0", world_of(count=2, rounds=3))
    assert book.round == 3
    assert book.status(3).intact
    assert book.status(2).superseded
    announce(book, "worker-2", old)
    assert book.round == 3


def test_a_round_that_a_member_was_put_into_and_never_saw_is_not_used_again() -> None:
    book = successor("worker-0")
    announce(book, "worker-0", world_of(rounds=4), after=5)
    book.died(1.0, member="worker-1", incarnation=None)
    book.died(1.0, member="worker-2", incarnation=None)
    assert join(book, "worker-0", after=5).formed.round == 6


def test_without_a_takeover_nothing_can_be_announced() -> None:
    book = RendezvousBook(Limits(1, 3))
    with pytest.raises(InvalidRequest, match="never formed"):
        announce(book, "worker-0", world_of())
    with pytest.raises(InvalidRequest, match="after=3"):
        join(book, "worker-0", after=3)
    join(book, "worker-0")
    with pytest.raises(Conflict):
        book.take_over(0.0, members=[])


def test_an_announcement_that_cannot_be_changes_nothing() -> None:
    book = successor()
    before = book.snapshot()
    world = world_of()
    for name, wrong in (
        ("stranger", world),
        ("worker-0", {**world, "round": 0}),
        ("worker-0", {**world, "members": []}),
        ("worker-0", {**world, "members": [world["members"][0]] * 2}),
        ("worker-0", {"round": 1}),
    ):
        with pytest.raises(InvalidRequest):
            announce(book, name, wrong)
    assert book.snapshot() == before


@given(st.data())
def test_in_whatever_order_they_announce_join_and_die_no_two_worlds_share_a_round_or_a_live_member(
    data: st.DataObject,
) -> None:
    rounds = data.draw(st.integers(1, 4))
    told = {name: world_of(rounds=rounds) for name in NAMES}
    if data.draw(st.booleans()):  # one was left behind in an earlier world
        told["worker-2"] = world_of(rounds=1)
    book, formed, dead, left = successor(), [], set[str](), dict[str, int]()
    for _ in range(data.draw(st.integers(1, 12))):
        name = data.draw(st.sampled_from(NAMES))
        if name in dead:
            continue
        match data.draw(st.sampled_from(["announce", "join", "die", "wait", "restart"])):
            case "announce":
                announce(book, name, told[name])
            case "join":
                after = left.get(name, told[name]["round"])
                try:
                    found = join(book, name, after=after).formed
                except NotFound:
                    announce(book, name, told[name])
                    found = join(book, name, after=after).formed
                formed += [found] if found else []
            case "die":
                dead.add(name)
                found = book.died(2.0, member=name, incarnation=None).formed
                formed += [found] if found else []
            case "wait":
                found = book.stop_awaiting(3.0).formed or book.form(1e9).formed
                formed += [found] if found else []
            case "restart":
                other = RendezvousBook(Limits(1, 3))
                other.restore(book.snapshot())
                assert other.snapshot() == book.snapshot()
                book = other
        for world in formed[-1:]:
            left |= {member.name: world.round for member in world.members}
    numbers = [world.round for world in formed]
    assert numbers == sorted(set(numbers))
    assert all(number > told["worker-0"]["round"] for number in numbers if "worker-0" in left)
    if book.world is not None and book.status(book.round).intact:
        assert not dead & {member.name for member in book.world.members}
