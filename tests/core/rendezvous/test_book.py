from __future__ import annotations

import json
from typing import Any

import pytest

from pliant.core.errors import Conflict, CorruptData, InvalidRequest, NotFound, SessionExpired
from pliant.core.rendezvous import book as rendezvous
from pliant.core.rendezvous.book import Closed, Expelled, Limits, Outcome, RendezvousBook, RoundStatus, Waiting, World


def make(min_nodes: int = 1, max_nodes: int = 4, unit: int = 1, wait: float = 10.0) -> RendezvousBook:
    return RendezvousBook(Limits(min_nodes, max_nodes, unit, wait))


def join(
    server: RendezvousBook, name: str, *, at: float = 0.0, life: str = "1", step: int = 0, after: int | None = None
) -> Outcome:
    return server.join(at, member=name, incarnation=life, attrs={"host": f"{name}.local"}, step=step, after=after)


def world_of(*names: str, **limits: Any) -> RendezvousBook:
    server = make(**limits)
    server.expect(0, count=len(names))
    for name in names:
        join(server, name)
    assert ranks(server) == list(names)
    return server


def ranks(server: RendezvousBook) -> list[str]:
    assert server.world
    return [member.name for member in server.world.members]


# --- forming the first world ---


def test_a_world_is_formed_when_nobody_has_come_for_as_long_as_the_window() -> None:
    server = make(min_nodes=2, wait=10)
    join(server, "a", at=0)
    assert server.deadline() is None
    join(server, "b", at=5)
    join(server, "c", at=9)
    assert server.deadline() == 19
    assert not server.due(18.9)
    assert server.form(18.9) == Outcome("no world is due")
    assert server.due(19)
    formed = server.form(19).formed
    assert formed is server.world
    assert ranks(server) == ["a", "b", "c"]
    assert formed
    assert (formed.round, formed.formed_at, formed.rank_of("c")) == (1, 19, 2)


def test_a_repeated_join_does_not_prolong_the_window() -> None:
    server = make(wait=10)
    join(server, "a", at=0)
    join(server, "a", at=9)
    assert server.due(10)


def test_a_world_is_formed_at_once_when_as_many_as_fit_have_arrived() -> None:
    server = make(min_nodes=1, max_nodes=3, unit=2)
    join(server, "a")
    outcome = join(server, "b")
    assert outcome.formed
    assert "maximum number" in outcome.reason


def test_a_world_is_formed_at_once_when_all_that_are_expected_have_arrived() -> None:
    server = make()
    server.expect(0, count=2)
    assert join(server, "a").formed is None
    assert join(server, "b").formed


def test_learning_that_nobody_else_is_expected_forms_the_world() -> None:
    server = make()
    join(server, "a")
    join(server, "b")
    assert server.expect(1, count=2).formed


def test_an_unknown_expectation_waits_the_window() -> None:
    server = make()
    server.expect(0, count=0)
    assert join(server, "a").formed is None


def test_lowering_the_minimum_lets_those_who_wait_begin() -> None:
    server = make(min_nodes=3)
    join(server, "a")
    join(server, "b")
    assert not server.due(100)
    assert server.set_limits(100, min_nodes=1, max_nodes=2).formed


def test_fewer_than_the_minimum_wait_for_ever_and_are_told_why() -> None:
    server = make(min_nodes=2)
    join(server, "a")
    assert not server.due(1e9)
    assert server.world_of("a", "1") == Waiting(
        "1 joined; at least 2 required, in units of 1", join_again=False, round=0
    )


def test_those_over_the_node_unit_or_the_maximum_wait_as_spares() -> None:
    server = make(min_nodes=2, max_nodes=5, unit=2)
    for name in "abcde":
        join(server, name)
    assert ranks(server) == ["a", "b", "c", "d"]
    assert server.status(1) == RoundStatus(intact=True, superseded=False, missing=(), waiting=0, spares=1)
    assert [member.name for member in server.waiting] == ["e"]


# --- order ---


def test_rank_0_is_the_oldest_of_those_with_the_newest_step_and_the_others_follow_by_age() -> None:
    server = make(max_nodes=4)
    for name, step in [("a", 7), ("b", 8), ("c", 7), ("d", 8)]:
        join(server, name, step=step)
    assert ranks(server) == ["b", "a", "c", "d"]


