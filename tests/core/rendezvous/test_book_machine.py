"""Random histories of a rendezvous, held against a model that knows only the rules, and against replay."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pliant.core.errors import Conflict, PliantError, SessionExpired
from pliant.core.rendezvous.book import Closed, Expelled, Limits, Outcome, RendezvousBook, Waiting, World
from pliant.core.rendezvous.virtual_workers import hosted_counts

NAMES = [f"worker-{number}" for number in range(7)]
WINDOW = 10.0

names = st.sampled_from(NAMES)
steps = st.integers(0, 3)


@dataclass
class Life:
    """What the model knows of a live incarnation; ``round`` is the world it is in, 0 while it waits."""

    incarnation: str
    age: int
    step: int
    round: int = 0
    last_round: int = 0


class RendezvousHistories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.calls: list[tuple[float, str, dict[str, Any]]] = []
        self.lives: dict[str, Life] = {}
        self.dead: list[tuple[str, str]] = []
        self.worlds: list[World] = []
        self.incarnations = 0
        self.expected = 0
        self.arrived_at = 0.0
        self.virtual_workers = 0
        self.assigned: dict[str, int] = {}

    @initialize(
        low=st.integers(1, 3), units=st.integers(1, 3), unit=st.integers(1, 2), virtual_workers=st.integers(0, 12)
    )
    def start(self, low: int, units: int, unit: int, virtual_workers: int) -> None:
        self.virtual_workers = virtual_workers
        self.first_limits = Limits(low, max(low, units * unit) + unit - 1, unit, WINDOW)
        self.limits = self.first_limits
        self.machine = RendezvousBook(self.first_limits)

    # --- what happens ---

    @rule(name=names, step=steps)
    def a_worker_arrives_or_comes_back_in_a_new_incarnation(self, name: str, step: int) -> None:
        old = self.lives.get(name)
        outside = old is None or not old.round
        before = self._intact_world()
        if old:
            self._bury(name)
        self._arrive(name, self._new_incarnation(), step)
        if before and outside:
            assert self.machine.status(before.round).intact
            assert self.machine.world == before

    @precondition(lambda self: self.lives)
    @rule(data=st.data(), step=steps)
    def a_live_worker_joins_again(self, data: st.DataObject, step: int) -> None:
        name = data.draw(st.sampled_from(list(self.lives)))
        self._rejoin(name, step)

    @rule(arriving=st.lists(names, min_size=2, max_size=len(NAMES), unique=True), step=steps)
    def several_workers_arrive(self, arriving: list[str], step: int) -> None:
        for name in arriving:
            if name not in self.lives:
                self._arrive(name, self._new_incarnation(), step)

    @precondition(lambda self: self.lives)
    @rule(data=st.data(), how=st.sampled_from(["leaves", "dies", "dies with its node"]))
    def a_worker_goes(self, data: st.DataObject, how: str) -> None:
        name = data.draw(st.sampled_from(list(self.lives)))
        incarnation = self.lives[name].incarnation
        self._bury(name)
        if how == "leaves":
            self._call("leave", member=name, incarnation=incarnation)
        else:
            self._call("died", member=name, incarnation=incarnation if how == "dies" else None)

    @precondition(lambda self: any(life.round for life in self.lives.values()))
    @rule(step=steps)
    def the_members_of_the_world_join_again_at_a_step_boundary(self, step: int) -> None:
        for name in [name for name, life in self.lives.items() if life.round]:
            self._rejoin(name, step)

    @rule(low=st.integers(1, 4), more=st.integers(0, 4))
    def the_limits_change(self, low: int, more: int) -> None:
        try:
            self.limits = Limits(low, low + more, self.limits.node_unit, WINDOW)
        except PliantError:
            self._refused(PliantError, "set_limits", min_nodes=low, max_nodes=low + more)
        else:
            self._call("set_limits", min_nodes=low, max_nodes=low + more)

    @precondition(lambda self: self.virtual_workers and self._intact_world())
    @rule(data=st.data(), even=st.booleans())
    def virtual_workers_are_assigned(self, data: st.DataObject, even: bool) -> None:
        world = self._intact_world()
        assert world is not None
        names = [member.name for member in world.members]
        minimum = 1 if self.virtual_workers >= len(names) else 0
        left = self.virtual_workers - minimum * len(names)
        counts = dict.fromkeys(names, minimum)
        for name in data.draw(st.lists(st.sampled_from(names), min_size=left, max_size=left)):
            counts[name] += 1
        self._refused(PliantError, "assign_seats", seats={**counts, names[0]: counts[names[0]] + 1})
        self.assigned = {} if even else counts
        self._call("assign_seats", seats=self.assigned)
        assert self.machine.world is world or self.machine.world == world
        assert self.machine.status(world.round).outdated == (self.machine.assigned_seats() != world.hosted)

    @rule(count=st.integers(0, len(NAMES)))
    def another_number_is_expected(self, count: int) -> None:
        self.expected = count
        self._call("expect", count=count)

    @rule(seconds=st.sampled_from([0.1, 4.0, WINDOW, 60.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        due = self._formable() and self.now >= self.arrived_at + WINDOW
        assert self.machine.due(self.now) == due
        assert (self._call("form").formed is not None) == due

    # --- what must change nothing ---

    @precondition(lambda self: self.dead)
    @rule(data=st.data())
    def late_calls_of_the_dead_arrive(self, data: st.DataObject) -> None:
        name, incarnation = data.draw(st.sampled_from(self.dead))
        before = self.machine.snapshot()
        self._refused(SessionExpired, "join", member=name, incarnation=incarnation, attrs={})
        self._call("died", member=name, incarnation=incarnation)
        self._call("leave", member=name, incarnation=incarnation)
        assert self.machine.snapshot() == before
        assert isinstance(self.machine.world_of(name, incarnation), Expelled)

    @precondition(lambda self: any(life.last_round for life in self.lives.values()))
    @rule(data=st.data())
    def a_join_sent_before_the_latest_world_arrives_late(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([name for name, life in self.lives.items() if life.last_round]))
        life = self.lives[name]
        before = self.machine.snapshot()
        after = data.draw(st.integers(0, life.last_round - 1))
        self._call("join", member=name, incarnation=life.incarnation, attrs={}, step=9, after=after)
        assert self.machine.snapshot() == before

    @precondition(lambda self: self.calls)
    @rule()
    def the_latest_call_is_delivered_twice(self) -> None:
        _, method, arguments = self.calls[-1]
        name = str(arguments.get("member"))
        if method == "join" and name in self.lives and self.lives[name].round:
            return  # Without ``after`` this is a new join by definition; with it, see the rule above.
        before = self.machine.snapshot()
        self._call(method, **arguments)
        assert self.machine.snapshot() == before

    # --- the master dies ---

    @rule(from_journal=st.booleans())
    def the_master_restarts(self, from_journal: bool) -> None:
        replayed = RendezvousBook(self.first_limits)
        for now, method, arguments in self.calls:
            getattr(replayed, method)(now, **arguments)
        stored = json.loads(json.dumps(self.machine.snapshot()))
        restored = RendezvousBook(Limits(1, 1))
        restored.restore(stored)
        assert self.machine.snapshot() == replayed.snapshot() == restored.snapshot() == stored
        assert self.machine.world == replayed.world == restored.world
        self.machine = replayed if from_journal else restored

    # --- liveness ---

    @rule(step=steps)
    def all_survivors_join_and_the_window_passes(self, step: int) -> None:
        rounds = len(self.worlds)
        were_inside = [name for name, life in self.lives.items() if life.round]
        for name in were_inside:
            self._rejoin(name, step)
        size = self._size(len(self.lives))
        self.now += WINDOW
        if self.machine.due(self.now):
            self._call("form")
        if not size:
            assert len(self.worlds) == rounds
        else:
            assert len(self.worlds) == rounds + 1
            assert len(self.worlds[-1].members) == size
            assert self._intact_world() == self.worlds[-1]

    # --- what holds after every step ---

    @invariant()
    def every_member_of_a_round_is_given_the_same_world_or_none(self) -> None:
        if not self.worlds:
            return
        world = self.worlds[-1]
        intact = self._intact_world() is not None
        for member in world.members:
            answer = self.machine.world_of(member.name, member.incarnation)
            life = self.lives.get(member.name)
            if intact:
                assert answer == world
            elif life is None or life.incarnation != member.incarnation:
                assert isinstance(answer, Expelled)
            else:
                assert isinstance(answer, Waiting)
                assert answer.join_again == bool(life.round)
                assert answer.round == world.round

    @invariant()
    def a_member_that_polls_learns_who_is_gone_and_how_many_wait(self) -> None:
        for world in self.worlds[-2:]:
            status = self.machine.status(world.round)
            latest = world is self.worlds[-1]
            gone = [m.name for m in world.members if not self._is_in(m.name, m.incarnation, world.round)]
            assert status.superseded == (not latest)
            assert status.missing == (tuple(gone) if latest else ())
            assert status.intact == (latest and not gone)
            outside = [life for life in self.lives.values() if not life.round]
            assert status.waiting + status.spares == len(outside)
            inside = len(self.lives) - len(outside)
            assert inside + status.waiting in (inside, self._size(len(self.lives)))

    @invariant()
    def nobody_waits_when_waiting_cannot_help(self) -> None:
        assert not (self._formable() and self._waiting_cannot_help())

    def teardown(self) -> None:
        if not hasattr(self, "machine"):
            return
        world, intact = self.machine.world, self._intact_world()
        self._call("close")
        self._refused(Conflict, "join", member="late", incarnation="x", attrs={})
        for name in list(self.lives):
            life = self.lives[name]
            answer = self.machine.world_of(name, life.incarnation)
            assert answer == intact if intact and life.round else isinstance(answer, Closed)
        for name in list(self.lives):
            self._call("died", member=name, incarnation=None)
        assert not self.machine.due(self.now + 10 * WINDOW)
        assert self.machine.world is world

    # --- the model ---

    def _new_incarnation(self) -> str:
        self.incarnations += 1
        return f"life-{self.incarnations}"

    def _arrive(self, name: str, incarnation: str, step: int) -> None:
        self.lives[name] = Life(incarnation, self.incarnations, step)
        self.arrived_at = self.now
        self._call("join", member=name, incarnation=incarnation, attrs=self._attrs(name), step=step)

    def _rejoin(self, name: str, step: int) -> None:
        life = self.lives[name]
        if life.round:
            self.arrived_at = self.now
        life.round, life.step = 0, step
        after = life.last_round
        self._call("join", member=name, incarnation=life.incarnation, attrs=self._attrs(name), step=step, after=after)

    def _attrs(self, name: str) -> dict[str, str]:
        return {"at": name, **({"virtual_workers": str(self.virtual_workers)} if self.virtual_workers else {})}

    def _bury(self, name: str) -> None:
        self.dead.append((name, self.lives.pop(name).incarnation))

    def _is_in(self, name: str, incarnation: str, round: int) -> bool:
        life = self.lives.get(name)
        return life is not None and life.incarnation == incarnation and life.round == round

    def _intact_world(self) -> World | None:
        if not self.worlds:
            return None
        world = self.worlds[-1]
        return world if all(self._is_in(m.name, m.incarnation, world.round) for m in world.members) else None

    def _size(self, arrived: int) -> int:
        unit = self.limits.node_unit
        sizes = [n for n in range(unit, arrived + 1, unit) if self.limits.min_nodes <= n <= self.limits.max_nodes]
        return max(sizes, default=0)

    def _formable(self) -> bool:
        return self._size(len(self.lives)) > 0 and not any(life.round for life in self.lives.values())

    def _waiting_cannot_help(self) -> bool:
        arrived = len(self.lives)
        full = arrived >= self.limits.max_nodes // self.limits.node_unit * self.limits.node_unit
        survivors = [life for life in self.lives.values() if 0 < life.last_round == len(self.worlds)]
        return full or 0 < self.expected <= arrived or bool(survivors)

    def _call(self, method: str, **arguments: Any) -> Outcome:
        outcome = getattr(self.machine, method)(self.now, **arguments)
        assert isinstance(outcome, Outcome)
        assert outcome.reason
        self.calls.append((self.now, method, arguments))
        if outcome.formed:
            assert self._waiting_cannot_help() or (method == "form" and self.now >= self.arrived_at + WINDOW)
            self._check_formed(outcome.formed)
        return outcome

    def _refused(self, error: type[PliantError], method: str, **arguments: Any) -> None:
        before = self.machine.snapshot()
        with pytest.raises(error):
            getattr(self.machine, method)(self.now, **arguments)
        assert self.machine.snapshot() == before

    def _check_formed(self, world: World) -> None:
        assert world is self.machine.world
        assert world.round == len(self.worlds) + 1
        assert not any(life.round for life in self.lives.values()), "a live member is still in the old world"
        assert len(world.members) == self._size(len(self.lives)) > 0
        by_age = sorted(self.lives, key=lambda name: self.lives[name].age)
        newest = max(life.step for life in self.lives.values())
        leader = next(name for name in by_age if self.lives[name].step == newest)
        others = [name for name in by_age if name != leader][: len(world.members) - 1]
        assert [member.name for member in world.members] == [leader, *others]
        for member in world.members:
            life = self.lives[member.name]
            assert (member.incarnation, member.step) == (life.incarnation, life.step)
        self._check_seats(world)
        if self.worlds:
            self._check_order_kept(self.worlds[-1], world)
        for member in world.members:
            self.lives[member.name].round = self.lives[member.name].last_round = world.round
        self.worlds.append(world)

    def _check_seats(self, world: World) -> None:
        assert world.virtual_workers == self.virtual_workers
        assert not self.machine.status(world.round).outdated
        if not self.virtual_workers:
            assert world.seats == ()
            return
        assert len(world.members) > self.virtual_workers or min(world.seats) >= 1
        if not self.assigned:
            assert list(world.seats) == hosted_counts(self.virtual_workers, len(world.members))
        elif self.assigned.keys() == world.hosted.keys():
            assert world.hosted == self.assigned
        assert self.machine.hosted() == world.hosted

    def _check_order_kept(self, old: World, new: World) -> None:
        leaders = {old.members[0].seniority, new.members[0].seniority}
        before = [m.seniority for m in old.members if m.seniority not in leaders]
        after = [m.seniority for m in new.members if m.seniority not in leaders]
        assert [s for s in before if s in after] == [s for s in after if s in before]


TestRendezvousHistories = RendezvousHistories.TestCase
TestRendezvousHistories.settings = settings(
    max_examples=60,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
