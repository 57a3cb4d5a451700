"""Worker groups: the rules one by one, then random histories of nodes, programs and failures."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pliant.core.errors import Conflict, CorruptData, InvalidRequest
from pliant.core.rendezvous.groups import MAX_WAIT_FOR_NODES_S, GroupBook, RestartAll, StartProgram

ROLE = "worker"


def formed(*nodes: str, connected: bool = False) -> GroupBook:
    book = GroupBook()
    book.form(0.0, role=ROLE, nodes=list(nodes), addr="host", port=2000, reason="job start")
    if connected:
        book.seen(0.0, role=ROLE, node=nodes[0], generation=1)
    return book


def fails(book: GroupBook, node: str, message: str = "boom", now: float = 1.0) -> list[Any]:
    return book.gone(now, role=ROLE, node=node, generation=None, finished=False, message=message)


def test_the_first_generation_ranks_the_nodes_as_given() -> None:
    book = GroupBook()
    assert book.start_for(ROLE, "a") is None
    seats = book.form(0.0, role=ROLE, nodes=["a", "b"], addr="host", port=2000, reason="job start")
    assert seats == [
        StartProgram("a", 0, 2, "host", 2000, 1, 0, "job start"),
        StartProgram("b", 1, 2, "host", 2000, 1, 0, "job start"),
    ]
    assert book.start_for(ROLE, "b") == seats[1]


def test_while_nobody_was_seen_with_peers_a_failure_concerns_one_program_only() -> None:
    book = formed("a", "b")
    assert fails(book, "a") == []
    assert book.recall(ROLE, "b", 1) == ""
    assert book.join(2.0, role=ROLE, node="a") == [StartProgram("a", 0, 2, "host", 2000, 1, 0, "job start")]


def test_a_replacement_takes_the_rank_of_the_one_that_went_and_a_newcomer_the_next() -> None:
    book = formed("a", "b")
    fails(book, "a")
    book.join(2.0, role=ROLE, node="c")
    book.join(2.0, role=ROLE, node="d")
    assert book.group(ROLE).members == ("c", "b", "d")
    seat = book.start_for(ROLE, "d")
    assert seat is not None
    assert (seat.rank, seat.world_size) == (2, 3)


def test_a_failure_among_connected_programs_ends_all_of_them() -> None:
    book = formed("a", "b", "c", connected=True)
    [decision] = fails(book, "b")
    assert decision == RestartAll(ROLE, 1, ("a", "c"), "b ended: boom")
    assert "boom" in book.recall(ROLE, "a", 1)
    assert book.start_for(ROLE, "a") is None


def test_the_next_generation_waits_for_the_last_program_of_the_one_before() -> None:
    book = formed("a", "b", connected=True)
    fails(book, "b")
    assert not book.formable(ROLE, 2.0, ready=2, coming=0, min_nodes=2)
    with pytest.raises(Conflict, match="running programs"):
        book.form(2.0, role=ROLE, nodes=["a", "b"], addr="host", port=2001, reason="again")
    fails(book, "a", "connection reset")
    assert book.formable(ROLE, 2.0, ready=2, coming=0, min_nodes=2)
    book.form(2.0, role=ROLE, nodes=["a", "b"], addr="host", port=2001, reason="again")
    assert book.start_for(ROLE, "b") == StartProgram("b", 1, 2, "host", 2001, 2, 1, "again")
    assert book.recall(ROLE, "a", 1) == "generation 1 has ended"


def test_it_waits_for_the_least_number_and_a_while_for_those_that_are_being_created() -> None:
    book = formed("a", "b", connected=True)
    fails(book, "a", now=10.0)
    fails(book, "b", now=10.0)
    assert not book.formable(ROLE, 99.0, ready=1, coming=1, min_nodes=2)
    assert not book.formable(ROLE, 10.0 + MAX_WAIT_FOR_NODES_S - 1, ready=1, coming=1, min_nodes=1)
    assert book.formable(ROLE, 10.0 + MAX_WAIT_FOR_NODES_S, ready=1, coming=1, min_nodes=1)
    assert book.formable(ROLE, 10.0, ready=1, coming=0, min_nodes=2), "the others finished, nobody else will come"


def test_what_follows_from_the_first_failure_is_excused_and_the_same_fault_is_not() -> None:
    book = formed("a", "b", "c", connected=True)
    assert not book.excuses(ROLE, "a", 1, "ValueError: boom")
    fails(book, "a", "ValueError: boom")
    assert book.excuses(ROLE, "b", 1, "Connection reset by peer")
    assert not book.excuses(ROLE, "c", 1, "ValueError: boom")
    assert not book.excuses(ROLE, "a", 1, "of a program that has ended")


def test_who_only_lost_a_peer_is_excused_and_who_fails_after_such_words_is_not() -> None:
    book = formed("a", "b", "c", connected=True)
    fails(book, "a", "Read error [10.0.0.1]:9962: Connection reset by peer")
    assert book.excuses(ROLE, "b", 1, "Read error [10.0.0.1]:9962: Connection reset by peer")
    assert not book.excuses(ROLE, "c", 1, "ValueError: boom")


def test_a_joiner_of_a_connected_group_makes_it_form_anew() -> None:
    book = formed("a", connected=True)
    assert book.join(1.0, role=ROLE, node="b") == [RestartAll(ROLE, 1, ("a",), "b joins")]


def test_a_joiner_does_not_disturb_a_group_whose_first_member_has_finished() -> None:
    book = formed("a", "b", connected=True)
    book.gone(1.0, role=ROLE, node="a", generation=1, finished=True, message="finished")
    assert book.join(2.0, role=ROLE, node="c") == []
    assert not book.formable(ROLE, 99.0, ready=2, coming=0, min_nodes=1)
    book.gone(3.0, role=ROLE, node="b", generation=1, finished=True, message="finished")
    assert book.formable(ROLE, 3.0, ready=1, coming=0, min_nodes=1)


def test_a_failure_before_the_programs_were_seen_together_restarts_them_once_they_are() -> None:
    book = formed("a", "b")
    fails(book, "b")
    book.join(2.0, role=ROLE, node="b")
    [decision] = book.seen(3.0, role=ROLE, node="a", generation=1)
    assert decision == RestartAll(ROLE, 1, ("a", "b"), "b ended before the programs connected")


def test_a_report_of_an_earlier_generation_changes_nothing() -> None:
    book = formed("a", connected=True)
    fails(book, "a")
    book.form(2.0, role=ROLE, nodes=["a"], addr="host", port=2001, reason="again")
    before = book.snapshot()
    assert book.gone(3.0, role=ROLE, node="a", generation=1, finished=False, message="late") == []
    assert book.restart(3.0, role=ROLE, generation=1, reason="late") == []
    assert book.snapshot() == before


@pytest.mark.parametrize(("nodes", "port"), [([], 2000), (["a", "a"], 2000), (["a"], 0), (["a"], 1 << 16)])
def test_a_generation_that_cannot_be_is_refused(nodes: list[str], port: int) -> None:
    book = GroupBook()
    with pytest.raises(InvalidRequest):
        book.form(0.0, role=ROLE, nodes=nodes, addr="host", port=port, reason="")
    assert book.snapshot() == {}


@pytest.mark.parametrize("state", [{"worker": {"no": 1}}, {"worker": None}, {"worker": {"role": "w", "members": 3}}])
def test_what_is_no_snapshot_is_refused_by_name(state: dict[str, Any]) -> None:
    with pytest.raises(CorruptData, match="not a snapshot of groups"):
        GroupBook().restore(state)


class GroupHistories(RuleBasedStateMachine):
    """Nodes come and go, programs start, fail and finish; the rules of the module hold throughout."""

    def __init__(self) -> None:
        super().__init__()
        self.book = GroupBook()
        self.now = 0.0
        self.calls: list[tuple[float, str, dict[str, Any]]] = []
        self.waiting: list[str] = []  # nodes that are there without a program, oldest first
        self.programs: dict[str, int] = {}  # node -> the generation that its program runs in
        self.names = 0

    @initialize(count=st.integers(1, 4))
    def the_job_starts(self, count: int) -> None:
        self.waiting = [self._name() for _ in range(count)]
        self._form()

    # --- what happens

    @rule()
    def a_node_comes(self) -> None:
        node = self._name()
        self.waiting.append(node)
        self._call("join", node=node)
        self._form()

    @precondition(lambda self: any(self.book.start_for(ROLE, node) for node in self.waiting))
    @rule(data=st.data())
    def a_program_starts(self, data: st.DataObject) -> None:
        node = self._draw(data, [node for node in self.waiting if self.book.start_for(ROLE, node)])
        seat = self.book.start_for(ROLE, node)
        assert seat is not None
        self.waiting.remove(node)
        self.programs[node] = seat.generation

    @precondition(lambda self: self.programs)
    @rule(data=st.data())
    def a_program_fails_and_its_node_stays(self, data: st.DataObject) -> None:
        node = self._draw(data, list(self.programs))
        others = {n for n in self.programs if n != node}
        before = self.book.group(ROLE)
        self._end(node, finished=False)
        group = self.book.group(ROLE)
        told = {n for n in others if self.book.recall(ROLE, n, self.programs[n])}
        assert told == (others if before.connected else set())
        assert bool(group.ending) == before.connected
        self.waiting.append(node)
        self._call("join", node=node)
        self._form()

    @precondition(lambda self: self.programs)
    @rule(data=st.data())
    def a_program_finishes(self, data: st.DataObject) -> None:
        node = self._draw(data, list(self.programs))
        before = self.book.group(ROLE).ending
        self._end(node, finished=True)
        assert self.book.group(ROLE).ending == before

    @precondition(lambda self: self.programs or self.waiting)
    @rule(data=st.data())
    def a_node_is_lost(self, data: st.DataObject) -> None:
        node = self._draw(data, [*self.programs, *self.waiting])
        self.programs.pop(node, None)
        if node in self.waiting:
            self.waiting.remove(node)
        for stray in self.book.stray(ROLE, {*self.programs, *self.waiting}):
            assert stray == node
            self._gone(stray)
        self._form()

    @precondition(lambda self: self.programs)
    @rule(data=st.data())
    def a_program_is_seen_with_its_peers(self, data: st.DataObject) -> None:
        node = self._draw(data, list(self.programs))
        self._call("seen", node=node, generation=self.programs[node])
        assert self.book.group(ROLE).connected

    @rule(seconds=st.sampled_from([0.1, MAX_WAIT_FOR_NODES_S, 60.0]))
    def time_passes_and_whoever_is_recalled_ends(self, seconds: float) -> None:
        self.now += seconds
        self._settle()

    # --- what holds

    @invariant()
    def ranks_are_given_once_and_only_members_run(self) -> None:
        group = self.book.group(ROLE)
        assert len(set(group.members)) == len(group.members)
        assert [n for n in group.members if n in group.running] == list(group.running)
        assert not set(group.running) & set(group.finished)

    @invariant()
    def all_programs_are_of_one_generation(self) -> None:
        assert set(self.programs.values()) <= {self.book.group(ROLE).generation}
        assert set(self.programs) <= set(self.book.group(ROLE).running)

    @invariant()
    def whoever_is_not_connected_is_never_recalled_and_never_waits(self) -> None:
        if not self.book.group(ROLE).connected:
            assert not any(self.book.recall(ROLE, node, g) for node, g in self.programs.items())
            assert all(self.book.start_for(ROLE, node) for node in self.waiting)

    @invariant()
    def replayed_and_restored_it_is_the_same(self) -> None:
        replayed, restored = GroupBook(), GroupBook()
        for now, method, arguments in self.calls:
            getattr(replayed, method)(now, **json.loads(json.dumps(arguments)))
        restored.restore(json.loads(json.dumps(self.book.snapshot())))
        assert replayed.snapshot() == restored.snapshot() == self.book.snapshot()
        assert replayed.group(ROLE) == restored.group(ROLE) == self.book.group(ROLE)

    def teardown(self) -> None:
        """Left alone, every node gets to run its program to the end."""
        self.now += 1000
        for _ in range(2 * self.names + 2):
            self._settle()
            for node in [node for node in self.waiting if self.book.start_for(ROLE, node)]:
                self.waiting.remove(node)
                self.programs[node] = self.book.group(ROLE).generation
            for node in list(self.programs):
                if not self.book.recall(ROLE, node, self.programs[node]):
                    self._end(node, finished=True)
        assert (self.waiting, self.programs) == ([], {})

    # --- inside

    def _settle(self) -> None:
        for node in [n for n, generation in self.programs.items() if self.book.recall(ROLE, n, generation)]:
            self._end(node, finished=False)
            self.waiting.append(node)
        group = self.book.group(ROLE)
        for node in [n for n in self.waiting if group.ending and n in group.running]:
            self._gone(node)
        self._form()

    def _form(self) -> None:
        ready = sorted(self.waiting, key=lambda name: int(name[1:]))
        if self.book.formable(ROLE, self.now, ready=len(ready), coming=0, min_nodes=1):
            assert not self.programs
            before = self.book.group(ROLE)
            self._call("form", nodes=ready, addr="host", port=2000 + before.generation, reason="again")
            group = self.book.group(ROLE)
            assert group.generation == before.generation + 1
            assert group.members == group.running == tuple(ready)

    def _end(self, node: str, *, finished: bool) -> None:
        self._gone(node, generation=self.programs.pop(node), finished=finished)

    def _gone(self, node: str, *, generation: int | None = None, finished: bool = False) -> None:
        self._call("gone", node=node, generation=generation, finished=finished, message="boom")

    def _call(self, method: str, **arguments: Any) -> None:
        arguments = {"role": ROLE, **arguments}
        event: Callable[..., Any] = getattr(self.book, method)
        event(self.now, **arguments)
        self.calls.append((self.now, method, arguments))

    def _name(self) -> str:
        self.names += 1
        return f"n{self.names}"

    @staticmethod
    def _draw(data: st.DataObject, names: list[str]) -> str:
        return data.draw(st.sampled_from(names))


TestGroupHistories = GroupHistories.TestCase
TestGroupHistories.settings = settings(
    max_examples=50, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def announced(book: GroupBook, node: str, rank: int, *, generation: int = 1, world_size: int = 3) -> None:
    told: dict[str, Any] = {
        "generation": generation,
        "rank": rank,
        "world_size": world_size,
        "addr": "10.0.0.1",
        "port": 15_000,
    }
    assert book.adopt(0.0, role="worker", node=node, **told) == []


def test_ranks_that_programs_announce_are_theirs_and_a_newcomer_takes_one_that_nobody_has() -> None:
    book = GroupBook()
    announced(book, "worker-2", 2)
    announced(book, "worker-0", 0)
    announced(book, "worker-0", 0)
    group = book.group("worker")
    assert (group.generation, group.running, group.port) == (1, ("worker-0", "worker-2"), 15_000)
    assert book.recall("worker", "worker-0", 1) == ""
    [start] = book.join(1.0, role="worker", node="worker-3")
    assert isinstance(start, StartProgram)
    assert (start.rank, start.world_size) == (1, 3)


def test_programs_of_an_older_generation_than_another_announced_are_recalled() -> None:
    book = GroupBook()
    announced(book, "worker-0", 0, generation=2)
    announced(book, "worker-1", 1, generation=3)
    announced(book, "worker-2", 2, generation=2)
    assert book.group("worker").running == ("worker-1",)
    assert book.recall("worker", "worker-0", 2) == "generation 2 has ended"


@pytest.mark.parametrize("wrong", [{"generation": 0}, {"rank": 3}, {"rank": -1}, {"world_size": 10**9}, {"port": 0}])
def test_a_rank_that_cannot_be_is_refused(wrong: dict[str, int]) -> None:
    told = {"generation": 1, "rank": 0, "world_size": 3, "port": 15_000, **wrong}
    book = GroupBook()
    with pytest.raises(InvalidRequest):
        book.adopt(0.0, role="worker", node="worker-0", addr="10.0.0.1", **told)
    assert book.snapshot() == {}