def test_the_newest_state_is_taken_along_even_if_its_owner_is_the_youngest_of_too_many() -> None:
    server = world_of("a", "b", "c", min_nodes=1, max_nodes=3)
    server.set_limits(1, min_nodes=1, max_nodes=2)
    join(server, "a", step=4, after=1)
    join(server, "b", step=4, after=1)
    join(server, "c", step=5, after=1)
    assert ranks(server) == ["c", "a"]


def test_survivors_keep_their_order_and_newcomers_come_last_whoever_joins_first() -> None:
    server = world_of("a", "b", "c", min_nodes=2)
    join(server, "new", at=1)
    server.died(2, member="a", incarnation=None)
    join(server, "c", at=3)
    assert join(server, "b", at=4).formed
    assert ranks(server) == ["b", "c", "new"]


def test_a_new_incarnation_is_the_youngest() -> None:
    server = world_of("a", "b")
    join(server, "a", life="2")
    join(server, "b", after=1)
    assert ranks(server) == ["b", "a"]


# --- breaking and forming again ---


def test_survivors_that_are_all_back_get_their_world_at_once_without_the_dead() -> None:
    server = world_of("a", "b", "c")
    broke = server.died(5.0, member="b", incarnation="1")
    assert (broke.broke, broke.formed) == (1, None)
    assert join(server, "a", at=5.001, after=1).formed is None
    outcome = join(server, "c", at=5.002, after=1)
    assert outcome.formed
    assert "all survivors rejoined" in outcome.reason
    assert ranks(server) == ["a", "c"]


def test_the_last_survivor_forms_the_world_by_dying_if_the_others_are_back() -> None:
    server = world_of("a", "b", "c")
    join(server, "b", after=1)
    join(server, "a", after=1)
    outcome = server.died(1, member="c", incarnation=None)
    assert outcome.formed
    assert ranks(server) == ["a", "b"]


def test_a_world_whose_members_all_died_is_followed_by_one_that_waits_the_window() -> None:
    server = world_of("a", "b")
    for name in "ab":
        server.died(1, member=name, incarnation=None)
    server.expect(1, count=3)
    assert join(server, "a", at=2, life="2").formed is None
    assert join(server, "b", at=3, life="2").formed is None
    assert server.form(13).formed


def test_a_former_member_that_was_left_out_of_the_latest_world_is_no_survivor_of_it() -> None:
    server = world_of("a", "b", "c", max_nodes=3)
    server.set_limits(1, min_nodes=1, max_nodes=2)
    for name in "abc":
        join(server, name, at=1, after=1)
    assert ranks(server) == ["a", "b"]
    server.set_limits(2, min_nodes=1, max_nodes=4)
    for name in "ab":
        server.died(2, member=name, incarnation=None)
    assert server.round == 2
    assert server.form(11).formed
    assert ranks(server) == ["c"]


def test_too_few_survivors_wait_until_enough_have_arrived_and_then_no_longer() -> None:
    server = world_of("a", "b", min_nodes=2)
    server.died(1, member="b", incarnation=None)
    join(server, "a", at=1, after=1)
    assert not server.due(1e9)
    assert join(server, "c", at=50).formed
    assert ranks(server) == ["a", "c"]


def test_everybody_joining_again_after_a_failure_forms_the_same_world_anew() -> None:
    server = world_of("a", "b", "c")
    for name in "cba":
        join(server, name)
    assert server.round == 2
    assert ranks(server) == ["a", "b", "c"]


def test_a_member_that_has_not_joined_again_keeps_the_next_world_from_being_formed() -> None:
    server = world_of("a", "b")
    join(server, "a", after=1)
    assert not server.due(1e9)
    answer = server.world_of("a", "1")
    assert isinstance(answer, Waiting)
    assert answer.reason == "round 1 is in use by 1 member; 1 waiting for the next"


