"""The journaled state machine of parameter servers: seats, the partition map, and the replicated log that all servers execute.

``ParameterBook`` is the pure machine behind ``master/components/parameters``. Every parameter server executes every order in
number order, so "after order n" is one moment for all, and the state of a server is a function of the log and of what workers
staged on it. It is made of ``Seats``, ``Definitions``, ``OrderLog``, ``Contributions`` and ``DumpChain``, each in a module of
its own; here are the calls that the journal stores, and what has to hold between those parts.

Invariants:

1. Order numbers rise by one. Orders after ``base``, the newest complete dump, are kept: a restarted server loads that dump and
   executes them again.
2. A contribution (session, sequence) is in exactly one ``apply`` order if it was accepted, and in none if it was not. The same
   one sent again gets the same answer, also if up to ``MAX_WINDOW`` later ones of its session were accepted meanwhile; one that
   was refused is never accepted after a later one. Accepting it is one journaled call, made together with the acknowledgement of
   its records.
3. sync: what was computed on an older iteration is never accepted. Accepted ones are gathered until their examples reach the
   batch size; then one ``apply`` order weights them by their examples, and the iteration rises by one. ``flush`` applies a last,
   smaller batch. async: each accepted one is an order of its own, whose learning rate is scaled by its staleness.
4. The map changes only by ``define`` and ``move`` orders. A contribution that was staged by an older map, or on a server that
   was replaced since (its fencing token is stale), is not accepted but staged again; and a move is ordered only while no
   accepted contribution is pending. So a gradient is always where its rows are.
5. A session that ends is discarded by an order; if a contribution of it is pending, after the order that applies it.
6. A dump is complete when every seat that its order names has written its part: all that had parameters at that moment. A new
   one begins only when none is open.
7. Once a learning-rate schedule was reported, a contribution is accepted only if the factors of the update that it will be
   part of are known; they are in the order.
8. The iteration never exceeds ``max_iterations``, if that is set: once it is reached training is over, and nothing more is
   accepted.
9. A seat has at most one holder, known by its fencing token; a vacant seat keeps its parameters, and the next server that joins
   takes it. Seats that leave are removed when they are empty. Seat numbers are never reused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import replace
from typing import Any

from pliant.core.errors import Conflict, CorruptData, InvalidRequest, NotFound
from pliant.core.parameters.contributions import MAX_EXAMPLES, Contributions, PushDecision, PushOutcome
from pliant.core.parameters.definitions import Definition, Definitions, floats
from pliant.core.parameters.dumps import Dump, DumpChain, RestorePoint
from pliant.core.parameters.options import PsOptions
from pliant.core.parameters.orders import Contribution, Order, OrderKind, OrderLog
from pliant.core.parameters.partition_map import Move, PartitionMap
from pliant.core.parameters.schedule import RateSchedule
from pliant.core.parameters.seats import Seat, Seats
from pliant.core.state_machine import StateMachine


class ParameterBook(StateMachine):
    def __init__(self, options: PsOptions, seats: int) -> None:
        options.check()
        self.options = options
        self._seats = Seats(seats)
        self.map = PartitionMap.first([seat.number for seat in self._seats], options.partitions)
        self._definitions = Definitions()
        self._log = OrderLog()
        self._contributions = Contributions()
        self._dumps = DumpChain(Dump(0, 0, True, (), self.map.to_json(), (), (), ()))
        self._schedule: RateSchedule | None = None
        self.iteration = 0
        self.assign_order = 0  # the newest order that gave variables their first values
        self.restored_from = ""

    def trial(self) -> ParameterBook:
        """A copy with seats of its own, to try changes of those on; everything else is shared and must only be read."""
        other = copy(self)
        other._seats = deepcopy(self._seats)
        return other

    # --- seats

    def join(self, now: float, *, node: str, incarnation: int) -> Seat | None:
        """A parameter server asks for a seat. None: there is none for it now."""
        return self._seats.join(node, incarnation)

    def ready(self, now: float, *, seat: int, fencing_token: int, address: str) -> Seat:
        """Its holder has restored the state of the seat and serves at this address."""
        return self._seats.ready(seat, fencing_token, address)

    def lost(self, now: float, *, node: str, for_good: bool) -> list[int]:
        """A server's program ended, or its node for good: then another may take its seat. Returns the seats nobody serves."""
        return self._seats.lost(node, for_good=for_good)

    def resize(self, now: float, *, seats: int, leaving: list[int] | None = None) -> list[int]:
        """Set the number of seats that stay: more are added vacant, surplus ones leave (those named, then the newest). Returns
        those that leave from now on. Before the first server has joined nothing has to move, so those are gone at once."""
        if leaving or self._seats.were_held or self.last or self.restored_from:
            return self._seats.resize(seats, leaving or ())
        gone = self._seats.replace_all(seats)
        first = PartitionMap.first([seat.number for seat in self._seats], self.options.partitions)
        self.map = replace(first, version=self.map.version + 1)
        self._dumps = DumpChain(Dump(0, 0, True, (), self.map.to_json(), (), (), ()))
        return gone

    def set_share(self, now: float, *, seat: int, share: float) -> Seat:
        """Move this share of a seat's parameters to the others, permanently."""
        partitions = len(self.map.partitions_of(seat))
        return self._seats.set_share(seat, share, partitions=partitions, total=len(self.map.partitions))

    def retire(self, now: float, *, seat: int) -> Seat:
        """Remove a seat that leaves and is empty. A dump that waits for its part is cancelled: the other parts could not be
        restored without it."""
        found = self.seat(seat)
        if not found.leaving or not self.map.is_empty(seat):
            raise Conflict(f"seat {seat} still holds parameters, or is not leaving")
        self._seats.remove(seat)
        if self.open_dump is not None and self.open_dump.waits_for(seat):
            self.dump_failed(now, order=self.open_dump.order)
        return found

    # --- parameters

    def define(self, now: float, *, tables: list[dict[str, Any]], variables: list[dict[str, Any]]) -> Order | None:
        """Tables and variables; None if all of them are defined already, in the same way."""
        new_tables, new_variables = self._definitions.new(tables, variables)
        if not new_tables and not new_variables:
            return None
        sizes = {str(variable["name"]): floats(variable) for variable in new_variables}
        self.map = self.map.with_variables(sizes, self.weights())
        self._definitions.add(new_tables, new_variables)
        placement = {name: self.map.blocks[name] for name in sizes}
        return self._order(OrderKind.DEFINE, tables=new_tables, variables=new_variables, placement=placement)

    def assign(
        self, now: float, *, session: str, sequence: int, names: list[str], holders: list[list[int]], map_version: int
    ) -> PushDecision:
        """The first values of variables, staged as (session, sequence). Those of the first worker count."""
        if unknown := [name for name in names if not self._definitions.has_variable(name)]:
            raise NotFound(f"variable {unknown[0]!r} is not defined", hint="define it first")
        initialized = [self._definitions.is_initialized(name) for name in names]
        if names and all(initialized):
            return PushDecision(PushOutcome.REPEATED, self.iteration, reason="the variables are already initialized")
        if any(initialized):
            raise Conflict(f"some of the variables {names[:3]} are initialized, others are not")
        if outdated := self._outdated(holders, map_version):
            return PushDecision(PushOutcome.MOVED, self.iteration, reason=outdated)
        self._definitions.initialize(names)
        contribution = Contribution(session, sequence, 1.0, tuple(seat for seat, _ in holders))
        order = self._order(OrderKind.ASSIGN, contributions=(contribution,), names=tuple(names))
        self.assign_order = order.number
        return PushDecision(PushOutcome.ACCEPTED, self.iteration)

    def schedule(self, now: float, *, first: int, factors: list[list[float]]) -> int:
        """Factors of the learning rate for updates from ``first`` (counted from 0) on; returns the first unknown one."""
        known = self._schedule or RateSchedule(self.iteration)
        self._schedule = known.extended(first, factors, now_at=self.iteration)
        return self._schedule.until

    # --- contributions

    def decide(
        self,
        *,
        session: str,
        sequence: int,
        based_on: int,
        examples: int,
        holders: Sequence[Sequence[int]],
        map_version: int,
    ) -> PushDecision:
        """Finder: what would be decided on a contribution now."""
        if sequence < 1 or not 1 <= examples <= MAX_EXAMPLES:
            raise InvalidRequest(f"invalid contribution {sequence} with {examples} examples")
        if (last := self._contributions.repeated(session, sequence)) is not None:
            return PushDecision(PushOutcome.REPEATED, self.iteration, last.staleness)
        if newer := self._contributions.passed_over(session, sequence):
            reason = f"contribution {sequence} was refused before contribution {newer} was accepted"
            return PushDecision(PushOutcome.GAP, self.iteration, reason=reason)
        if not 0 <= based_on <= self.iteration:
            raise InvalidRequest(f"gradient of iteration {based_on}, but the newest iteration is {self.iteration}")
        staleness = self.iteration - based_on
        if self.over:
            reason = f"training ended with iteration {self.iteration}"
            return PushDecision(PushOutcome.OVER, self.iteration, staleness, reason)
        bound = 0 if self.options.sync else self.options.max_staleness
        if staleness > bound and (self.options.sync or bound):
            reason = f"{staleness} iterations old; allowed: {bound}"
            return PushDecision(PushOutcome.STALE, self.iteration, staleness, reason)
        if self._schedule is not None and self._schedule.at(self.iteration) is None:
            reason = f"the learning rate of update {self.iteration} is not known"
            return PushDecision(PushOutcome.UNSCHEDULED, self.iteration, staleness, reason)
        if outdated := self._outdated(holders, map_version):
            return PushDecision(PushOutcome.MOVED, self.iteration, reason=outdated)
        return PushDecision(PushOutcome.ACCEPTED, self.iteration, staleness)

    def contribute(
        self,
        now: float,
        *,
        session: str,
        sequence: int,
        based_on: int,
        examples: int,
        holders: list[list[int]],
        map_version: int,
    ) -> PushDecision:
        """Accept a contribution if ``decide`` does; its ``iteration`` is the one that it led to, or is gathered for."""
        decision = self.decide(
            session=session,
            sequence=sequence,
            based_on=based_on,
            examples=examples,
            holders=holders,
            map_version=map_version,
        )
        if decision.outcome is not PushOutcome.ACCEPTED:
            return decision
        return self.accept(
            decision, session=session, sequence=sequence, examples=examples, seats=tuple(seat for seat, _ in holders)
        )

    def contribute_batch(
        self, now: float, *, session: str, pushes: list[list[int]], staged: list[list[Any]]
    ) -> list[PushDecision]:
        """Contributions of one session, in their order, each ``[sequence, based_on, examples, place]``; places are numbers of
        ``staged``, each ``[holders, map version]``."""
        return [
            self.contribute(
                now,
                session=session,
                sequence=sequence,
                based_on=based_on,
                examples=examples,
                holders=staged[place][0],
                map_version=staged[place][1],
            )
            for sequence, based_on, examples, place in pushes
        ]

    def accept(
        self, decided: PushDecision, *, session: str, sequence: int, examples: int, seats: tuple[int, ...]
    ) -> PushDecision:
        """Carry out what ``decide`` has just decided: a step of ``contribute`` and ``contribute_batch``. The caller journals it."""
        staleness = decided.staleness
        self._contributions.accept(Contribution(session, sequence, examples, seats), staleness)
        if not self.options.sync or self._contributions.pending_examples >= self.options.batch:
            self._apply((1.0 + staleness) ** -self.options.alpha if staleness else 1.0)
        return PushDecision(PushOutcome.ACCEPTED, self.iteration, staleness)

    def flush(self, now: float) -> Order | None:
        """No more records can come: apply what is pending."""
        return self._apply(1.0) if self._contributions.pending else None

    def end_session(self, now: float, *, session: str) -> Order | None:
        """A worker ended, or starts over. Its pending contributions are applied first."""
        if self._contributions.end_session(session):
            return self._order(OrderKind.DISCARD, session=session)
        return None

    # --- moves

    def next_move(self) -> Move | None:
        """Finder: what to move next, if anything has to be moved and may be now."""
        if not self.unbalanced or self._contributions.pending:
            return None
        return self.map.next_move(self.weights())

    def move(
        self, now: float, *, source: int, target: int, partitions: list[int], blocks: list[list[Any]], reason: str
    ) -> Order:
        if self._contributions.pending:
            raise Conflict("cannot move parameters while accepted contributions are pending")
        self.seat(source), self.seat(target)
        move = Move(source, target, tuple(partitions), tuple((str(n), int(at)) for n, at in blocks), reason)
        self.map = self.map.moved(move)
        return self._order(OrderKind.MOVE, source=source, target=target, partitions=move.partitions, blocks=move.blocks)

    def mark_balanced(self, now: float) -> bool:
        """Nothing is left to move."""
        was, self._seats.unbalanced = self._seats.unbalanced, False
        return was

    # --- dumps

    def dump_due(self, now: float, *, begun: float) -> str:
        """Finder: why a dump is due now; empty: it is not. ``begun``: when the last one began, or training."""
        fresh = self.iteration - self.base.iteration
        if self.open_dump is not None or not self._log:
            return ""
        if len(self._log) >= self.options.max_orders:
            return f"{len(self._log):,} orders since the last dump"
        if self.options.dump_iterations and fresh >= self.options.dump_iterations:
            return f"{fresh:,} iterations since the last dump"
        if self.options.dump_seconds and fresh and now - begun >= self.options.dump_seconds:
            return f"{now - begun:.0f} s since the last dump"
        return ""

    def dump(self, now: float, *, full: bool | None = None) -> Order:
        self._dumps.check_none_open()
        if full is None:
            # An increment holds what was updated, not what was moved in or got its first value.
            other_changes = any(o.kind in (OrderKind.MOVE, OrderKind.DEFINE, OrderKind.ASSIGN) for o in self._log)
            full = other_changes or self._dumps.needs_full(self.options.full_every)
        seats = tuple(seat.number for seat in self._seats if seat.active)
        since = -1 if full else self.base.iteration
        order = self._order(OrderKind.DUMP, full=bool(full), since=since, seats=seats)
        self._dumps.open = Dump(
            order.number,
            self.iteration,
            bool(full),
            seats,
            self.map.to_json(),
            self.tables,
            self.variables,
            self.initialized,
            now,
        )
        return order

    def dump_written(self, now: float, *, seat: int, fencing_token: int, order: int) -> Dump | None:
        """A seat has written its part; returns the dump if that completes it."""
        self.check_holder(seat, fencing_token)
        dump = self._dumps.written(order, seat, keep=self.options.keep)
        if dump is not None:
            self._log.truncate(dump.order)
        return dump

    def dump_failed(self, now: float, *, order: int) -> bool:
        """A dump cannot be written: it is cancelled, and nothing is truncated."""
        if not self._dumps.cancel(order):
            return False
        self._log.cancel(order)
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
        """Begin from a dump of another job, or with another number of seats; before anything else happens."""
        if self._log or self._definitions or self._dumps:
            raise Conflict("cannot restore a dump: parameters are already defined")
        sizes = {str(variable["name"]): floats(variable) for variable in variables}
        self._definitions = Definitions(tables, variables, initialized)
        if sizes:
            self.map = self.map.with_variables(sizes, self.weights())
        self.iteration, self.restored_from = iteration, path
        self._dumps.base = replace(
            self.base,
            iteration=iteration,
            parameter_map=self.map.to_json(),
            tables=self.tables,
            variables=self.variables,
            initialized=self.initialized,
        )

    # --- reading

    @property
    def base(self) -> Dump:
        """The newest complete dump; the log begins after it."""
        return self._dumps.base

    @property
    def open_dump(self) -> Dump | None:
        return self._dumps.open

    @property
    def last(self) -> int:
        """The number of the newest order."""
        return self._log.last

    @property
    def unbalanced(self) -> bool:
        """Whether something may have to be moved."""
        return self._seats.unbalanced

    @property
    def seats_version(self) -> int:
        return self._seats.version

    @property
    def scheduled(self) -> int:
        """The first update whose learning rate is not known; 0: there is no schedule."""
        return self._schedule.until if self._schedule is not None else 0

    @property
    def over(self) -> bool:
        """Whether the last iteration is reached."""
        return 0 < self.options.max_iterations <= self.iteration

    @property
    def pending(self) -> int:
        """Examples of contributions that were accepted and are in no order yet."""
        return self._contributions.pending_examples

    @property
    def contributions(self) -> int:
        """How many were accepted."""
        return self._contributions.count

    @property
    def examples(self) -> int:
        """How many were applied."""
        return self._contributions.examples

    @property
    def staleness(self) -> tuple[int, ...]:
        """How many accepted contributions fell into each bucket of ``contributions.STALENESS``, and beyond."""
        return tuple(self._contributions.staleness)

    @property
    def tables(self) -> tuple[Definition, ...]:
        return self._definitions.tables

    @property
    def variables(self) -> tuple[Definition, ...]:
        return self._definitions.variables

    @property
    def initialized(self) -> tuple[str, ...]:
        return self._definitions.initialized

    def seats(self) -> list[Seat]:
        return list(self._seats)

    def seat(self, number: int) -> Seat:
        return self._seats.get(number)

    def seat_of(self, node: str) -> Seat:
        return self._seats.of_node(node)

    def empty_seats(self) -> list[Seat]:
        """Finder: seats that leave and have no parameters any more."""
        return [seat for seat in self._seats if seat.leaving and self.map.is_empty(seat.number)]

    def weights(self) -> dict[int, float]:
        return self._seats.weights()

    def check_holder(self, seat: int, fencing_token: int) -> None:
        self._seats.holder(seat, fencing_token)

    def orders(self, after: int, limit: int) -> list[Order]:
        return self._log.after(after, limit)

    def restore_chain(self) -> list[Dump]:
        """The dumps to load for the base, oldest first: a full one and the increments after it."""
        return self._dumps.restore_chain()

    def restore_point(self, seat: Seat) -> RestorePoint:
        base = self.base
        return RestorePoint(
            seat.number,
            seat.fencing_token,
            base.order,
            self.last,
            "" if base.order else self.restored_from,
            PartitionMap.from_json(base.parameter_map),
            base.tables,
            base.variables,
            base.iteration,
            self.options.durable_log,
        )

    def kept_dumps(self) -> list[int]:
        """Orders of the dumps whose files are kept, including the one that is being written."""
        return self._dumps.kept()

    # --- as JSON

    def snapshot(self) -> dict[str, Any]:
        return {
            "seats": self._seats.snapshot(),
            "map": self.map.to_json(),
            "definitions": self._definitions.snapshot(),
            "log": self._log.snapshot(),
            "contributions": self._contributions.snapshot(),
            "dumps": self._dumps.snapshot(),
            "schedule": self._schedule.to_json() if self._schedule else None,
            "iteration": self.iteration,
            "assign_order": self.assign_order,
            "restored_from": self.restored_from,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        try:
            self._seats = Seats.from_snapshot(state["seats"])
            self.map = PartitionMap.from_json(state["map"])
            self._definitions = Definitions.from_snapshot(state["definitions"])
            self._log = OrderLog.from_snapshot(state["log"])
            self._contributions = Contributions.from_snapshot(state["contributions"])
            self._dumps = DumpChain.from_snapshot(state["dumps"])
            self._schedule = RateSchedule.from_json(state["schedule"]) if state["schedule"] else None
            self.iteration = state["iteration"]
            self.assign_order = state["assign_order"]
            self.restored_from = state["restored_from"]
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise CorruptData(f"not a snapshot of parameter servers: {error!r}") from error

    # --- inside

    def _order(self, kind: OrderKind, **fields: Any) -> Order:
        return self._log.append(Order(self.last + 1, kind, self.map.version, self.iteration, **fields))

    def _apply(self, scale: float) -> Order:
        batch = self._contributions.take_batch()
        factors = self._schedule.at(self.iteration) if self._schedule is not None else None
        self.iteration += 1
        order = self._order(OrderKind.APPLY, contributions=batch.contributions, scale=scale, factors=factors or ())
        for session in batch.ended_sessions:
            self._order(OrderKind.DISCARD, session=session)
        return order

    def _outdated(self, holders: Sequence[Sequence[int]], map_version: int) -> str:
        """Why what was staged there is not where it belongs any more; empty: it is."""
        if map_version != self.map.version:
            return f"the map has version {self.map.version}, not {map_version}"
        if (stale := self._seats.stale_holder(holders)) is not None:
            return f"seat {stale} is now held by another server or by none"
        return ""
