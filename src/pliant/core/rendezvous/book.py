"""The rendezvous: who trains together, and in which order.

Workers *join*, that is, they report that they are ready for the next world. A world is formed of those that have
arrived; it is in use until a member dies, leaves or joins again, and then its survivors join the next. Two kinds
of users rely on this: restart-style frameworks (torchrun), where everybody joins again after a failure, and our own
trainer, whose survivors are back within milliseconds and must not wait. Shells feed this machine (``master/``);
``core/rendezvous/seat_assignment.py`` says how many virtual workers each rank hosts.

Invariants:

1.  Round numbers rise by one. A world never changes; each member of a round gets that same world or none, since
    it is only handed out while intact (every member is alive and has not joined again).
2.  A new world is formed only when no live member is left in the previous one, so nobody is in two live worlds.
    A worker that joins without being in the world is counted in ``RoundStatus.waiting`` and disturbs nothing.
3.  When it is formed, a world has at least ``min_nodes`` and at most ``max_nodes`` members, a multiple of
    ``node_unit``, and as many as these allow. The others wait for the next round.
4.  Rank 0 is the *leader*: the oldest of those with the highest step, out of all who arrived, so that the newest
    state is never left behind. The oldest of the others follow, oldest first. Age is the order of first arrival, and
    is kept from round to round.
5.  It is formed at once if waiting cannot help or would cost more than it gains: the maximum number of members joined, or
    all that are expected, or every survivor of the previous world is back. Else ``wait_seconds`` after the latest
    arrival. In every case only with at least ``min_nodes``; until then those who are there wait.
6.  An incarnation is one life of a name. It ends when it leaves, dies, or a new incarnation of its name joins, and
    then for good: its late calls are refused or touch nothing. A new incarnation is the youngest member.
7.  After ``take_over`` (``core/takeover.py``) the latest world is the one with the highest round that its members announce. None
    is formed before all who are awaited have announced theirs, joined or gone; its round is above all that were announced.
8.  A world's ``seats`` add up to N, if its members announce the same N; else it has none. They are those of the latest assignment
    when it is formed. ``assign_seats`` changes no world: one that now has other seats than a new one would have is *outdated*, and
    its members form the next at a step boundary that they agree on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from pliant.core.errors import Conflict, CorruptData, InvalidRequest, NotFound, SessionExpired
from pliant.core.plurals import counted
from pliant.core.rendezvous.seat_assignment import announced_virtual_workers, check_seats, seats_of
from pliant.core.rendezvous.virtual_workers import hosted_counts
from pliant.core.state_machine import StateMachine

MAX_ENDED_REMEMBERED = 1024  # ended incarnations whose late calls are still recognised
MAX_NAME_CHARS = 256
MAX_ATTRS = 64
MAX_ATTR_CHARS = 4096


@dataclass(frozen=True, slots=True)
class Limits:
    """The size of a world, and how many seconds after the latest arrival it is formed without the rest."""

    min_nodes: int
    max_nodes: int
    node_unit: int = 1
    wait_seconds: float = 30.0

    def __post_init__(self) -> None:
        for field in ("min_nodes", "max_nodes", "node_unit"):
            _check_int(field, getattr(self, field), at_least=1)
        if not math.isfinite(self.wait_seconds) or self.wait_seconds < 0:
            raise InvalidRequest(f"wait_seconds must be a number of at least 0, not {self.wait_seconds!r}")
        if self.max_size < self.min_nodes:
            raise InvalidRequest(
                f"no world can be formed: no multiple of node_unit={self.node_unit} is between"
                f" min_nodes={self.min_nodes} and max_nodes={self.max_nodes}"
            )

    @property
    def max_size(self) -> int:
        return self.max_nodes // self.node_unit * self.node_unit

    def size(self, arrived: int) -> int:
        """Members of the world that ``arrived`` workers can form; 0 if they cannot."""
        size = min(arrived, self.max_size) // self.node_unit * self.node_unit
        return size if size >= self.min_nodes else 0


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    incarnation: str
    attrs: Mapping[str, str]
    step: int
    seniority: int  # 1 is the first that ever arrived; the lower, the older


@dataclass(frozen=True, slots=True)
class World:
    """One agreed set of live workers. The rank of a member is its position."""

    round: int
    members: tuple[Member, ...]
    formed_at: float
    seats: tuple[int, ...] = ()  # virtual workers that each rank hosts; empty: the members do not announce their number

    def rank_of(self, name: str) -> int:
        return [member.name for member in self.members].index(name)

    @property
    def virtual_workers(self) -> int:
        """N of the job; 0: not known."""
        return sum(self.seats)

    @property
    def hosted(self) -> dict[str, int]:
        """Virtual workers by member; empty: not known."""
        return {member.name: count for member, count in zip(self.members, self.seats, strict=False)}


@dataclass(frozen=True, slots=True)
class Waiting:
    """No world yet. If ``join_again``, none will come before this member joins again, with ``after=round``."""

    reason: str
    join_again: bool = False
    round: int = 0  # the last world this member was put into (0: none)


@dataclass(frozen=True, slots=True)
class Expelled:
    """This incarnation gets no world any more; another of the same member may join."""

    reason: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The job is ending: nobody gets a world any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class RoundStatus:
    """What a running member polls. ``waiting`` counts those that a new world would admit; ``spares`` the others.

    ``outdated``: a new world of the same members would host virtual workers otherwise.
    """

    intact: bool
    superseded: bool
    missing: tuple[str, ...]  # in rank order: dead, gone or joined again
    waiting: int
    spares: int
    outdated: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call has decided: a world formed, a round that is no longer intact, or neither."""

    reason: str
    formed: World | None = None
    broke: int | None = None


