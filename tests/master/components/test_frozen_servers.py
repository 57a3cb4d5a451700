"""What a master does with a parameter server whose program is stopped; time is moved by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pliant.core.events import EventKind
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.nodes.stall_detector import MAX_KILL_S, MAX_SILENT_S, MAX_STOPPED_S
from pliant.core.status import NodeStatus
from pliant.master.components.parameters.coordinator import ParameterCoordinator
from pliant.rpc import pliant_pb2 as pb
from pliant.testing import FakeAgent, ManualClock, RunningMaster, wait_until

SPEC = {
    "strategy": "ps-sync",
    "roles": {"worker": {"command": "train"}, "ps": {"replicas": 2}},
    "parameters": {"batch_size": 8},
    "fault": {"heartbeat_timeout": 1000.0},
}


class Job:
    def __init__(self, master: RunningMaster, clock: ManualClock) -> None:
        self.master, self.clock = master, clock
        wait_until(lambda: {"ps-0", "ps-1", "worker-0"} <= set(master.platform.running()), what="the launches")
        self.agents = {name: FakeAgent(master.client, name).starts() for name in ("ps-0", "ps-1", "worker-0")}
        for name in ("ps-0", "ps-1"):
            self.joins(name)

    def joins(self, name: str, incarnation: int = 0) -> pb.SeatHolder:
        """Its program takes a seat and serves."""
        stubs = self.master.client.stubs.parameters
        reply: pb.JoinSeatReply = self.master.client.call(
            stubs.JoinSeat, pb.JoinSeatRequest(node=name, incarnation=incarnation)
        )
        seat = reply.holder
        ready = pb.SeatReadyRequest(holder=seat, address=f"127.0.0.1:{7000 + seat.seat}")
        self.master.client.call(stubs.SeatReady, ready)
        return seat

    def alive(self, *names: str) -> None:
        """Servers tell that they get on."""
        for name in names or ("ps-0", "ps-1"):
            seat = self.seat(name)
            assert seat is not None
            held = pb.SeatHolder(seat=seat.seat, fencing_token=seat.fencing_token)
            self.master.client.call(self.master.client.stubs.parameters.SeatAlive, held)

    def asks(self, name: str) -> None:
        seat = self.seat(name)
        assert seat is not None
        request = pb.NextOrdersRequest(holder=pb.SeatHolder(seat=seat.seat, fencing_token=seat.fencing_token), after=0)
        self.master.client.call(self.master.client.stubs.parameters.NextOrders, request)

    def second(self, stopped: str = "", *, seconds: float = 1.0, wait: bool = False) -> dict[str, str]:
        """Time passes, and all agents beat; gives whom the master has killed, and why. ``wait``: until it has looked at it."""
        self.clock.advance(seconds)
        if wait:
            for _ in range(2):
                self.master.run_inside(lambda parts: parts.woken.set())
                wait_until(lambda: not self.master.run_inside(lambda parts: parts.woken.is_set()), what="a tick")
        told = {}
        for name, agent in self.agents.items():
            reply = agent.beats(stopped=name == stopped)
            if reply.kill:
                told[name] = reply.kill
        return told

    def freeze(self, name: str) -> dict[str, str]:
        for _ in range(int(MAX_STOPPED_S)):
            assert not self.second(name)
        return self.second(name)

    def node(self, name: str) -> NodeStatus:
        status = self.master.status()
        return next(n for n in status.nodes if n.name == name)

    def seat(self, name: str) -> pb.SeatStatus | None:
        found = self.master.client.call(self.master.client.stubs.parameters.GetMap, pb.GetMapRequest())
        return next((seat for seat in found.seats if seat.node == name), None)

    def events(self, kind: EventKind) -> list[tuple[str, str, bool]]:
        """Whom it concerns, why, and whether it was killed."""
        reply = self.master.client.call(self.master.client.stubs.job.GetEvents, pb.EventsRequest())
        return [
            (event.node, event.facts["reason"], event.facts["killed"]) for event in reply.events if event.kind == kind
        ]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    clock = ManualClock()
    with RunningMaster(tmp_path, SPEC, clock=clock) as master:
        yield Job(master, clock)


def test_a_server_that_is_stopped_is_killed_and_started_again_in_place_and_that_counts_nowhere(job: Job) -> None:
    why = "its program was stopped by a signal for 5 s"
    assert job.freeze("ps-1") == {"ps-1": why}
    assert job.events(EventKind.FROZEN) == [("ps-1", why, True)]
    seat = job.seat("ps-1")
    assert seat is not None
    assert seat.fencing_token, "it has its seat until it is dead"
    answer = job.agents["ps-1"].program_exits(ExitReason.KILLED, why)
    assert (answer.restart, answer.incarnation, answer.delay, answer.reason) == (True, 1, 0.0, why)
    after = job.seat("ps-1")
    assert after is not None
    assert (after.fencing_token, after.address) == (0, ""), "and nobody serves it from then on"
    shown = job.node("ps-1")
    assert (shown.state, shown.restarts, shown.exit_reason, shown.message) == ("Running", 1, "Killed", why)
    counted = job.master.run_inside(
        lambda parts: dict(parts.state.nodes.get("ps-1").failures) if parts.state.nodes else None
    )
    assert counted == {}
    again = job.joins("ps-1", incarnation=1)
    assert (again.seat, again.fencing_token) == (seat.seat, 3)
    assert not job.second(), "the next run has no sentence"


def test_it_may_be_stopped_more_often_than_any_failure_is_forgiven(job: Job) -> None:
    for run in range(1, 13):
        why = job.freeze("ps-1")["ps-1"]
        assert job.agents["ps-1"].program_exits(ExitReason.KILLED, why).incarnation == run
        job.joins("ps-1", incarnation=run)
        job.alive()
    assert job.node("ps-1").state == "Running"


def test_one_that_wakes_up_in_time_goes_on(job: Job) -> None:
    for _ in range(3):
        for _ in range(int(MAX_STOPPED_S)):
            assert not job.second("ps-0")
        assert not job.second()
    assert not job.events(EventKind.FROZEN)


def test_time_in_which_the_master_did_not_run_is_not_held_against_it(job: Job) -> None:
    job.second("ps-1")
    assert not job.second("ps-1", seconds=10.0)
    assert not job.second("ps-1"), "three heartbeats in twelve seconds: who knows what was in between"
    assert not job.second()


def test_a_worker_that_is_stopped_is_not_killed(job: Job) -> None:
    for _ in range(3 * int(MAX_STOPPED_S)):
        assert not job.second("worker-0")


def test_a_program_that_ends_otherwise_before_it_is_killed_is_counted_for_what_it_did(job: Job) -> None:
    assert job.freeze("ps-1")
    assert job.agents["ps-1"].program_exits(ExitReason.ERROR, "exit code 1").delay > 0
    counted = job.master.run_inside(
        lambda parts: dict(parts.state.nodes.get("ps-1").failures) if parts.state.nodes else None
    )
    assert counted == {"Error": 1}


def test_a_node_whose_agent_does_not_kill_its_program_is_given_up_and_its_seat_goes_to_the_next(job: Job) -> None:
    assert job.freeze("ps-1")
    for _ in range(int(MAX_KILL_S)):
        job.second("ps-1")
    gone = job.node("ps-1")
    assert (gone.state, gone.exit_reason) == ("Failed", "Hang")
    assert "did not kill its program" in gone.message
    assert job.seat("ps-1") is None
    wait_until(lambda: "ps-1" not in job.master.platform.running(), what="the removal of the node")
    job.clock.advance(1.0)
    wait_until(lambda: "ps-2" in job.master.platform.running(), what="its replacement")
    job.agents["ps-1"] = FakeAgent(job.master.client, "ps-2").starts()
    assert job.joins("ps-2").fencing_token == 3


def test_a_server_that_falls_silent_while_it_runs_is_killed_as_one_that_hangs(job: Job) -> None:
    for _ in range(3):
        job.alive()
        assert not job.second(seconds=MAX_SILENT_S - 1.0, wait=True)
    job.second(seconds=1.0, wait=True)
    why = f"its program made no progress for {MAX_SILENT_S:.0f} s"
    assert job.second(seconds=0.0) == {"ps-0": why, "ps-1": why}
    assert job.events(EventKind.HANG) == [(name, why, True) for name in ("ps-0", "ps-1")]
    assert not job.agents["ps-1"].program_exits(ExitReason.KILLED, why).restart
    gone = job.node("ps-1")
    assert (gone.state, gone.exit_reason, gone.message) == ("Failed", "Hang", why)
    assert job.seat("ps-1") is None


def test_a_server_that_asks_for_orders_or_tells_that_it_gets_on_is_not_silent(job: Job) -> None:
    for _ in range(3):
        job.asks("ps-0")
        job.alive("ps-1")
        assert not job.second(seconds=MAX_SILENT_S - 1.0, wait=True)
    assert [job.node(name).state for name in ("ps-0", "ps-1")] == ["Running", "Running"]


def test_a_server_is_not_silent_while_the_master_does_not_run(job: Job) -> None:
    job.alive()
    job.clock.advance(MAX_SILENT_S - 1.0)
    job.master.run_inside(lambda parts: parts.require(ParameterCoordinator).forgive_absence())
    assert not job.second(seconds=MAX_SILENT_S - 1.0, wait=True)
    job.master.restart()
    assert not job.second(seconds=MAX_SILENT_S - 1.0, wait=True)
    assert [job.node(name).state for name in ("ps-0", "ps-1")] == ["Running", "Running"]


def test_a_successor_of_the_master_counts_anew(job: Job) -> None:
    assert job.freeze("ps-1")
    job.master.restart()
    assert not job.second("ps-1")
    answer = job.agents["ps-1"].program_exits(ExitReason.KILLED, "killed by SIGKILL")
    assert answer.restart, "it only knows that it was killed"
