from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pliant.core.errors import InvalidRequest, SessionExpired
from pliant.core.nodes.fault_policy import ExitReason
from pliant.master.components.rendezvous import RendezvousServer
from pliant.master.components.signals import ProgramStopped
from pliant.rpc import pliant_pb2 as pb
from pliant.testing import FakeAgent, ManualClock, RunningMaster, wait_until
from pliant.testing.waiting import MAX_WAIT_S

JOB = {
    "strategy": "allreduce",
    "roles": {"worker": {"command": ["true"], "replicas": "1:3"}},
    "components": {"need_task_manager": False},
    "rendezvous": {"min": 2, "max": 3, "wait_seconds": 5.0},
}


class RendezvousClient:
    def __init__(self, master: RunningMaster, clock: ManualClock) -> None:
        self.master = master
        self.clock = clock
        self._stubs = master.client.stubs.rendezvous

    def join(self, member: str, incarnation: str = "0", **fields: Any) -> None:
        request = pb.JoinRequest(member=member, incarnation=incarnation, **fields)
        self.master.client.call(self._stubs.Join, request)

    def leave(self, member: str, incarnation: str = "0") -> None:
        self.master.client.call(self._stubs.Leave, pb.LeaveRequest(member=member, incarnation=incarnation))

    def world(self, member: str, incarnation: str = "0") -> pb.GetWorldReply:
        request = pb.GetWorldRequest(member=member, incarnation=incarnation)
        reply: pb.GetWorldReply = self.master.client.call(self._stubs.GetWorld, request, timeout=MAX_WAIT_S)
        return reply

    def hold_calls(self, seconds: float) -> None:
        """From now on the master answers a call that waits for something after this time."""
        self.master.run_inside(lambda parts: setattr(parts, "max_wait_s", seconds))

    def names(self, member: str) -> list[str]:
        return [m.name for m in self.world(member).world.members]

    def start_asking(self, member: str) -> Any:
        """Begin to wait for a world; gives the call."""
        request = pb.GetWorldRequest(member=member, incarnation="0")
        return self.master.client.start(self._stubs.GetWorld, request, timeout=MAX_WAIT_S)

    def start_watching(self, round: int, waiting: int = 0) -> Any:
        request = pb.WatchRoundRequest(round=round, known_waiting=waiting)
        return self.master.client.start(self._stubs.WatchRound, request, timeout=MAX_WAIT_S)

    def passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.master.run_inside(lambda parts: parts.woken.set())


@pytest.fixture
def rendezvous(tmp_path: Path) -> Iterator[RendezvousClient]:
    clock = ManualClock()
    with RunningMaster(tmp_path, JOB, clock=clock) as master:
        wait_until(lambda: len(master.platform.running()) == 3)
        made = RendezvousClient(master, clock)
        made.hold_calls(MAX_WAIT_S)
        yield made


def test_a_world_is_formed_at_once_when_all_that_are_expected_are_there(rendezvous: RendezvousClient) -> None:
    asking = rendezvous.start_asking("worker-0")
    assert asking.result(timeout=MAX_WAIT_S).state == pb.WORLD_STATE_REJOIN, "it has not joined yet"
    for number in range(3):
        rendezvous.join(f"worker-{number}", attrs={"address": f"10.0.0.{number}"}, step=number)
    reply = rendezvous.world("worker-1")
    assert (reply.state, reply.world.round) == (pb.WORLD_STATE_FORMED, 1)
    assert [m.name for m in reply.world.members] == ["worker-2", "worker-0", "worker-1"], "the newest step leads"
    assert dict(reply.world.members[1].attrs) == {"address": "10.0.0.0"}
    assert rendezvous.world("worker-0").world == rendezvous.world("worker-2").world == reply.world


def test_those_who_wait_are_woken_when_the_time_for_others_is_over(rendezvous: RendezvousClient) -> None:
    rendezvous.join("worker-0")
    rendezvous.join("worker-1")
    rendezvous.hold_calls(0.1)
    assert rendezvous.world("worker-0").state == pb.WORLD_STATE_WAITING
    rendezvous.hold_calls(MAX_WAIT_S)
    asking = [rendezvous.start_asking(f"worker-{n}") for n in range(2)]
    rendezvous.passes(6)
    worlds = [call.result(timeout=MAX_WAIT_S).world for call in asking]
    assert worlds[0] == worlds[1]
    assert [m.name for m in worlds[0].members] == ["worker-0", "worker-1"]


