"""ReplicatedServers come, go, move what they have, dump it and are killed, in random order: what was accepted counts exactly once.

Every gradient is one, so a variable tells how many were applied to it. Real orders, executors, logs, dumps and moves on a real
disk; the only thing that is played is the death of a process, between two of its steps.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.ps.replicated_servers import NAMES, ReplicatedServers

from pliant.core.errors import Moved

MOST = 3  # servers


class Recovery(RuleBasedStateMachine):
    batch = 1  # contributions of one update

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="pliant-recovery-"))
        self.servers = ReplicatedServers(self.folder, sync=self.batch > 1, batch=self.batch)
        self.waiting: list[str] = []  # variables of contributions that wait for the rest of their batch
        self.book = self.servers.book
        self.accepted = dict.fromkeys(NAMES, 0)
        self.nodes = {0: "ps-0"}  # by seat
        self.sequence = 0
        self.made = 1
        self.ended = 0  # sessions; a name is not used again

    def teardown(self) -> None:
        for seat in self.dead():
            self.servers.restart(self.nodes[seat])
        self.servers.follow()
        try:
            self.what_is_served_is_what_was_accepted()
            assert all(self.servers.serves(seat.number) for seat in self.book.seats())
        finally:
            shutil.rmtree(self.folder)

    def dead(self) -> list[int]:
        return [seat for seat in self.nodes if seat not in self.servers._running]

    def named(self, session: str) -> str:
        return f"{session}{self.ended}"

    def owner(self, variable: str) -> int:
        return int(self.book.map.blocks[variable][0])

    # --- workers

    @rule(variable=st.sampled_from(NAMES), session=st.sampled_from("xy"))
    def contribute(self, variable: str, session: str) -> None:
        seat = self.owner(variable)
        if not self.servers.serves(seat):
            return
        if not self.stage(seat, variable, session):
            return
        self.servers.contribute(seat, self.sequence, self.named(session))
        self.waiting.append(variable)
        if len(self.waiting) == self.batch:
            for one in self.waiting:
                self.accepted[one] += 1
            self.waiting = []

    @rule(variable=st.sampled_from(NAMES), session=st.sampled_from("xyz"))
    def stage_and_never_contribute(self, variable: str, session: str) -> None:
        seat = self.owner(variable)
        if self.servers.serves(seat):
            self.stage(seat, variable, session)

    def stage(self, seat: int, variable: str, session: str) -> bool:
        """By the map that the master has; False: the server waits for one that died before it has handed this over."""
        self.servers.follow()
        self.sequence += 1
        try:
            self.servers.stage(seat, variable, self.sequence, self.named(session))
        except Moved:
            assert self.dead()
            assert self.servers._running[seat].done < self.book.last
            return False
        return True

    @rule(session=st.sampled_from("xyz"))
    def end_a_session(self, session: str) -> None:
        self.book.end_session(0, session=self.named(session))
        self.ended += 1

    # --- servers

    @rule()
    def execute_what_was_ordered(self) -> None:
        self.servers.follow()

    @rule(which=st.integers(0, MOST))
    def kill(self, which: int) -> None:
        running = sorted(self.servers._running)
        self.servers.kill(self.nodes[running[which % len(running)]]) if running else None

    @precondition(lambda self: self.dead())
    @rule(which=st.integers(0, MOST))
    def restart(self, which: int) -> None:
        dead = self.dead()
        self.servers.restart(self.nodes[dead[which % len(dead)]])

    # --- dumps

    @precondition(lambda self: self.book.open_dump is None and any(s.active for s in self.book.seats()))
    @rule(full=st.sampled_from([None, True]))
    def order_a_dump(self, full: bool | None) -> None:
        self.book.dump(0, full=full)

    @precondition(lambda self: self.book.open_dump is not None)
    @rule(which=st.integers(0, MOST))
    def report_a_part(self, which: int) -> None:
        opened = self.book.open_dump
        assert opened is not None
        ready = [
            seat
            for seat, executor in self.servers._running.items()
            if opened.waits_for(seat) and executor.done >= opened.order
        ]
        if ready:
            self.servers.finish_dump(ready[which % len(ready)])

    @precondition(lambda self: self.book.open_dump is not None)
    @rule()
    def finish_the_dump(self) -> None:
        self.servers.follow()
        for seat in list(self.servers._running):
            opened = self.book.open_dump
            if opened is not None and opened.waits_for(seat) and self.servers._running[seat].done >= opened.order:
                self.servers.finish_dump(seat)

    @precondition(lambda self: self.book.open_dump is not None)
    @rule()
    def call_a_dump_off(self) -> None:
        opened = self.book.open_dump
        assert opened is not None
        self.book.dump_failed(0, order=opened.order)

    # --- the number of servers

    @precondition(lambda self: len(self.nodes) < MOST and not self.dead())
    @rule()
    def add_a_server(self) -> None:
        self.book.resize(0, seats=1 + sum(not s.leaving for s in self.book.seats()))
        vacant = [s.number for s in self.book.seats() if not s.node]
        if vacant:
            node = f"ps-{self.made}"
            self.made += 1
            self.nodes[self.servers.join(node)] = node

    @precondition(lambda self: sum(not s.leaving for s in self.book.seats()) > 1)
    @rule()
    def send_a_server_away(self) -> None:
        self.book.resize(0, seats=sum(not s.leaving for s in self.book.seats()) - 1)

    @rule(most=st.integers(1, 8), follow=st.booleans())
    def move_some(self, most: int, follow: bool) -> None:
        """As the master does: one move after the other, between servers that are there, and no batch half done."""
        for _ in range(most):
            self.servers.follow() if follow else None
            move = self.book.next_move() if self.book.unbalanced and not self.book.pending else None
            if (
                move is None
                or not self.settled()
                or not all(self.servers.serves(n) for n in (move.source, move.target))
            ):
                return
            blocks = [list(block) for block in move.blocks]
            self.book.move(
                0, source=move.source, target=move.target, partitions=list(move.partitions), blocks=blocks, reason=""
            )

    @rule()
    def retire_who_is_empty(self) -> None:
        for seat in self.book.empty_seats() if self.settled() else []:
            opened = self.book.open_dump
            if opened is not None and opened.waits_for(seat.number) and seat.address:
                continue  # as the master: it writes its part first
            self.book.retire(0, seat=seat.number)
            self.servers._running.pop(seat.number, None)
            self.servers._until.pop(seat.number, None)
            self.nodes.pop(seat.number)

    def settled(self) -> bool:
        """Everybody who has parameters has executed everything."""
        return not self.dead() and all(
            executor.done == self.book.last and self.servers.serves(seat)
            for seat, executor in self.servers._running.items()
        )

    # --- what holds

    @invariant()
    def what_is_served_is_what_was_accepted(self) -> None:
        for variable, count in self.accepted.items():
            seat = self.owner(variable)
            executor = self.servers._running.get(seat)
            if executor is not None and self.servers.serves(seat) and executor.done == self.book.last:
                value = self.servers.value(seat, variable)
                assert np.all(value == -count / self.batch), f"{variable} has {value}, {count} were accepted"

    @invariant()
    def nobody_speaks_of_a_loss(self) -> None:
        assert not self.servers.messages


class RecoveryInStep(Recovery):
    """Synchronous: of two contributions, the first waits for the second."""

    batch = 2


TestRecovery = Recovery.TestCase
TestRecoveryInStep = RecoveryInStep.TestCase
TestRecovery.settings = TestRecoveryInStep.settings = settings(
    max_examples=600 if os.environ.get("PLIANT_HYPOTHESIS") == "long" else 50, stateful_step_count=50, deadline=None
)