@dataclass(frozen=True, slots=True)
class _Live:
    """A live incarnation: waiting for the next world or, if not, in the current one."""

    member: Member
    waiting: bool
    last_round: int  # of the last world it was put into; 0: none


class RendezvousBook(StateMachine):
    def __init__(self, limits: Limits) -> None:
        self.limits = limits  # this and the next two: for others to read
        self.closed = False
        self.world: World | None = None  # the latest, intact or not
        self._expected = 0
        self._arrivals = 0
        self._latest_arrival = 0.0
        self._live: dict[str, _Live] = {}
        self._ended: dict[tuple[str, str], str] = {}  # (name, incarnation) -> why; the oldest are forgotten
        self._takes_over = False  # its members know of worlds that this book does not
        self._awaited: set[str] = set()  # members that may be in such a world, and have not announced it yet
        self._gone: set[str] = set()  # members that ended before anybody announced their world
        self._has_formed = False  # a world of its own
        self._min_round = 0  # the highest round that was announced: all new ones are above
        self._assigned: dict[str, int] = {}  # virtual workers by member, as last assigned; empty: evenly

    # --- events ---

    def join(
        self,
        now: float,
        *,
        member: str,
        incarnation: str,
        attrs: dict[str, str],
        step: int = 0,
        after: int | None = None,
    ) -> Outcome:
        """Ready for the next world; leaves the current one. Repeated while waiting, it updates ``attrs`` and ``step``.

        ``after`` is the last round that the caller knows it was in (0: none). It tells a join that was delayed or
        repeated on its way from a new one: sent before the member's latest world, it changes nothing.
        """
        _check_identity(member, incarnation)
        _check_attrs(attrs)
        _check_int("step", step, at_least=0)
        if after is not None:
            _check_int("after", after, at_least=0)
            if self._takes_over:
                self._check_known(after, joins=True)
            elif after > self.round:
                raise InvalidRequest(f"after={after}, but the latest round is {self.round}")
        if self.closed:
            raise Conflict("the rendezvous is closed: the job is ending", hint="exit; no more worlds will be formed")
        if why := self._ended.get((member, incarnation)):
            raise SessionExpired(f"{member} ({incarnation}) was expelled: {why}", hint="join with a new incarnation")
        intact = self._intact()
        live = self._live.get(member)
        if live and live.member.incarnation != incarnation:
            self._end(member, live.member.incarnation, "a new incarnation of it has joined")
            live = None
        if live and after is not None and after < live.last_round:
            return Outcome(f"{member} was assigned to round {live.last_round} after it sent this request")
        self._awaited.discard(member)
        if not live:
            self._arrivals += 1
        seniority = live.member.seniority if live else self._arrivals
        if not live or not live.waiting:
            self._latest_arrival = now
        arrived = Member(member, incarnation, dict(attrs), step, seniority)
        self._live[member] = _Live(arrived, waiting=True, last_round=live.last_round if live else 0)
        return self._settle(now, f"{member} is ready for the next world", intact)

    def leave(self, now: float, *, member: str, incarnation: str) -> Outcome:
        _check_identity(member, incarnation)
        intact = self._intact()
        self._end(member, incarnation, "it has left")
        return self._settle(now, f"{member} has left", intact)

    def died(self, now: float, *, member: str, incarnation: str | None) -> Outcome:
        """``incarnation`` None: whichever is alive. A death reported late does not touch a newer incarnation."""
        _check_identity(member, "any" if incarnation is None else incarnation)
        intact = self._intact()
        if incarnation is None:
            self._awaited.discard(member)
            if member not in self._live:
                if self._takes_over and not self._has_formed:
                    self._gone.add(member)
                return self._settle(now, f"{member} was not a member", intact)
            incarnation = self._live[member].member.incarnation
        self._end(member, incarnation, "it was declared dead")
        return self._settle(now, f"{member} ({incarnation}) is dead", intact)

    def set_limits(self, now: float, *, min_nodes: int, max_nodes: int, wait_seconds: float | None = None) -> Outcome:
        """Valid from the next forming on; a world in use stays as it is. ``wait_seconds`` None: as it was."""
        wait = self.limits.wait_seconds if wait_seconds is None else wait_seconds
        self.limits = replace(self.limits, min_nodes=min_nodes, max_nodes=max_nodes, wait_seconds=wait)
        return self._settle(now, f"worlds have {min_nodes} to {max_nodes} members", self._intact())

    def assign_seats(self, now: float, *, seats: dict[str, int]) -> Outcome:
        """How many virtual workers each member of the present world hosts from the next one on; empty: evenly."""
        if self.closed:
            raise Conflict("the rendezvous is closed: the job is ending")
        if self.world is None or not self._intact():
            raise Conflict("no world is in use at the moment", hint="try again when the workers train")
        check_seats(seats, [member.name for member in self.world.members], self.world.virtual_workers)
        self._assigned = dict(seats)
        return Outcome("virtual workers are assigned as requested" if seats else "virtual workers are assigned evenly")

    def expect(self, now: float, *, count: int) -> Outcome:
        """The number of workers launched and alive: no need to wait once they have arrived. 0: unknown."""
        _check_int("count", count, at_least=0)
        self._expected = count
        return self._settle(now, f"{count} expected", self._intact())

    def take_over(self, now: float, *, members: list[str]) -> Outcome:
        """The journal of an earlier master is lost: ``members`` may be in a world, which they are expected to announce."""
        if self.world is not None or self._live:
            raise Conflict("this rendezvous already has members; worlds can only be taken over before that")
        for member in members:
            _check_identity(member, "any")
        self._takes_over = True
        self._awaited = set(members)
        return Outcome(f"waiting for {counted(len(members), 'member')} to announce a world")

    def stop_awaiting(self, now: float) -> Outcome:
        """Whoever has not announced a world by now is late, and joins the next one."""
        self._awaited.clear()
        return self._settle(now, "not waiting for further members", self._intact())

    def announce(
        self, now: float, *, member: str, incarnation: str, world: dict[str, Any] | None, after: int = 0
    ) -> Outcome:
        """The world that this member was told of by a master whose journal is lost; None: it entered none. ``after``: the last
        round that it was put into, entered or not. Repeated, it changes nothing."""
        _check_identity(member, incarnation)
        _check_int("after", after, at_least=0)
        announced = _read_world(world) if world is not None else None
        if not self._takes_over:
            raise InvalidRequest(f"round {after} was never formed; the latest is {self.round}")
        if announced and (member, incarnation) not in {(m.name, m.incarnation) for m in announced.members}:
            raise InvalidRequest(
                f"{member} ({incarnation}) announced round {announced.round} but is not a member of it"
            )
        intact = self._intact()
        self._awaited.discard(member)
        self._gone.discard(member)
        self._min_round = max(self._min_round, after, announced.round if announced else 0)
        if announced is None or announced.round <= self.round or self._has_formed:
            return self._settle(now, f"{member} is in no world", intact)
        self._live = {name: live for name, live in self._live.items() if live.waiting}
        self.world = announced
        if announced.seats and list(announced.seats) != hosted_counts(announced.virtual_workers, len(announced.seats)):
            self._assigned = announced.hosted
        self._arrivals = max(self._arrivals, *(m.seniority for m in announced.members))
        for m in announced.members:
            if (m.name, m.incarnation) not in self._ended and m.name not in self._live and m.name not in self._gone:
                self._live[m.name] = _Live(m, waiting=False, last_round=announced.round)
        return self._settle(now, f"round {announced.round} is taken over, as announced by {member}", intact)

    def form(self, now: float) -> Outcome:
        """Forms the world that ``due`` has found."""
        if not self.due(now):
            return Outcome("no world is due")
        return self._form(now, "no further member joined in time", broke=None)

    def close(self, now: float) -> Outcome:
        """The job is ending: no more worlds. The current one stays until its members go."""
        self.closed = True
        return Outcome("no more worlds will be formed")

    def reopen(self, now: float) -> Outcome:
        """The job is resumed after its end."""
        self.closed = False
        return Outcome("worlds are formed again")

    # --- finders and readers ---

    def deadline(self) -> float | None:
        """When the world that the waiting workers can form is due, if nothing else happens; None if they cannot."""
        return self._latest_arrival + self.limits.wait_seconds if self._formable() else None

    def due(self, now: float) -> bool:
        deadline = self.deadline()
        return deadline is not None and now >= deadline

    def world_of(self, member: str, incarnation: str) -> World | Waiting | Expelled | Closed:
        live = self._live.get(member)
        if not live or live.member.incarnation != incarnation:
            if why := self._ended.get((member, incarnation)):
                return Expelled(why)
            return Waiting(f"{member} ({incarnation}) has not joined", join_again=True)
        if not live.waiting and self.world and self._intact():
            return self.world
        if self.closed:
            return Closed("the job is ending: no more worlds will be formed")
        if live.waiting:
            return Waiting(self._why_waiting(), round=live.last_round)
        gone = ", ".join(self._missing())
        return Waiting(f"round {self.round} is broken without {gone}", join_again=True, round=self.round)

    def status(self, round: int) -> RoundStatus:
        self._check_known(round)
        superseded = round != self.round
        missing = () if superseded else self._missing()
        waiting = len(self.waiting)
        staying = len(self._live) - waiting
        admitted = 0 if self.closed else max(0, self.limits.size(staying + waiting) - staying)
        outdated = not superseded and not missing and not self.closed and self._is_outdated()
        return RoundStatus(not superseded and not missing, superseded, missing, admitted, waiting - admitted, outdated)

    @property
    def virtual_workers(self) -> int:
        """N of the job, as the members of the latest world announce it; 0: not known."""
        return self.world.virtual_workers if self.world else 0

    def hosted(self) -> dict[str, int]:
        """Virtual workers by member of the world in use; empty: there is none at the moment, or N is not known."""
        return self.world.hosted if self.world and self._intact() else {}

    def assigned_seats(self) -> dict[str, int]:
        """What the members of the world in use would host in a new one; differs from ``hosted`` while it is outdated."""
        members = self.world.members if self.world and self._intact() else ()
        return {member.name: count for member, count in zip(members, self._seats(members), strict=False)}

    @property
    def round(self) -> int:
        return self.world.round if self.world else 0

    def members_in_use(self) -> tuple[str, ...]:
        """Of the latest world: those that are in it, and not ready for the next one."""
        return tuple(name for name, live in self._live.items() if not live.waiting)

    @property
    def awaited(self) -> frozenset[str]:
        """Members that may be in a world which this book does not know; no world is formed meanwhile."""
        return frozenset(self._awaited)

    @property
    def waiting(self) -> tuple[Member, ...]:
        """Workers that are ready for the next world, oldest first."""
        arrived = (live.member for live in self._live.values() if live.waiting)
        return tuple(sorted(arrived, key=lambda member: member.seniority))

    # --- the whole state as JSON ---

    def snapshot(self) -> dict[str, Any]:
        return {
            "limits": asdict(self.limits),
            "expected": self._expected,
            "closed": self.closed,
            "world": self.world
            and {
                **asdict(self.world),
                "members": list(map(asdict, self.world.members)),
                "seats": list(self.world.seats),
            },
            "arrivals": self._arrivals,
            "latest_arrival": self._latest_arrival,
            "live": [asdict(live) for live in self._live.values()],
            "ended": [[name, incarnation, why] for (name, incarnation), why in self._ended.items()],
            "assigned": dict(self._assigned),
            "takeover": {
                "began": self._takes_over,
                "awaited": sorted(self._awaited),
                "gone": sorted(self._gone),
                "has_formed": self._has_formed,
                "min_round": self._min_round,
            },
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        try:
            restored = RendezvousBook(Limits(**state["limits"]))
            restored._expected = int(state["expected"])
            restored.closed = bool(state["closed"])
            restored._arrivals = int(state["arrivals"])
            restored._latest_arrival = float(state["latest_arrival"])
            if world := state["world"]:
                members = tuple(Member(**member) for member in world["members"])
                restored.world = World(world["round"], members, world["formed_at"], tuple(world.get("seats", ())))
            for live in state["live"]:
                member = Member(**live["member"])
                restored._live[member.name] = _Live(member, live["waiting"], live["last_round"])
            restored._ended = {(name, incarnation): why for name, incarnation, why in state["ended"]}
            restored._assigned = dict(state.get("assigned", {}))
            if takeover := state.get("takeover"):  # none: written before there was one
                restored._takes_over = bool(takeover["began"])
                restored._awaited, restored._gone = set(takeover["awaited"]), set(takeover["gone"])
                restored._has_formed = bool(takeover["has_formed"])
                restored._min_round = int(takeover["min_round"])
        except (KeyError, TypeError, ValueError, InvalidRequest) as error:
            raise CorruptData(f"not a snapshot of a rendezvous: {error!r}") from error
        self.__dict__.update(restored.__dict__)

    # --- how it decides ---

    def _missing(self) -> tuple[str, ...]:
        if not self.world:
            return ()
        still_in = {(n, live.member.incarnation) for n, live in self._live.items() if not live.waiting}
        return tuple(m.name for m in self.world.members if (m.name, m.incarnation) not in still_in)

    def _intact(self) -> bool:
        return self.world is not None and not self._missing()

    def _check_known(self, round: int, *, joins: bool = False) -> None:
        """``joins``: then 0 means none yet."""
        latest = max(self.round, self._min_round)
        if not 0 <= round <= latest or not (round or joins):
            hint = "announce the world and retry" if self._takes_over else ""
            raise NotFound(f"round {round} was never formed; the latest is {latest}", hint=hint)

    def _formable(self) -> bool:
        if self.closed or self._awaited or any(not live.waiting for live in self._live.values()):
            return False
        return self.limits.size(len(self._live)) > 0

    def _no_need_to_wait(self) -> str:
        """Why a world is formed at once; empty if it is not."""
        if not self._formable():
            return ""
        if len(self._live) >= self.limits.max_size:
            return "the maximum number of members joined"
        if 0 < self._expected <= len(self._live):
            return "all expected members joined"
        if self.world and any(live.last_round == self.round for live in self._live.values()):
            return "all survivors rejoined"
        return ""

    def _settle(self, now: float, happened: str, was_intact: bool) -> Outcome:
        broke = self.round if was_intact and not self._intact() else None
        if why := self._no_need_to_wait():
            return self._form(now, why, broke)
        return Outcome(happened, broke=broke)

    def _form(self, now: float, why: str, broke: int | None) -> Outcome:
        arrived = self.waiting
        leader = max(arrived, key=lambda member: member.step)  # the first, so the oldest, of the highest
        others = [member for member in arrived if member is not leader]
        members = (leader, *others[: self.limits.size(len(arrived)) - 1])
        self.world = World(max(self.round, self._min_round) + 1, members, now, self._seats(members))
        self._has_formed = True
        self._gone.clear()
        for member in members:
            self._live[member.name] = _Live(member, waiting=False, last_round=self.round)
        return Outcome(f"round {self.round} has {counted(len(members), 'member')}: {why}", self.world, broke)

    def _seats(self, members: tuple[Member, ...]) -> tuple[int, ...]:
        virtual_workers = announced_virtual_workers([member.attrs for member in members])
        return seats_of([member.name for member in members], virtual_workers, self._assigned)

    def _is_outdated(self) -> bool:
        return self.world is not None and bool(self.world.seats) and self.world.seats != self._seats(self.world.members)

    def _end(self, name: str, incarnation: str, why: str) -> None:
        live = self._live.get(name)
        if live and live.member.incarnation == incarnation:
            del self._live[name]
        self._ended.setdefault((name, incarnation), why)
        while len(self._ended) > MAX_ENDED_REMEMBERED:
            del self._ended[next(iter(self._ended))]

    def _why_waiting(self) -> str:
        arrived, limits = len(self.waiting), self.limits
        if staying := len(self._live) - arrived:
            return f"round {self.round} is in use by {counted(staying, 'member')}; {arrived} waiting for the next"
        if self._awaited:
            return f"{arrived} joined; waiting for {len(self._awaited)} that may still be in a world"
        if not limits.size(arrived):
            return f"{arrived} joined; at least {limits.min_nodes} required, in units of {limits.node_unit}"
        return f"{arrived} joined; waiting up to {limits.wait_seconds:g} s for more"


def _read_world(value: Mapping[str, Any]) -> World:
    """A world as a member announces it."""
    try:
        members = tuple(Member(**member) for member in value["members"])
        world = World(value["round"], members, float(value["formed_at"]), tuple(value.get("seats", ())))
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequest(f"not a world: {error!r}") from error
    _check_int("round", world.round, at_least=1)
    for member in members:
        _check_identity(member.name, member.incarnation)
        _check_attrs(dict(member.attrs))
        _check_int("step", member.step, at_least=0)
        _check_int("seniority", member.seniority, at_least=1)
    if not members or len({member.name for member in members}) != len(members):
        raise InvalidRequest("a world must have members, each listed once")
    for count in world.seats:
        _check_int("seats", count, at_least=0)
    total = announced_virtual_workers([member.attrs for member in members])
    if world.seats and (len(world.seats) != len(members) or world.virtual_workers != total):
        raise InvalidRequest("the seats of a world must add up to the virtual workers of its members")
    return world


def _check_int(field: str, value: object, *, at_least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise InvalidRequest(f"{field} must be an integer of at least {at_least}, not {value!r}")


def _check_text(field: str, value: object, *, max_chars: int, min_chars: int = 0) -> None:
    if not isinstance(value, str) or not min_chars <= len(value) <= max_chars:
        raise InvalidRequest(f"{field} must be a string of {min_chars} to {max_chars} characters")


def _check_identity(member: str, incarnation: str) -> None:
    _check_text("member", member, max_chars=MAX_NAME_CHARS, min_chars=1)
    _check_text("incarnation", incarnation, max_chars=MAX_NAME_CHARS, min_chars=1)


def _check_attrs(attrs: dict[str, str]) -> None:
    if not isinstance(attrs, dict) or len(attrs) > MAX_ATTRS:
        raise InvalidRequest(f"attrs must be a dictionary of at most {MAX_ATTRS} strings")
    for key, value in attrs.items():
        _check_text("a key of attrs", key, max_chars=MAX_NAME_CHARS)
        _check_text(f"attrs[{key!r}]", value, max_chars=MAX_ATTR_CHARS)