def test_a_joiner_only_shows_up_as_waiting_until_the_members_admit_it() -> None:
    server = world_of("a", "b", max_nodes=3)
    world = server.world
    join(server, "c", at=1)
    assert server.status(1) == RoundStatus(intact=True, superseded=False, missing=(), waiting=1, spares=0)
    assert server.world_of("a", "1") is server.world_of("b", "1") is world
    assert not server.due(1e9)
    join(server, "a", at=2, after=1)
    join(server, "b", at=2, after=1)
    assert ranks(server) == ["a", "b", "c"]


def test_a_world_in_use_is_not_shrunk_by_a_lower_maximum() -> None:
    server = world_of("a", "b", "c")
    server.set_limits(1, min_nodes=1, max_nodes=2)
    assert server.status(1).intact
    for name in "abc":
        join(server, name, after=1)
    assert ranks(server) == ["a", "b"]


# --- what members read ---


def test_every_member_reads_the_same_world_with_the_attributes_of_all() -> None:
    server = world_of("a", "b")
    world = server.world_of("a", "1")
    assert isinstance(world, World)
    assert world is server.world_of("b", "1")
    assert [member.attrs["host"] for member in world.members] == ["a.local", "b.local"]


def test_a_world_that_broke_before_it_was_read_is_given_to_nobody_any_more() -> None:
    server = world_of("a", "b", "c")
    assert isinstance(server.world_of("a", "1"), World)
    server.leave(1, member="b", incarnation="1")
    assert server.world_of("c", "1") == Waiting("round 1 is broken without b", join_again=True, round=1)
    assert server.status(1) == RoundStatus(intact=False, superseded=False, missing=("b",), waiting=0, spares=0)


def test_a_superseded_round_says_so() -> None:
    server = world_of("a", "b")
    for name in "ab":
        join(server, name, after=1)
    assert server.status(1) == RoundStatus(intact=False, superseded=True, missing=(), waiting=0, spares=0)
    assert server.status(2).intact


@pytest.mark.parametrize("round", [-1, 0, 2])
def test_the_status_of_a_round_that_was_never_formed_is_not_found(round: int) -> None:
    with pytest.raises(NotFound, match=f"round {round} was never formed"):
        world_of("a").status(round)


def test_who_never_joined_is_told_to_join() -> None:
    assert make().world_of("a", "1") == Waiting("a (1) has not joined", join_again=True)


# --- late, repeated and misdirected calls ---


def test_a_join_repeated_while_waiting_updates_attributes_and_step() -> None:
    server = make(max_nodes=2)
    join(server, "a", step=1)
    server.join(1, member="a", incarnation="1", attrs={"host": "moved"}, step=2)
    (waiting,) = server.waiting
    assert (waiting.attrs, waiting.step, waiting.seniority) == ({"host": "moved"}, 2, 1)


def test_a_join_that_was_sent_before_the_members_world_was_formed_does_not_break_it() -> None:
    server = world_of("a", "b")
    assert join(server, "b", after=0).broke is None
    assert server.status(1).intact
    assert join(server, "b", after=1).broke == 1


def test_a_join_sent_before_the_last_world_does_not_take_a_waiting_members_step_back() -> None:
    server = world_of("a", "b")
    join(server, "b", step=8, after=1)
    join(server, "b", step=3, after=0)
    assert server.waiting[0].step == 8


def test_the_death_of_an_old_incarnation_does_not_touch_the_newer() -> None:
    server = make(min_nodes=2, max_nodes=2)
    join(server, "a", life="1")
    join(server, "a", life="2")
    join(server, "b")
    server.died(1, member="a", incarnation="1")
    server.leave(1, member="a", incarnation="1")
    assert server.status(1).intact
    assert server.world_of("a", "1") == Expelled("a new incarnation of it has joined")


def test_a_frozen_worker_that_wakes_finds_itself_expelled_and_may_come_back_as_new() -> None:
    server = world_of("a", "b")
    server.died(1, member="a", incarnation="1")
    assert server.world_of("a", "1") == Expelled("it was declared dead")
    with pytest.raises(SessionExpired, match="declared dead"):
        join(server, "a")
    join(server, "a", life="2")
    join(server, "b", after=1)
    assert ranks(server) == ["b", "a"]


def test_a_join_that_is_overtaken_by_the_news_of_its_senders_death_is_refused() -> None:
    server = make()
    server.died(0, member="a", incarnation="1")
    with pytest.raises(SessionExpired):
        join(server, "a")


