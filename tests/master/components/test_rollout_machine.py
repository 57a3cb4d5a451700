"""Random histories of rollouts: faults, scaling, other resources and killed masters in the middle of them.

The components are real; the platform, the programs and the movement of partitions are played here, one move at a time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pliant.core.change_resolver import decide
from pliant.core.changes import ChangeRequest, RequestSource, Scale, SetResources
from pliant.core.job_state import JobSnapshot
from pliant.core.nodes.states import NodeState
from pliant.core.resources import Resources, RolloutMode
from pliant.master.components.nodes import NodeManager
from pliant.master.components.parameters.coordinator import ParameterCoordinator
from pliant.master.components.rollouts import RolloutController
from pliant.master.components.server_pool import ServerPool
from pliant.master.components.signals import SeatVacated, SignalBus
from pliant.master.journal.journal import Journal
from pliant.platforms.base import NodeLaunch, NodeWatcher, Scaler
from pliant.spec import JobSpec, initial_state
from pliant.testing import ManualClock

PICK = st.integers(0, 1000)
ROLES = st.sampled_from(["worker", "ps"])


class MemoryJournal:
    """Notes nothing: the state is all that there is."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.events: list[Any] = []

    def do(self, method: Any, **arguments: Any) -> Any:
        return method(self._clock.now(), **json.loads(json.dumps(arguments)))

    def event(self, event: Any) -> None:
        self.events.append(event)


class Seating:
    """The part of the coordinator that a rollout uses."""

    def __init__(self, book: Any, journal: MemoryJournal) -> None:
        self.book = book
        self._journal = journal

    def resize(self, seats: int, leaving: Sequence[int] = ()) -> None:
        self._journal.do(self.book.resize, seats=seats, leaving=list(leaving))

    def program_gone(self, node: str, *, for_good: bool) -> None:
        self._journal.do(self.book.lost, node=node, for_good=for_good)