def test_a_world_is_broken_by_the_death_of_a_members_program_and_watchers_are_told(
    rendezvous: RendezvousClient,
) -> None:
    agents = [FakeAgent(rendezvous.master.client, f"worker-{n}").starts() for n in range(3)]
    for agent in agents:
        rendezvous.join(agent.node)
    assert rendezvous.names("worker-0") == ["worker-0", "worker-1", "worker-2"]
    watching = rendezvous.start_watching(1)
    agents[1].program_exits(ExitReason.KILLED, "killed by SIGKILL")
    status = watching.result(timeout=MAX_WAIT_S)
    assert (status.intact, list(status.missing)) == (False, ["worker-1"])
    assert rendezvous.world("worker-0").state == pb.WORLD_STATE_REJOIN
    assert rendezvous.world("worker-1").state == pb.WORLD_STATE_EXPELLED
    rendezvous.join("worker-0", after=1)
    rendezvous.join("worker-2", after=1)
    assert rendezvous.names("worker-2") == ["worker-0", "worker-2"], "survivors do not wait for others"


def test_a_joiner_shows_up_to_the_members_and_disturbs_nobody(rendezvous: RendezvousClient) -> None:
    rendezvous.join("worker-0")
    rendezvous.join("worker-1")
    rendezvous.passes(6)
    assert rendezvous.world("worker-0").state == pb.WORLD_STATE_FORMED
    watching = rendezvous.start_watching(1)
    rendezvous.join("worker-2")
    status = watching.result(timeout=MAX_WAIT_S)
    assert (status.intact, status.waiting) == (True, 1)
    assert rendezvous.names("worker-0") == ["worker-0", "worker-1"]


def test_a_member_that_left_is_out_for_good_and_a_new_life_of_it_is_not(rendezvous: RendezvousClient) -> None:
    rendezvous.join("worker-0")
    rendezvous.leave("worker-0")
    with pytest.raises(SessionExpired, match="it has left"):
        rendezvous.join("worker-0")
    rendezvous.join("worker-0", incarnation="1")
    rendezvous.hold_calls(0.1)
    assert rendezvous.world("worker-0").state == pb.WORLD_STATE_EXPELLED
    assert rendezvous.world("worker-0", "1").state == pb.WORLD_STATE_WAITING


def test_limits_can_be_changed_while_it_runs_but_not_to_nonsense(rendezvous: RendezvousClient) -> None:
    set_limits = rendezvous.master.client.stubs.rendezvous.SetLimits
    rendezvous.join("worker-0")
    asking = rendezvous.start_asking("worker-0")
    rendezvous.master.client.call(set_limits, pb.SetLimitsRequest(min_nodes=1, max_nodes=1))
    assert [m.name for m in asking.result(timeout=MAX_WAIT_S).world.members] == ["worker-0"]
    before = rendezvous.master.state()
    with pytest.raises(InvalidRequest):
        rendezvous.master.client.call(set_limits, pb.SetLimitsRequest(min_nodes=3, max_nodes=2))
    assert rendezvous.master.state() == before


def test_a_world_survives_a_restart_of_the_master(rendezvous: RendezvousClient) -> None:
    for number in range(3):
        rendezvous.join(f"worker-{number}")
    before = rendezvous.world("worker-0").world
    rendezvous.master.restart()
    assert rendezvous.world("worker-2").world == before
    assert rendezvous.start_watching(1, waiting=7).result(timeout=MAX_WAIT_S).intact


def test_those_who_wait_are_told_when_the_job_is_over(rendezvous: RendezvousClient) -> None:
    rendezvous.join("worker-0")
    asking = rendezvous.start_asking("worker-0")
    rendezvous.master.platform.make_stubborn("worker-0")
    rendezvous.master.client.call(rendezvous.master.client.stubs.job.Stop, pb.StopRequest(reason="enough"))
    reply = asking.result(timeout=MAX_WAIT_S)
    assert (reply.state, "ending" in reply.reason) == (pb.WORLD_STATE_CLOSED, True)


def test_a_small_world_is_formed_when_fewer_workers_are_expected(rendezvous: RendezvousClient) -> None:
    rendezvous.join("worker-0")
    rendezvous.join("worker-1")
    asking = rendezvous.start_asking("worker-1")
    rendezvous.master.client.call(rendezvous.master.client.stubs.job.Scale, pb.ScaleRequest(role="worker", replicas=2))
    assert [m.name for m in asking.result(timeout=MAX_WAIT_S).world.members] == ["worker-0", "worker-1"]


