"""The journal of a master is lost, its workers are not: another master goes on with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pliant.core.errors import MasterUnavailable, NotFound
from pliant.core.events import EventKind
from pliant.core.nodes.fault_policy import ExitReason
from pliant.rpc import pliant_pb2 as pb
from pliant.testing import FakeAgent, FakePlatform, ManualClock, RunningMaster, wait_until

WORKERS = {"worker": {"command": ["train"], "replicas": {"min": 1, "max": 4, "wanted": 3}}}
JOB = {
    "strategy": "allreduce",
    "roles": WORKERS,
    "fault": {"start_timeout": 60, "session_timeout": 30, "heartbeat_timeout": 1000},
}


class Trainee:
    """A worker of an allreduce job: its agent, and the member of worlds in its program."""

    def __init__(self, master: RunningMaster, number: int) -> None:
        self.name = f"worker-{number}"
        self.agent = FakeAgent(master.client, self.name, pid=100 * (number + 1))
        self.world: pb.World | None = None
        self._client = master.client
        self._stubs = master.client.stubs.rendezvous

    def starts(self) -> Trainee:
        self.agent.starts()
        return self

    def joins(self, step: int = 0) -> None:
        after = self.world.round if self.world is not None else 0
        request = pb.JoinRequest(member=self.name, incarnation="x", step=step, after=after)
        self._client.call(self._stubs.Join, request)

    def enters(self) -> pb.World:
        request = pb.GetWorldRequest(member=self.name, incarnation="x")
        reply = self._client.call(self._stubs.GetWorld, request, timeout=20)
        assert reply.state == pb.WORLD_STATE_FORMED, reply
        self.world = reply.world
        return self.world

    def announces(self) -> None:
        assert self.world is not None
        request = pb.AnnounceRequest(member=self.name, incarnation="x", world=self.world, after=self.world.round)
        self._client.call(self._stubs.Announce, request)

    def looks(self) -> pb.RoundStatus:
        assert self.world is not None
        request = pb.WatchRoundRequest(round=self.world.round, known_waiting=-1, member=self.name, incarnation="x")
        status: pb.RoundStatus = self._client.call(self._stubs.WatchRound, request)
        return status

    def announces_its_run(self) -> None:
        """As its agent does when the reply to a heartbeat asks for it."""
        assert self.agent.beats().register
        assert self.agent.announces(rank=int(self.name[-1]), world_size=3).welcome
        assert not self.agent.beats().register


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def master(tmp_path: Path, clock: ManualClock) -> Iterator[RunningMaster]:
    """Three workers train together; then the journal is lost with the master."""
    with RunningMaster(tmp_path, JOB, clock=clock) as master:
        yield master


@pytest.fixture
def workers(master: RunningMaster) -> list[Trainee]:
    wait_until(lambda: len(master.platform.running()) == 3, what="three workers")
    trainees = [Trainee(master, number).starts() for number in range(3)]
    trainees[1].agent.program_exits(ExitReason.KILLED, "killed by SIGKILL")
    trainees[1].agent.program_starts()
    for trainee in trainees:
        trainee.joins()
    assert {trainee.enters().round for trainee in trainees} == {1}
    return trainees


def lose_the_journal(master: RunningMaster) -> None:
    master.takes_over = True
    master.lose_journal().start()
    wait_until(lambda: master.run_inside(lambda parts: parts.state.nodes.started), what="the start")  # type: ignore[union-attr]


def events(master: RunningMaster, kind: EventKind) -> list[str]:
    reply = master.client.call(master.client.stubs.job.GetEvents, pb.EventsRequest())
    return [event.message for event in reply.events if event.kind == kind]


def states(master: RunningMaster) -> dict[str, str]:
    return {node.name: str(node.state) for node in master.status().nodes}


def test_living_workers_go_on_in_their_world_with_their_runs(master: RunningMaster, workers: list[Trainee]) -> None:
    lose_the_journal(master)
    assert states(master) == {f"worker-{number}": "Creating" for number in range(3)}
    for worker in workers:
        worker.announces_its_run()
    with pytest.raises(NotFound):
        workers[0].looks()
    for worker in workers:
        worker.announces()
        assert worker.looks().intact
    status = master.status()
    assert {node.name: node.pid for node in status.nodes} == {"worker-0": 100, "worker-1": 200, "worker-2": 300}
    assert status.world is not None
    assert status.world.round == 1
    assert master.platform.removed == []
    assert master.platform.launched == ["worker-0", "worker-1", "worker-2"]
    [condition] = status.conditions
    assert (condition.type, condition.reason) == ("JournalLost", "TakenOver")
    assert "worker-0, worker-1, worker-2" in condition.message
    assert events(master, EventKind.TAKEN_OVER)
    reply = workers[1].agent.program_exits(ExitReason.KILLED, "killed by SIGKILL")
    assert (reply.restart, reply.incarnation) == (True, 2), "the run after the one that its agent announced"


def test_a_worker_that_died_without_a_master_is_replaced_and_its_peers_go_on_without_it(
    master: RunningMaster, workers: list[Trainee]
) -> None:
    master.kill()
    master.platform.preempt_node("worker-2")
    lose_the_journal(master)
    wait_until(lambda: "worker-3" in master.platform.running(), what="another worker, of a new number")
    for worker in workers[:2]:
        worker.announces_its_run()
    workers[0].announces()
    assert list(workers[0].looks().missing) == ["worker-2"]
    workers[0].joins(step=7)
    workers[1].joins(step=7)
    assert {worker.enters().round for worker in workers[:2]} == {2}


def test_no_world_is_formed_before_all_who_may_be_in_one_have_spoken(
    master: RunningMaster, workers: list[Trainee], clock: ManualClock
) -> None:
    lose_the_journal(master)
    for worker in workers[:2]:
        worker.announces_its_run()
    newcomer = Trainee(master, 0)  # a program that was restarted while there was no master
    newcomer.joins()
    assert master.run_inside(lambda parts: parts.state.rendezvous.awaited) == {"worker-1", "worker-2"}  # type: ignore[union-attr]
    clock.advance(31)
    wait_until(lambda: master.run_inside(lambda parts: not parts.state.rendezvous.awaited), what="the end of the wait")  # type: ignore[union-attr]


def test_an_agent_that_never_announces_itself_is_replaced(
    master: RunningMaster, workers: list[Trainee], clock: ManualClock
) -> None:
    lose_the_journal(master)
    for worker in workers[:2]:
        worker.announces_its_run()
    clock.advance(61)
    wait_until(lambda: states(master).get("worker-3"), what="another worker")
    wait_until(lambda: [removal.node for removal in master.platform.removed] == ["worker-2"], what="its removal")
    assert {name for name, state in states(master).items() if state == "Running"} == {"worker-0", "worker-1"}


def test_a_master_that_dies_again_during_the_takeover_is_followed_by_one_that_knows_what_it_knew(
    master: RunningMaster, workers: list[Trainee]
) -> None:
    lose_the_journal(master)
    workers[0].announces_its_run()
    workers[0].announces()
    master.restart()
    for worker in workers[1:]:
        worker.announces_its_run()
    assert all(worker.looks().intact for worker in workers)
    master.lose_journal().start()
    lose_the_journal(master)
    for worker in workers:
        worker.announces_its_run()
    workers[2].announces()
    assert all(worker.looks().intact for worker in workers)
    assert master.platform.removed == []


def test_training_that_is_over_is_not_begun_again(master: RunningMaster, workers: list[Trainee]) -> None:
    workers[0].agent.program_exits()
    master.platform.finish_node("worker-0")
    lose_the_journal(master)
    for worker in workers[1:]:
        worker.announces_its_run()
    assert master.run_inside(lambda parts: parts.state.rendezvous.closed)  # type: ignore[union-attr]
    for worker in workers[1:]:
        assert not worker.agent.program_exits().restart
        master.platform.finish_node(worker.name)
    assert master.join() == "Succeeded"
    assert master.platform.launched == ["worker-0", "worker-1", "worker-2"]


def test_an_end_is_reported_after_the_node_is_known_again(master: RunningMaster, workers: list[Trainee]) -> None:
    lose_the_journal(master)
    with pytest.raises(MasterUnavailable):
        workers[1].agent.program_exits(ExitReason.KILLED)
    workers[1].announces_its_run()
    assert workers[1].agent.program_exits(ExitReason.KILLED).restart


def test_without_the_operators_word_a_lost_journal_means_to_start_over(tmp_path: Path) -> None:
    platform = FakePlatform()
    with RunningMaster(tmp_path, JOB, platform=platform) as master:
        wait_until(lambda: len(platform.running()) == 3)
        master.lose_journal().start()
        wait_until(lambda: platform.running() == ["worker-3", "worker-4", "worker-5"], what="others")
        [condition] = master.status().conditions
        assert (condition.type, condition.reason) == ("JournalLost", "StartedOver")


@pytest.mark.parametrize("strategy", ["none", "ps-sync"])
def test_workers_that_cannot_know_what_the_journal_knew_are_never_taken_over(tmp_path: Path, strategy: str) -> None:
    roles: dict[str, Any] = {**WORKERS, "ps": {"command": ["serve"]}} if strategy == "ps-sync" else WORKERS
    platform = FakePlatform()
    with RunningMaster(tmp_path, {"strategy": strategy, "roles": roles}, platform=platform) as master:
        wait_until(lambda: "worker-2" in platform.running())
        master.takes_over = True
        master.lose_journal().start()
        wait_until(lambda: "worker-5" in platform.running(), what="others")
        assert "worker-0" not in platform.running()