def test_the_death_of_somebody_unknown_changes_nothing() -> None:
    server = world_of("a")
    before = server.snapshot()
    assert server.died(1, member="x", incarnation=None) == Outcome("x was not a member")
    assert server.snapshot() == before


def test_only_so_many_ended_incarnations_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "MAX_ENDED_REMEMBERED", 3)
    server = make()
    for life in "12345":
        server.died(0, member="a", incarnation=life)
    assert [life for _, life, _ in server.snapshot()["ended"]] == ["3", "4", "5"]


# --- closing ---


def test_a_closed_rendezvous_keeps_its_world_and_forms_no_other() -> None:
    server = world_of("a", "b")
    join(server, "c")
    server.close(1)
    assert server.close(2) == server.close(3)
    assert server.closed
    assert isinstance(server.world_of("a", "1"), World)
    assert isinstance(server.world_of("c", "1"), Closed)
    assert server.status(1).waiting == 0
    with pytest.raises(Conflict, match="the job is ending"):
        join(server, "a", after=1)
    server.died(4, member="a", incarnation=None)
    assert isinstance(server.world_of("b", "1"), Closed)
    server.died(5, member="b", incarnation=None)
    assert not server.due(1e9)


# --- bad requests and the state as JSON ---


@pytest.mark.parametrize(
    "bad",
    [
        {"member": ""},
        {"member": None},
        {"member": "x" * 257},
        {"incarnation": ""},
        {"incarnation": 1},
        {"attrs": None},
        {"attrs": {"a": 1}},
        {"attrs": {1: "a"}},
        {"attrs": {"a": "x" * 4097}},
        {"attrs": {str(key): "" for key in range(65)}},
        {"step": -1},
        {"step": True},
        {"step": 1.0},
        {"after": -1},
        {"after": 2},
    ],
)
def test_an_absurd_join_is_refused_and_leaves_no_trace(bad: dict[str, Any]) -> None:
    server = world_of("a", "b")
    before = server.snapshot()
    with pytest.raises(InvalidRequest):
        server.join(1, **{"member": "a", "incarnation": "1", "attrs": {}, **bad})
    assert server.snapshot() == before


@pytest.mark.parametrize(("low", "high", "unit"), [(0, 1, 1), (2, 1, 1), (1, 1, 2), (3, 3, 2), (True, 2, 1)])
def test_limits_that_allow_no_world_are_refused(low: int, high: int, unit: int) -> None:
    with pytest.raises(InvalidRequest):
        Limits(low, high, unit)


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_a_window_that_is_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidRequest, match="wait_seconds"):
        Limits(1, 1, wait_seconds=seconds)


def test_refused_limits_and_counts_leave_no_trace() -> None:
    server = world_of("a", "b", unit=2)
    before = server.snapshot()
    with pytest.raises(InvalidRequest, match="no multiple of node_unit=2"):
        server.set_limits(1, min_nodes=3, max_nodes=3)
    with pytest.raises(InvalidRequest, match="count"):
        server.expect(1, count=-1)
    with pytest.raises(InvalidRequest, match="incarnation"):
        server.died(1, member="a", incarnation="")
    assert server.snapshot() == before


def test_a_restored_machine_goes_on_where_the_old_one_stopped() -> None:
    server = world_of("a", "b")
    join(server, "c", life="9", step=3)
    restored = make(max_nodes=1)
    restored.restore(json.loads(json.dumps(server.snapshot())))
    assert restored.snapshot() == server.snapshot()
    assert restored.world == server.world
    for machine in (server, restored):
        for name in "ab":
            join(machine, name, after=1)
    assert ranks(restored) == ranks(server) == ["c", "a", "b"]


@pytest.mark.parametrize("spoil", ["limits", "world", "live", "ended"])
def test_a_damaged_snapshot_is_refused_and_leaves_the_machine_as_it_was(spoil: str) -> None:
    server = world_of("a", "b")
    server.died(1, member="b", incarnation=None)
    before = server.snapshot()
    with pytest.raises(CorruptData, match="not a snapshot of a rendezvous"):
        server.restore({**before, spoil: [{"cut": "short"}]})
    assert server.snapshot() == before