def test_a_member_that_falls_silent_is_out_and_a_stranger_that_asked_is_nobody(rendezvous: RendezvousClient) -> None:
    for number in range(3):
        rendezvous.join(f"worker-{number}")
    assert rendezvous.names("worker-0") == ["worker-0", "worker-1", "worker-2"]
    for stranger in ("", "x" * 300, "nobody"):
        assert rendezvous.world(stranger).state == pb.WORLD_STATE_REJOIN
    watching = rendezvous.start_watching(1)
    rendezvous.clock.advance(29)
    assert rendezvous.world("worker-0").state == rendezvous.world("worker-2").state == pb.WORLD_STATE_FORMED
    rendezvous.passes(2)
    status = watching.result(timeout=MAX_WAIT_S)
    assert list(status.missing) == ["worker-1"]
    rendezvous.passes(100)
    assert rendezvous.master.status().phase == "Running"


def test_members_learn_that_virtual_workers_were_assigned_and_the_next_world_has_them(
    rendezvous: RendezvousClient,
) -> None:
    names = [f"worker-{number}" for number in range(3)]
    for name in names:
        rendezvous.join(name, attrs={"virtual_workers": "8"})
    assert list(rendezvous.world("worker-0").world.seats) == [3, 3, 2]
    watching = rendezvous.start_watching(1)
    client = rendezvous.master.client
    wrong = pb.AssignSeatsRequest(seats={"worker-0": 8})
    with pytest.raises(InvalidRequest, match="no virtual workers given for worker-1, worker-2"):
        client.call(client.stubs.job.AssignSeats, wrong)
    asked = pb.AssignSeatsRequest(seats={"worker-0": 1, "worker-1": 5, "worker-2": 2}, id="r1")
    for _ in range(2):
        reply = client.call(client.stubs.job.AssignSeats, asked)
        assert (reply.virtual_workers, dict(reply.seats)) == (8, dict(asked.seats))
    status = watching.result(timeout=10)
    assert (status.intact, status.outdated) == (True, True)
    for name in names:
        rendezvous.join(name, attrs={"virtual_workers": "8"}, after=1)
    assert list(rendezvous.world("worker-0").world.seats) == [1, 5, 2]


def suspect(rendezvous: RendezvousClient, member: str) -> None:
    request = pb.SuspectRequest(round=1, member=member, incarnation="0")
    rendezvous.master.client.call(rendezvous.master.client.stubs.rendezvous.Suspect, request)


def formed(rendezvous: RendezvousClient) -> None:
    for number in range(3):
        rendezvous.join(f"worker-{number}")
    assert len(rendezvous.names("worker-1")) == 3


def is_intact(rendezvous: RendezvousClient) -> bool:
    return bool(rendezvous.master.run_inside(lambda parts: parts.require(RendezvousServer).book.status(1).intact))


def stopped(rendezvous: RendezvousClient, member: str, seconds: float) -> None:
    rendezvous.master.run_inside(lambda parts: parts.signals.publish(ProgramStopped(member, seconds)))


@pytest.mark.parametrize("first", ["the suspicion", "the stop"])
def test_a_stopped_program_is_out_as_soon_as_its_peers_miss_it(rendezvous: RendezvousClient, first: str) -> None:
    formed(rendezvous)
    if first == "the stop":
        stopped(rendezvous, "worker-2", 0.2)
        assert is_intact(rendezvous), "nobody misses it yet"
    suspect(rendezvous, "worker-0")
    if first == "the suspicion":
        assert is_intact(rendezvous), "nothing speaks against anybody"
        stopped(rendezvous, "worker-2", 0.2)
    assert not is_intact(rendezvous)


def test_a_suspicion_asks_all_members_for_a_sign_of_life(rendezvous: RendezvousClient) -> None:
    formed(rendezvous)
    request = pb.WatchRoundRequest(round=1, known_waiting=0, known_probe=0)
    watching = rendezvous.master.client.start(
        rendezvous.master.client.stubs.rendezvous.WatchRound, request, timeout=MAX_WAIT_S
    )
    suspect(rendezvous, "worker-0")
    status = watching.result(timeout=MAX_WAIT_S)
    assert (status.intact, status.probe) == (True, 1)


@pytest.mark.parametrize(
    "request_", [pb.SuspectRequest(round=7, member="worker-0"), pb.SuspectRequest(round=1, member="stranger")]
)
def test_a_suspicion_of_a_stranger_or_of_another_round_changes_nothing(
    rendezvous: RendezvousClient, request_: pb.SuspectRequest
) -> None:
    formed(rendezvous)
    rendezvous.master.client.call(rendezvous.master.client.stubs.rendezvous.Suspect, request_)
    stopped(rendezvous, "worker-2", 0.2)
    assert is_intact(rendezvous)
