"""The coordinator of parameter servers: seats, the map, and one numbered stream of orders that all of them execute.

``ParameterBook`` is the pure machine behind ``master/parameters.py``. Every parameter server executes every order in number
order, so "after order n" is one moment for all, and what a server holds is a function of the orders and of what workers
staged on it.

What always holds:

1. Order numbers rise by one. Orders after ``base``, the newest complete dump, are kept: a server that comes back loads
   that dump and executes them again.
2. A contribution (session, sequence) is in exactly one ``apply`` order if it was accepted, and in none if it was not. The same
   one sent again gets the same answer. Accepting it is one journaled call, made together with the acknowledgement of its
   records.
3. sync: what was computed on an older iteration is never accepted. Accepted ones gather until their examples reach the
   batch; then one ``apply`` order weighs them by their examples, and the iteration rises by one. ``flush`` applies a last, smaller
   batch. async: each accepted one is an order of its own, with its staleness in the scale of the learning rate.
4. The map changes only by ``define`` and ``move`` orders. A contribution that was staged by an older map, or on a server that
   was replaced since (its *tenure* is over), is not accepted but staged again; and a move is ordered only while no
   accepted contribution waits for its order. So a gradient is always where its rows are.
5. A session that ends is discarded by an order; if something of it was accepted and waits, after the order that applies it.
6. A dump is complete when every seat that its order names has written: all that had parameters at that moment. A newer one is
   begun only when none is open.
7. Once a schedule of the learning rate was told, a contribution is accepted only if the factors of the update that it will be
   part of are known; they are in the order.
8. The iteration never goes beyond ``max_iterations``, if there is such: once it is reached training is over, and nothing more is
   accepted.
9. A seat has at most one holder; a vacant seat keeps its parameters, and the next one who joins fills it. Seats that
   leave go when they are empty. Seat numbers are never used twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from pliant.core.errors import Conflict, CorruptData, InvalidRequest, NotFound, SessionExpired
from pliant.core.ps_map import Move, PsMap
from pliant.core.ps_schedule import RateSchedule
from pliant.core.ps_states import LARGEST, Dump, Fate, Kind, Order, Part, PsOptions, Seat, Verdict

MOST_DEFINED = 10_000  # tables and variables
STALENESS = (0, 1, 2, 4, 8, 16, 32, 64)  # upper ends of the histogram's buckets; one more beyond them


class ParameterBook:
    def __init__(self, options: PsOptions, seats: int) -> None:
        options.check()
        self.options = options
        self._seats = {n: Seat(n, active=True) for n in range(seats)}
        self._next_seat = seats
        self._tenures = 0
        self.map = PsMap.first(list(self._seats), options.partitions)
        self._tables: dict[str, Mapping[str, Any]] = {}
        self._variables: dict[str, Mapping[str, Any]] = {}
        self._initialized: dict[str, None] = {}
        self.assigned = 0  # the order that gave variables their first values, the newest such
        self.iteration = 0
        self._orders: list[Order] = []  # those after the base
        self._pending: list[Part] = []  # accepted, not ordered yet; the weight is the number of examples
        self._sessions: dict[
            str, tuple[int, int, int]
        ] = {}  # session -> last sequence accepted, iteration, staleness then
        self._ended: list[str] = []  # sessions to discard once what they contributed is applied
        self.base = Dump(0, 0, True, (), self.map.to_json(), (), (), ())
        self._dumps: list[Dump] = []  # complete ones, oldest first
        self._open: Dump | None = None
        self._since_full = 0
        self.restored_from = ""
        self._unbalanced = False
        self._schedule: RateSchedule | None = None
        self.roster = 1  # rises when seats or their holders change
        self.contributions = 0
        self.examples = 0
        self.staleness = [0] * (len(STALENESS) + 1)

    # --- seats

    def join(self, now: float, *, node: str, incarnation: int) -> Seat | None:
        """A parameter server asks for a seat. None: there is none for it now."""
        if not node:
            raise InvalidRequest("a parameter server needs the name of its node")
        mine = next((s for s in self._seats.values() if s.node == node), None)
        if mine is not None and incarnation < mine.incarnation:
            raise Conflict(
                f"{node} (run {incarnation}) was followed by run {mine.incarnation}; this program should end"
            )
        seat = mine or next((s for s in self._seats.values() if not s.node), None)
        if seat is None:
            return None
        self._tenures += 1
        return self._put(replace(seat, node=node, incarnation=incarnation, tenure=self._tenures, address=""))

    def ready(self, now: float, *, seat: int, tenure: int, address: str) -> Seat:
        """It has restored what it should have, and serves at this address."""
        found = self._holder(seat, tenure)
        if not found.active:
            self._unbalanced = True
        return self._put(replace(found, address=address, active=True))

    def lost(self, now: float, *, node: str, for_good: bool) -> list[int]:
        """A program is gone, or its node for good: then another may have its seat. Gives the seats that nobody serves."""
        gone = [s for s in self._seats.values() if s.node == node]
        for seat in gone:
            self._put(replace(seat, node="" if for_good else node, address="", tenure=0))
        return [seat.number for seat in gone]

    def resize(self, now: float, *, seats: int) -> list[int]:
        """Have so many seats: more come vacant, too many leave (the newest). Gives those that leave."""
        if seats < 1:
            raise InvalidRequest(f"{seats} parameter servers; at least one is needed")
        staying = [s for s in self._seats.values() if not s.leaving]
        for _ in range(seats - len(staying)):
            again = next((s for s in self._seats.values() if s.leaving), None)
            if again is not None:  # it has not gone yet
                self._put(replace(again, leaving=False, weight=1.0))
                self._unbalanced = True
                continue
            self._put(Seat(self._next_seat))
            self._next_seat += 1
        leaving = sorted(staying, key=lambda s: s.number)[seats:]
        for seat in leaving:
            self._put(replace(seat, leaving=True, weight=0.0))
            self._unbalanced = True
        return [seat.number for seat in leaving]

    def set_share(self, now: float, *, seat: int, share: float) -> Seat:
        """Move this part of what a seat has to the others, for good."""
        found = self.seat(seat)
        others = sum(s.weight for s in self._seats.values() if s.number != seat and s.active)
        if not 0 < share <= 1:
            raise InvalidRequest(f"a share of {share}; allowed: more than 0, at most 1")
        if others <= 0:
            raise Conflict(f"seat {seat} is the only one that keeps parameters", hint="scale the role ps up first")
        kept, whole = (1 - share) * len(self.map.partitions_of(seat)), len(self.map.partitions)
        self._unbalanced = True
        return self._put(replace(found, weight=others * kept / (whole - kept)))

    def retire(self, now: float, *, seat: int) -> Seat:
        """A seat that leaves is empty: it goes. A dump that it has still to write is called off: without its part others could
        not be restored from it."""
        found = self.seat(seat)
        if not found.leaving or not self.map.is_empty(seat):
            raise Conflict(f"seat {seat} still has parameters, or is to stay")
        del self._seats[seat]
        self.roster += 1
        if self._open is not None and self._open.waits_for(seat):
            self.dump_failed(now, order=self._open.order)
        return found

    # --- parameters

    def define(self, now: float, *, tables: list[dict[str, Any]], variables: list[dict[str, Any]]) -> Order | None:
        """Tables and variables; None if all were there, defined the same."""
        new_tables = self._new(self._tables, tables, "table")
        new_variables = self._new(self._variables, variables, "variable")
        if not new_tables and not new_variables:
            return None
        if len(self._tables) + len(self._variables) + len(new_tables) + len(new_variables) > MOST_DEFINED:
            raise InvalidRequest(f"more than {MOST_DEFINED} tables and variables")
        sizes = {str(v["name"]): _floats(v) for v in new_variables}
        self.map = self.map.with_variables(sizes, self.weights())
        self._tables |= {str(t["name"]): t for t in new_tables}
        self._variables |= {str(v["name"]): v for v in new_variables}
        return self._order(
            Kind.DEFINE,
            tables=tuple(new_tables),
            variables=tuple(new_variables),
            placed={name: self.map.blocks[name] for name in sizes},
        )

    def assign(
        self, now: float, *, session: str, sequence: int, names: list[str], seats: list[list[int]], map_version: int
    ) -> Verdict:
        """The first values of variables, staged as (session, sequence). Who comes second is told that they are there."""
        if unknown := [name for name in names if name not in self._variables]:
            raise NotFound(f"there is no variable {unknown[0]!r}", hint="define it first")
        if names and all(name in self._initialized for name in names):
            return Verdict(Fate.REPEATED, self.iteration, 0, "they have values")
        if any(name in self._initialized for name in names):
            raise Conflict(f"some of the variables {names[:3]} have values, others do not")
        verdict = self._placement(seats, map_version)
        if verdict is not None:
            return verdict
        self._initialized |= dict.fromkeys(names)
        part = Part(session, sequence, 1.0, tuple(seat for seat, _ in seats))
        self.assigned = self._order(Kind.ASSIGN, parts=(part,), names=tuple(names)).number
        return Verdict(Fate.ACCEPTED, self.iteration, 0, "")

    # --- contributions

    def judge(
        self,
        *,
        session: str,
        sequence: int,
        based_on: int,
        examples: int,
        seats: Sequence[Sequence[int]],
        map_version: int,
    ) -> Verdict:
        """Finder: what would become of a contribution now."""
        if sequence < 1 or not 1 <= examples <= LARGEST:
            raise InvalidRequest(f"contribution {sequence} with {examples} examples")
        last = self._sessions.get(session)
        if last is not None and sequence == last[0]:
            return Verdict(Fate.REPEATED, self.iteration, last[2], "")
        if last is not None and sequence < last[0]:
            raise InvalidRequest(f"contribution {sequence} is older than {last[0]}, the last one accepted")
        if not 0 <= based_on <= self.iteration:
            raise InvalidRequest(f"a gradient of iteration {based_on}; the newest is {self.iteration}")
        staleness = self.iteration - based_on
        if self.over:
            why = f"training is over with iteration {self.iteration}"
            return Verdict(Fate.OVER, self.iteration, staleness, why)
        bound = 0 if self.options.sync else self.options.max_staleness
        if staleness > bound and (self.options.sync or bound):
            return Verdict(Fate.STALE, self.iteration, staleness, f"{staleness} iterations old; allowed: {bound}")
        if self._schedule is not None and self._schedule.at(self.iteration) is None:
            why = f"the learning rate of update {self.iteration} is not known"
            return Verdict(Fate.UNSCHEDULED, self.iteration, staleness, why)
        return self._placement(seats, map_version) or Verdict(Fate.ACCEPTED, self.iteration, staleness, "")

    def schedule(self, now: float, *, first: int, factors: list[list[float]]) -> int:
        """Factors of the learning rate for updates from ``first`` (counted from 0) on; gives the first one that is not known."""
        known = self._schedule or RateSchedule(self.iteration)
        self._schedule = known.extended(first, factors, now_at=self.iteration)
        return self._schedule.until

    def contribute(
        self,
        now: float,
        *,
        session: str,
        sequence: int,
        based_on: int,
        examples: int,
        seats: list[list[int]],
        map_version: int,
    ) -> Verdict:
        """Take a contribution that ``judge`` accepts; gives the iteration that it led to, or is gathered for."""
        verdict = self.judge(
            session=session,
            sequence=sequence,
            based_on=based_on,
            examples=examples,
            seats=seats,
            map_version=map_version,
        )
        if verdict.fate is not Fate.ACCEPTED:
            return verdict
        self._sessions[session] = (sequence, self.iteration, verdict.staleness)
        self.contributions += 1
        self.staleness[_bucket(verdict.staleness)] += 1
        self._pending.append(Part(session, sequence, examples, tuple(seat for seat, _ in seats)))
        if not self.options.sync or sum(p.weight for p in self._pending) >= self.options.batch:
            self._apply((1.0 + verdict.staleness) ** -self.options.alpha)
        return replace(verdict, iteration=self.iteration)

    def flush(self, now: float) -> Order | None:
        """No more records can come: apply what has gathered."""
        return self._apply(1.0) if self._pending else None

    def end_session(self, now: float, *, session: str) -> Order | None:
        """A worker is gone, or begins anew. What of it was accepted and waits is applied first."""
        self._sessions.pop(session, None)
        if any(part.session == session for part in self._pending):
            self._ended.append(session)
            return None
        return self._order(Kind.DISCARD, session=session)

    # --- moves

    def movable(self) -> Move | None:
        """Finder: what to move next, if anything is to be moved and may be now."""
        if not self._unbalanced or self._pending:
            return None
        return self.map.next_move(self.weights())

    def move(
        self, now: float, *, giver: int, taker: int, partitions: list[int], blocks: list[list[Any]], reason: str
    ) -> Order:
        if self._pending:
            raise Conflict("contributions wait for their order; nothing is moved now")
        self.seat(giver), self.seat(taker)
        move = Move(giver, taker, tuple(partitions), tuple((str(n), int(at)) for n, at in blocks), reason)
        self.map = self.map.moved(move)
        return self._order(Kind.MOVE, giver=giver, taker=taker, partitions=move.partitions, blocks=move.blocks)

    def settled(self, now: float) -> bool:
        """Nothing is left to move."""
        was, self._unbalanced = self._unbalanced, False
        return was

    # --- dumps

    def dump_due(self, now: float, *, begun: float) -> str:
        """Finder: why a dump should be begun now; empty: it should not. ``begun``: when the last one was, or training."""
        fresh = self.iteration - self.base.iteration
        if self._open is not None or not self._orders:
            return ""
        if len(self._orders) >= self.options.most_orders:
            return f"{len(self._orders):,} orders since the last dump"
        if self.options.dump_iterations and fresh >= self.options.dump_iterations:
            return f"{fresh:,} iterations since the last dump"
        if self.options.dump_seconds and fresh and now - begun >= self.options.dump_seconds:
            return f"{now - begun:.0f} s since the last dump"
        return ""

    def dump(self, now: float, *, full: bool | None = None) -> Order:
        if self._open is not None:
            raise Conflict(f"dump {self._open.order} is still being written")
        if full is None:
            # An increment has what was updated, not what came or was given its first value.
            more = any(order.kind in (Kind.MOVE, Kind.DEFINE, Kind.ASSIGN) for order in self._orders)
            full = more or not self._dumps or self._since_full + 1 >= self.options.full_every
        seats = tuple(n for n, seat in self._seats.items() if seat.active)
        order = self._order(Kind.DUMP, full=bool(full), since=-1 if full else self.base.iteration, seats=seats)
        self._open = Dump(
            order.number,
            self.iteration,
            bool(full),
            seats,
            self.map.to_json(),
            tuple(self._tables.values()),
            tuple(self._variables.values()),
            tuple(self._initialized),
            now,
        )
        return order

    def dumped(self, now: float, *, seat: int, tenure: int, order: int) -> Dump | None:
        """A seat has written its part; gives the dump if that completes it."""
        self._holder(seat, tenure)
        if self._open is None or self._open.order != order or seat not in self._open.seats:
            return None
        self._open = self._open.with_written(seat)
        return self._close_dump(now)

    def dump_failed(self, now: float, *, order: int) -> bool:
        """A dump cannot be written: it is called off, and nothing is dropped."""
        if self._open is None or self._open.order != order:
            return False
        self._open = None
        self._orders = [replace(o, kind=Kind.NOTHING, seats=()) if o.number == order else o for o in self._orders]
        return True

    def restore_dump(
        self,
        now: float,
        *,
        path: str,
        iteration: int,
        tables: list[dict[str, Any]],
        variables: list[dict[str, Any]],
        initialized: list[str],
    ) -> None:
        """Begin from a dump of another job or of another number of seats; before anything else happened."""
        if self._orders or self._tables or self._variables or self._dumps:
            raise Conflict("parameters are defined already; a dump is restored before that")
        for table in tables:
            self._tables[str(table["name"])] = table
        sizes = {str(v["name"]): _floats(v) for v in variables}
        self._variables = {str(v["name"]): v for v in variables}
        self._initialized = dict.fromkeys(initialized)
        if sizes:
            self.map = self.map.with_variables(sizes, self.weights())
        self.iteration, self.restored_from = iteration, path
        self.base = replace(
            self.base,
            iteration=iteration,
            parameter_map=self.map.to_json(),
            tables=tuple(tables),
            variables=tuple(variables),
            initialized=tuple(initialized),
        )

    # --- reading

    @property
    def last(self) -> int:
        """The number of the newest order."""
        return self._orders[-1].number if self._orders else self.base.order

    @property
    def unbalanced(self) -> bool:
        """Whether something may have to be moved."""
        return self._unbalanced

    @property
    def scheduled(self) -> int:
        """The first update whose learning rate is not known; 0: there is no schedule."""
        return self._schedule.until if self._schedule is not None else 0

    @property
    def over(self) -> bool:
        """Whether the last iteration that is wanted is reached."""
        return 0 < self.options.max_iterations <= self.iteration

    @property
    def open_dump(self) -> Dump | None:
        return self._open

    @property
    def pending(self) -> int:
        """Examples that were accepted and wait for their order."""
        return int(sum(part.weight for part in self._pending))

    @property
    def tables(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(self._tables.values())

    @property
    def variables(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(self._variables.values())

    @property
    def initialized(self) -> tuple[str, ...]:
        return tuple(self._initialized)

    def seats(self) -> list[Seat]:
        return list(self._seats.values())

    def seat(self, number: int) -> Seat:
        seat = self._seats.get(number)
        if seat is None:
            raise NotFound(f"there is no seat {number}", hint=f"seats: {', '.join(map(str, self._seats))}")
        return seat

    def seat_of(self, node: str) -> Seat:
        found = next((s for s in self._seats.values() if s.node == node), None)
        if found is None:
            held = ", ".join(s.node for s in self._seats.values() if s.node) or "none"
            raise NotFound(f"{node!r} is no parameter server with a seat", hint=f"there are: {held}")
        return found

    def weights(self) -> dict[int, float]:
        return {n: seat.weight for n, seat in self._seats.items() if seat.active}

    def orders(self, after: int, most: int) -> list[Order]:
        first = self.base.order + 1
        if after < first - 1:
            raise SessionExpired(f"orders up to {first - 1} are in a dump; restore it", hint="join again")
        return self._orders[after + 1 - first : after + 1 - first + most]

    def check_holder(self, seat: int, tenure: int) -> None:
        self._holder(seat, tenure)

    def emptied(self) -> list[Seat]:
        """Finder: seats that leave and have nothing any more."""
        return [s for s in self._seats.values() if s.leaving and self.map.is_empty(s.number)]

    def chain(self) -> list[Dump]:
        """The dumps to load for the base, oldest first: a full one and what follows it."""
        found: list[Dump] = []
        for dump in reversed(self._dumps):
            found.append(dump)
            if dump.full:
                break
        return found[::-1]

    def kept(self) -> list[int]:
        """Orders of the dumps whose files are kept, also of one that is being written."""
        return [dump.order for dump in self._dumps] + ([self._open.order] if self._open else [])

    # --- as JSON

    def snapshot(self) -> dict[str, Any]:
        return {
            "seats": [asdict(seat) for seat in self._seats.values()],
            "next_seat": self._next_seat,
            "tenures": self._tenures,
            "map": self.map.to_json(),
            "tables": list(self._tables.values()),
            "variables": list(self._variables.values()),
            "initialized": list(self._initialized),
            "assigned": self.assigned,
            "iteration": self.iteration,
            "orders": [order.to_json() for order in self._orders],
            "pending": [part.to_json() for part in self._pending],
            "sessions": {name: list(last) for name, last in self._sessions.items()},
            "ended": list(self._ended),
            "base": self.base.to_json(),
            "dumps": [dump.to_json() for dump in self._dumps],
            "open": self._open.to_json() if self._open else None,
            "since_full": self._since_full,
            "restored_from": self.restored_from,
            "unbalanced": self._unbalanced,
            "schedule": self._schedule.to_json() if self._schedule else None,
            "roster": self.roster,
            "contributions": self.contributions,
            "examples": self.examples,
            "staleness": list(self.staleness),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        try:
            self._seats = {seat["number"]: Seat(**seat) for seat in state["seats"]}
            self._next_seat, self._tenures = state["next_seat"], state["tenures"]
            self.map = PsMap.from_json(state["map"])
            self._tables = {table["name"]: table for table in state["tables"]}
            self._variables = {variable["name"]: variable for variable in state["variables"]}
            self._initialized = dict.fromkeys(state["initialized"])
            self.assigned = state.get("assigned", 0)  # a snapshot of an older release has none
            self.iteration = state["iteration"]
            self._orders = [Order.from_json(order) for order in state["orders"]]
            self._pending = [Part.from_json(part) for part in state["pending"]]
            self._sessions = {name: (last[0], last[1], last[2]) for name, last in state["sessions"].items()}
            self._ended = list(state["ended"])
            self.base = Dump.from_json(state["base"])
            self._dumps = [Dump.from_json(dump) for dump in state["dumps"]]
            self._open = Dump.from_json(state["open"]) if state["open"] else None
            self._since_full, self.restored_from = state["since_full"], state["restored_from"]
            self._unbalanced, self.roster = state["unbalanced"], state["roster"]
            told = state.get("schedule")  # a snapshot of an older release has none
            self._schedule = RateSchedule.from_json(told) if told else None
            self.contributions, self.examples = state["contributions"], state["examples"]
            self.staleness = list(state["staleness"])
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise CorruptData(f"not a snapshot of parameter servers: {error!r}") from error

    # --- inside

    def _put(self, seat: Seat) -> Seat:
        self._seats[seat.number] = seat
        self.roster += 1
        return seat

    def _holder(self, number: int, tenure: int) -> Seat:
        seat = self._seats.get(number)
        if seat is None or not seat.node or seat.tenure != tenure:
            raise SessionExpired(f"seat {number} is not held by this server (any more)", hint="join again, or end")
        return seat

    def _order(self, kind: Kind, **fields: Any) -> Order:
        order = Order(self.last + 1, kind, self.map.version, self.iteration, **fields)
        self._orders.append(order)
        return order

    def _apply(self, scale: float) -> Order:
        examples = sum(part.weight for part in self._pending)
        parts = tuple(replace(part, weight=part.weight / examples) for part in self._pending)
        self.examples += int(examples)
        self._pending = []
        factors = self._schedule.at(self.iteration) if self._schedule is not None else None
        self.iteration += 1
        order = self._order(Kind.APPLY, parts=parts, scale=scale, factors=factors or ())
        ended, self._ended = self._ended, []
        for session in ended:
            self._order(Kind.DISCARD, session=session)
        return order

    def _placement(self, seats: Sequence[Sequence[int]], map_version: int) -> Verdict | None:
        """Whether what was staged there is where it belongs; None: it is."""
        if map_version != self.map.version:
            why = f"the map is {self.map.version}, not {map_version}"
            return Verdict(Fate.MOVED, self.iteration, 0, why)
        for number, tenure in seats:
            seat = self._seats.get(number)
            if seat is None or seat.tenure != tenure:
                return Verdict(Fate.MOVED, self.iteration, 0, f"seat {number} has another server now, or none")
        return None

    def _close_dump(self, now: float) -> Dump | None:
        dump = self._open
        if dump is None or not dump.complete:
            return None
        self._open = None
        self._orders = [order for order in self._orders if order.number > dump.order]
        self.base = dump
        self._since_full = 0 if dump.full else self._since_full + 1
        self._dumps.append(dump)
        chains = [at for at, kept in enumerate(self._dumps) if kept.full]
        if len(chains) > self.options.keep:
            self._dumps = self._dumps[chains[-self.options.keep] :]
        return dump

    @staticmethod
    def _new(known: Mapping[str, Mapping[str, Any]], given: list[dict[str, Any]], what: str) -> list[dict[str, Any]]:
        new = []
        for spec in given:
            name = spec.get("name")
            if not isinstance(name, str) or not name:
                raise InvalidRequest(f"a {what} needs a name: {spec!r:.200}")
            if name not in known:
                new.append(spec)
            elif known[name] != spec:
                differs = [key for key in {**spec, **known[name]} if spec.get(key) != known[name].get(key)]
                raise Conflict(f"{what} {name!r} is defined already, otherwise: {', '.join(sorted(differs))}")
        if len({spec["name"] for spec in new}) != len(new):
            raise InvalidRequest(f"a {what} is defined twice in one call")
        return new


def _floats(variable: Mapping[str, Any]) -> int:
    shape = variable.get("shape")
    if not isinstance(shape, list) or any(type(side) is not int or side < 0 for side in shape):
        raise InvalidRequest(f"variable {variable.get('name')!r} needs a shape, not {shape!r}")
    size = 1
    for side in shape:
        size *= side
    if size > LARGEST >> 8:
        raise InvalidRequest(f"variable {variable.get('name')!r} has {size:,} floats")
    return size


def _bucket(staleness: int) -> int:
    return next((at for at, most in enumerate(STALENESS) if staleness <= most), len(STALENESS))