class Rollouts(RuleBasedStateMachine):
    @initialize(
        workers=st.sampled_from([(2, 2, 2), (1, 2, 4), (1, 3, 3)]),
        servers=st.sampled_from([(1, 1, 1), (1, 2, 4), (1, 2, 2)]),
    )
    def begin(self, workers: tuple[int, int, int], servers: tuple[int, int, int]) -> None:
        def role(numbers: tuple[int, int, int]) -> dict[str, Any]:
            least, wanted, most = numbers
            replicas = {"min": least, "wanted": wanted, "max": most}
            return {"command": ["run"], "replicas": replicas, "resources": {"cpu": 1, "memory": 100}}

        roles = {"worker": role(workers), "ps": role(servers)}
        self.spec = JobSpec.from_dict({"name": "rolled", "strategy": "ps-async", "roles": roles})
        self.clock = ManualClock()
        self.state = initial_state(self.spec)
        self.open()
        self.journal.do(self.nodes.book.start)
        self.platform_acts()

    def open(self) -> None:
        """As a master does when it starts."""
        assert self.state.nodes is not None
        assert self.state.parameters is not None
        self.journal = MemoryJournal(self.clock)
        journal = cast(Journal, self.journal)
        self.signals = SignalBus()
        self.seating = Seating(self.state.parameters, self.journal)
        parameters = cast(ParameterCoordinator, self.seating)
        self.nodes = NodeManager(
            self.state.nodes,
            self.state.job,
            journal,
            self.clock,
            self.signals,
            cast(Scaler, None),
            cast(NodeWatcher, None),
            lambda launch: cast(NodeLaunch, None),
        )
        self.pool = ServerPool(self.nodes, parameters)
        self.signals.connect(self.pool.on_event)
        self.rollouts = RolloutController(self.nodes, journal, self.clock, parameters, None)

    # --- the world outside

    @rule()
    def platform_acts(self) -> None:
        """What is due is launched and runs; what is to go is gone."""
        book = self.nodes.book
        for launch in book.due(self.clock.now()):
            self.journal.do(book.accepted, node=launch.node)
            self.journal.do(book.registered, node=launch.node, agent_pid=1, host="here")
            self.journal.do(book.program_started, node=launch.node, incarnation=0, pid=2)
        for removal in book.removals(self.clock.now()):
            self.journal.do(book.node_ended, node=removal.node, exit_reason="Killed", message="removed")
        for node in book.nodes():
            if node.ended:
                self.seating.program_gone(node.name, for_good=True)
        for node in book.live("ps"):
            self.serve(node.name)

    def serve(self, node: str) -> None:
        book = self.seating.book
        if self.nodes.book.get(node).state is not NodeState.RUNNING or any(seat.node == node for seat in book.seats()):
            return
        seat = self.journal.do(book.join, node=node, incarnation=0)
        if seat is not None:
            self.journal.do(book.ready, seat=seat.number, fencing_token=seat.fencing_token, address="here:1")

    @rule(times=st.integers(1, 30))
    def partitions_move(self, times: int) -> None:
        book = self.seating.book
        for _ in range(times):
            move = book.next_move()
            if move is None or not all(book.seat(number).address for number in (move.source, move.target)):
                break
            self.journal.do(
                book.move,
                source=move.source,
                target=move.target,
                partitions=list(move.partitions),
                blocks=[],
                reason="",
            )
        for seat in book.empty_seats():
            self.journal.do(book.retire, seat=seat.number)
            self.signals.publish(SeatVacated(seat.node, seat.number))

    @rule(role=ROLES, pick=PICK)
    def a_node_is_preempted(self, role: str, pick: int) -> None:
        live = self.nodes.book.live(role)
        if live:
            name = live[pick % len(live)].name
            self.journal.do(self.nodes.book.node_ended, node=name, exit_reason="Preempted", message="gone")
            self.seating.program_gone(name, for_good=True)

    @rule(seconds=st.floats(0.1, 20))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    # --- people

    @rule(role=ROLES, cpu=st.integers(1, 3), replicas=st.none() | st.integers(1, 4))
    def somebody_asks(self, role: str, cpu: int, replicas: int | None) -> None:
        changes: list[Any] = [SetResources(role, Resources(float(cpu), 100), RolloutMode.ROLLING)]
        self.ask(*changes, *([Scale(role, replicas)] if replicas is not None else []))

    @rule(role=ROLES, replicas=st.integers(1, 4))
    def somebody_scales(self, role: str, replicas: int) -> None:
        self.ask(Scale(role, replicas))

    def ask(self, *changes: Any) -> None:
        request = ChangeRequest("", RequestSource.PERSON, changes, "asked")
        decision = decide(self.state, request, self.clock.now())
        for change in decision.changes:
            for operation in change.operations:
                self.state.apply(operation)

    # --- the master

    @rule()
    def master_ticks(self) -> None:
        asyncio.run(self.rollouts.tick())

    @rule()
    def master_is_killed(self) -> None:
        taken = self.state.snapshot()
        saved = JobSnapshot(*(json.loads(json.dumps(part)) for part in (taken.state, taken.definitions)))
        self.state = initial_state(self.spec)
        self.state.restore(saved)
        self.open()

    # --- what always holds

    @invariant()
    def limits_are_respected(self) -> None:
        if not hasattr(self, "nodes"):
            return
        for name in ("worker", "ps"):
            role, active = self.nodes.book.role(name), self.nodes.book.active(name)
            assert len(active) == role.target, "no node is missing or too many"
            allowed = role.spec.max_replicas + (name == "ps")
            assert len(active) <= allowed

    @invariant()
    def no_server_goes_with_its_partitions(self) -> None:
        if not hasattr(self, "nodes"):
            return
        book = self.seating.book
        for seat in book.seats():
            if seat.node and not book.map.is_empty(seat.number):
                assert self.nodes.book.get(seat.node).removal is None, f"{seat.node} leaves with its partitions"

    def teardown(self) -> None:
        """Left alone, every rollout comes to its end, and nothing is left over."""
        if not hasattr(self, "nodes"):
            return
        for _ in range(60):
            self.clock.advance(20.0)
            self.platform_acts()
            self.partitions_move(50)
            self.master_ticks()
        for name in ("worker", "ps"):
            role, active = self.nodes.book.role(name), self.nodes.book.active(name)
            assert role.rollout is None, f"{name}: {role}"
            assert role.surge == 0
            assert len(active) == role.spec.replicas
            assert {node.resources for node in active} <= {role.spec.resources}
        staying = [seat for seat in self.seating.book.seats() if not seat.leaving]
        assert len(staying) == self.nodes.book.role("ps").spec.replicas
        assert {seat.node for seat in staying} == {node.name for node in self.nodes.book.active("ps")}


TestRollouts = Rollouts.TestCase
TestRollouts.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
