"""Random histories of parameter servers and workers, with a model of what each server would hold."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pliant.core.errors import PliantError
from pliant.core.parameters.book import ParameterBook
from pliant.core.parameters.contributions import PushOutcome
from pliant.core.parameters.options import PsOptions
from pliant.core.parameters.orders import Order, OrderKind
from pliant.core.parameters.partition_map import Move, PartitionMap, shares


class Server:
    """A seat's holder: executes orders, has what was staged on its seat, loses its memory when it dies."""

    def __init__(self, base: PartitionMap, at: int) -> None:
        self.map = base
        self.at = at

    def execute(self, order: Order) -> None:
        assert order.number == self.at + 1
        if order.kind is OrderKind.MOVE:
            self.map = self.map.moved(Move(order.source, order.target, order.partitions, order.blocks))
        elif order.kind is OrderKind.DEFINE:
            self.map = PartitionMap(order.map_version, self.map.partitions, {**self.map.blocks, **order.placement})
        assert self.map.version == order.map_version
        self.at = order.number


class PsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        options = PsOptions(
            sync=self.sync, batch=20, partitions=16, max_staleness=3, alpha=0.5, max_iterations=self.last
        )
        self.book = ParameterBook(options, 2)
        self.nodes = 0
        self.servers: dict[int, Server] = {}  # by seat
        self.staged: dict[tuple[str, int], int] = {}  # accepted contributions: examples
        self.sequences: Counter[str] = Counter()
        self.live: dict[str, list[int]] = {}  # accepted since the session began
        self.all_orders: list[Order] = []
        self.defined = 0
        self.known = 0  # updates whose learning rate was told

    sync = True
    last = 0  # iteration that is wanted; 0: no limit

    def do(self, name: str, **arguments: Any) -> Any:
        """Through JSON, as the journal has it; and a book restored from a snapshot must answer the same."""
        self.now += 1
        arguments = json.loads(json.dumps(arguments))
        twin = ParameterBook(self.book.options, 1)
        twin.restore(json.loads(json.dumps(self.book.snapshot())))
        try:
            answer = getattr(self.book, name)(self.now, **arguments)
        except PliantError:
            assert twin.snapshot() == self.book.snapshot(), "a refused call changed something"
            raise
        assert getattr(twin, name)(self.now, **arguments) == answer
        assert twin.snapshot() == self.book.snapshot()
        known = self.all_orders[-1].number if self.all_orders else 0
        self.all_orders += [order for order in self.book._log if order.number > known]
        return answer

    @rule()
    def a_server_joins(self) -> None:
        node = f"ps-{self.nodes}"
        self.nodes += 1
        seat = self.do("join", node=node, incarnation=0)
        if seat is None:
            assert all(s.node for s in self.book.seats())
            return
        server = Server(PartitionMap.from_json(self.book.base.parameter_map), self.book.base.order)
        for order in self.book.orders(self.book.base.order, 1 << 30):
            server.execute(order)
        self.servers[seat.number] = server
        self.do("ready", seat=seat.number, fencing_token=seat.fencing_token, address="there:1")

    @precondition(lambda self: self.servers)
    @rule(data=st.data(), for_good=st.booleans())
    def a_server_dies(self, data: st.DataObject, for_good: bool) -> None:
        seat = data.draw(st.sampled_from(sorted(self.servers)))
        node = self.book.seat(seat).node
        self.do("lost", node=node, for_good=for_good)
        del self.servers[seat]
        if not for_good:
            found = self.do("join", node=node, incarnation=1)
            assert found.number == seat, "it has its own seat again"
            self.do("lost", node=node, for_good=True)

    @rule(size=st.integers(1, 3 << 20))
    def something_is_defined(self, size: int) -> None:
        if self.defined < 5:
            self.defined += 1
            self.do("define", tables=[], variables=[{"name": f"v{self.defined}", "shape": [size]}])

    @precondition(lambda self: self.book.seats())
    @rule(worker=st.sampled_from("abc"), examples=st.integers(1, 15), behind=st.integers(0, 5), old_map=st.booleans())
    def a_worker_contributes(self, worker: str, examples: int, behind: int, old_map: bool) -> None:
        self.sequences[worker] += 1
        given: dict[str, Any] = {
            "session": worker,
            "sequence": self.sequences[worker],
            "based_on": max(0, self.book.iteration - behind),
            "examples": examples,
            "holders": [[s.number, s.fencing_token] for s in self.book.seats() if s.address],
            "map_version": self.book.map.version - old_map,
        }
        stale = self.book.iteration - given["based_on"]
        unknown_rate = 0 < self.known <= self.book.iteration
        over = self.book.iteration == self.last > 0
        decision = self.do("contribute", **given)
        if over:
            assert decision.outcome is PushOutcome.OVER
        elif stale > (0 if self.sync else 3):
            assert decision.outcome is PushOutcome.STALE
        elif unknown_rate:
            assert decision.outcome is PushOutcome.UNSCHEDULED
        elif old_map:
            assert decision.outcome is PushOutcome.MOVED
        else:
            assert decision.outcome is PushOutcome.ACCEPTED
            self.staged[worker, given["sequence"]] = examples
            self.live.setdefault(worker, []).append(given["sequence"])
            again = self.do("contribute", **given)
            assert again.outcome is PushOutcome.REPEATED

    @rule(worker=st.sampled_from("abc"), back=st.integers(1, 6))
    def an_older_contribution_of_a_window_comes_again(self, worker: str, back: int) -> None:
        sequence, accepted = self.sequences[worker] - back, self.live.get(worker, [])
        if sequence < 1 or not accepted or sequence > accepted[-1]:
            return
        decision = self.do(
            "contribute",
            session=worker,
            sequence=sequence,
            based_on=self.book.iteration,
            examples=1,
            holders=[[s.number, s.fencing_token] for s in self.book.seats() if s.address],
            map_version=self.book.map.version,
        )
        assert decision.outcome is (PushOutcome.REPEATED if sequence in accepted else PushOutcome.GAP)

    @rule(back=st.integers(0, 3), count=st.integers(1, 6))
    def a_worker_tells_learning_rates(self, back: int, count: int) -> None:
        first = max(0, max(self.book.scheduled, self.book.iteration) - back)
        self.known = self.do("schedule", first=first, factors=[[k + 0.5, 2.0 * k] for k in range(first, first + count)])

    @rule(worker=st.sampled_from("abc"))
    def a_worker_dies(self, worker: str) -> None:
        self.do("end_session", session=worker)
        self.live.pop(worker, None)

    @rule()
    def no_more_records_come(self) -> None:
        self.do("flush")
        assert self.book.pending == 0

    @rule(seats=st.integers(1, 4))
    def the_number_of_servers_changes(self, seats: int) -> None:
        self.do("resize", seats=seats)

    @rule()
    def all_is_moved(self) -> None:
        moved: Counter[int] = Counter()
        while (move := self.book.next_move()) is not None:
            moved.update(move.partitions)
            self.do(
                "move",
                source=move.source,
                target=move.target,
                partitions=list(move.partitions),
                blocks=[list(b) for b in move.blocks],
                reason="",
            )
        assert not moved or max(moved.values()) == 1, "a partition moved twice"
        if not self.book.pending and self.book.unbalanced:
            self.do("mark_balanced")
            counts = Counter(self.book.map.partitions)
            assert {s: counts[s] for s in self.book.weights()} == shares(16, self.book.weights())
            for seat in self.book.empty_seats():
                self.do("retire", seat=seat.number)
                self.servers.pop(seat.number, None)

    @precondition(lambda self: self.book.open_dump is None and self.book.last)
    @rule(full=st.sampled_from([None, True]))
    def a_dump_is_ordered(self, full: bool | None) -> None:
        self.do("dump", full=full)

    @precondition(lambda self: self.book.open_dump is not None)
    @rule(fails=st.booleans())
    def a_dump_is_written(self, fails: bool) -> None:
        dump = self.book.open_dump
        assert dump is not None
        if fails:
            self.do("dump_failed", order=dump.order)
            return
        for seat in self.book.seats():
            if seat.number in dump.seats and seat.address:
                self.do("dump_written", seat=seat.number, fencing_token=seat.fencing_token, order=dump.order)

    @invariant()
    def every_server_follows_the_orders(self) -> None:
        for server in self.servers.values():
            for order in self.all_orders[server.at :]:
                server.execute(order)
            assert server.map.partitions == self.book.map.partitions
            assert dict(server.map.blocks) == dict(self.book.map.blocks)

    @invariant()
    def orders_are_numbered_and_kept_since_the_base(self) -> None:
        numbers = [order.number for order in self.book.orders(self.book.base.order, 1 << 30)]
        assert numbers == list(range(self.book.base.order + 1, self.book.last + 1))
        assert [order.number for order in self.all_orders] == list(range(1, self.book.last + 1))

    @invariant()
    def each_accepted_contribution_is_applied_once_or_waits(self) -> None:
        orders = [order for order in self.all_orders if order.kind is OrderKind.APPLY]
        parts = [part for order in orders for part in order.contributions]
        applied = Counter((part.session, part.sequence) for part in parts)
        waiting = Counter((part.session, part.sequence) for part in self.book._contributions.pending)
        assert applied + waiting == Counter(dict.fromkeys(self.staged, 1))
        assert self.book.examples + self.book.pending == sum(self.staged.values())

    @invariant()
    def iterations_rise_by_one_with_each_step(self) -> None:
        steps = [order for order in self.all_orders if order.kind is OrderKind.APPLY]
        assert [order.iteration for order in steps] == list(range(1, self.book.iteration + 1))
        assert all(abs(sum(part.weight for part in order.contributions) - 1) < 1e-9 for order in steps)

    @invariant()
    def no_iteration_comes_after_the_last_that_is_wanted(self) -> None:
        assert self.book.iteration <= (self.last or self.book.iteration)
        assert self.book.over is (self.book.iteration == self.last > 0)
        assert not self.book.over or not self.book.pending, "what was accepted is part of the model"

    @invariant()
    def each_update_has_the_learning_rate_of_its_number(self) -> None:
        steps = [order for order in self.all_orders if order.kind is OrderKind.APPLY]
        told = [order.iteration - 1 for order in steps if order.factors]
        assert told == list(range(len(steps) - len(told), len(steps))), "an update after the first schedule has none"
        assert all(order.factors in ((), (order.iteration - 0.5, 2.0 * (order.iteration - 1))) for order in steps)

    @invariant()
    def all_parameters_are_on_seats_that_exist(self) -> None:
        there = {seat.number for seat in self.book.seats()}
        assert set(self.book.map.partitions) <= there
        assert {seat for seats in self.book.map.blocks.values() for seat in seats} <= there


class AsyncMachine(PsMachine):
    sync = False


class BoundedMachine(PsMachine):
    last = 1


class BoundedAsyncMachine(AsyncMachine):
    last = 2


TestSync = PsMachine.TestCase
TestAsync = AsyncMachine.TestCase
TestBounded = BoundedMachine.TestCase
TestBoundedAsync = BoundedAsyncMachine.TestCase
TestSync.settings = TestAsync.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
TestBounded.settings = TestBoundedAsync.settings = settings(max_examples=15, stateful_step_count=30, deadline=None)
