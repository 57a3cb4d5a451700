"""A slow worker hosts fewer virtual workers while the job runs: nothing restarts, and the result is the same bit for bit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.torch.training_job import PROGRAM, TrainingJob
from tests.torch.trainer_threads import TrainerThreads, Worker, alone_result, bits

from pliant.core.changes import ChangeRequest, plan_request
from pliant.core.errors import InvalidRequest
from pliant.core.events import EventKind
from pliant.core.planning.plan import ResourcePlan
from pliant.core.status import JobStatus
from pliant.master.components.changes import ChangeHandler
from pliant.master.components.rendezvous import RendezvousServer
from pliant.rpc import pliant_pb2 as pb
from pliant.testing import wait_until
from pliant.torch.worlds.membership import Membership

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

SLOW = "worker-2"
FEWER = {"worker-0": 4, "worker-1": 3, SLOW: 1}


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> TrainingJob:
    """The same training without a job: nobody is slow, nobody dies."""
    job = TrainingJob(tmp_path_factory.mktemp("static"), workers=1, epochs=EPOCHS)
    env = {k: v for k, v in job._env.items() if not k.startswith("PLIANT_")}
    subprocess.run([sys.executable, str(PROGRAM)], env=env, check=True, timeout=100, capture_output=True)
    job.assert_each_record_once()
    return job


EPOCHS = 8


class SlowJob(TrainingJob):
    """Three workers, one of which takes ten times as long for each micro-batch."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, workers=3, epochs=EPOCHS, pace=0.02, slow=f"{SLOW} 0.18")

    def wait_until_all_train(self) -> None:
        self.wait_for(lambda status: len(hosted(status)) == 3 or None, "a world of three")

    def assign(self, seats: dict[str, int]) -> pb.AssignSeatsReply:
        reply: pb.AssignSeatsReply = self.call(
            lambda c: c.stubs.job.AssignSeats, pb.AssignSeatsRequest(seats=seats, reason="a test")
        )
        return reply

    def wait_until_hosted(self, seats: dict[str, int]) -> int:
        """The round from which on it is so."""

        def found(status: JobStatus) -> int | None:
            return status.world.round if status.world is not None and hosted(status) == seats else None

        return self.wait_for(found, f"{seats} to be hosted")

    def units_by_round(self) -> dict[int, set[tuple[tuple[str, int], ...]]]:
        """How many units each worker computed in a step, for the steps that were computed in one world alone."""
        rounds: dict[int, set[int]] = {}
        units: dict[int, Counter[str]] = {}
        for line in self.lines():
            if "unit" in line:
                step = line["unit"][1]
                rounds.setdefault(step, set()).add(line["at"])
                units.setdefault(step, Counter())[line["node"]] += 1
        whole: dict[int, set[tuple[tuple[str, int], ...]]] = {}
        for step, found in rounds.items():
            # the last step of an epoch is short
            if len(found) == 1 and sum(units[step].values()) == 8:
                whole.setdefault(min(found), set()).add(tuple(sorted(units[step].items())))
        return whole

    def pids(self) -> dict[str, int]:
        return dict(Counter(node for node, _ in {(line["node"], line["pid"]) for line in self.lines()}))


def hosted(status: JobStatus) -> dict[str, int]:
    found = {node.name: node.virtual_workers for node in status.nodes if node.virtual_workers}
    assert not found or status.world is not None
    return found


def test_a_slow_worker_is_told_apart_and_hosts_fewer_virtual_workers_by_the_command_line(
    tmp_path: Path, static: TrainingJob
) -> None:
    with SlowJob(tmp_path) as job:
        job.wait_until_all_train()

        def is_told_apart(status: JobStatus) -> bool:
            found = {node.name: node.unit_seconds for node in status.nodes}
            slow = found.pop(SLOW, 0.0)
            return len(found) == 2 and all(found.values()) and slow > 2 * max(found.values())

        job.wait_for(is_told_apart, "a slow worker by the time of a unit")
        before = job.wait_for(lambda status: status, "the status")
        assert sorted(hosted(before).values()) == [2, 3, 3]
        seats = ",".join(f"{node}={count}" for node, count in FEWER.items())
        command = [sys.executable, "-c", "from pliant.cli import main; main()", "scale"]
        where = ["--job-dir", str(job.home.path), "--seats", seats]
        done = subprocess.run([*command, *where, "--json"], env=job._env, check=True, capture_output=True, timeout=60)
        assert json.loads(done.stdout) == {"seats": FEWER}
        first = job.wait_until_hosted(FEWER)
        job.ends_well()
    assert job.hashes() == static.hashes()
    assert set(job.pids().values()) == {1}, "nobody was restarted"
    assert job.summary()["restarts"] == 0
    assert not job.computed_twice()
    units = job.units_by_round()
    assert units[first] == {tuple(sorted(FEWER.items()))}
    assert all(dict(shares)[SLOW] >= 2 for at in units if at < first for shares in units[at])
    changes = [event.message for event in job.events(EventKind.CHANGE)]
    assert any("4 on worker-0, 3 on worker-1, 1 on worker-2" in text for text in changes), changes


def test_the_slow_worker_killed_after_it_changes_nothing(tmp_path: Path, static: TrainingJob) -> None:
    with SlowJob(tmp_path) as job:
        job.wait_until_all_train()
        job.assign(FEWER)
        first = job.wait_until_hosted(FEWER)
        job.wait_for_step(job.committed() + 2)
        job.kill_program(SLOW)
        job.ends_well()
        assert job.summary()["restarts"] == 1
    assert job.hashes() == static.hashes()
    assert {node: count for node, count in job.pids().items() if node != SLOW} == {"worker-0": 1, "worker-1": 1}
    units = job.units_by_round()
    without = [dict(shares) for at in units if at > first for shares in units[at] if len(shares) == 2]
    assert all(shares == {"worker-0": 5, "worker-1": 3} for shares in without), without
    again = [dict(shares) for at in units if at > first for shares in units[at] if len(shares) == 3]
    assert all(shares == FEWER for shares in again), "the same node comes back to what it was assigned"


def test_an_assignment_survives_a_master_that_is_killed_right_after_it(tmp_path: Path, static: TrainingJob) -> None:
    with SlowJob(tmp_path) as job:
        job.wait_until_all_train()
        job.assign(FEWER)
        job.kill_master()
        first = job.wait_until_hosted(FEWER)
        job.ends_well()
        assert job.summary()["master_starts"] == 2
    assert job.hashes() == static.hashes()
    assert set(job.pids().values()) == {1}
    assert job.units_by_round().get(first, {tuple(sorted(FEWER.items()))}) == {tuple(sorted(FEWER.items()))}


def test_a_request_that_does_not_fit_is_refused_and_training_goes_on_as_it_was(
    tmp_path: Path, static: TrainingJob
) -> None:
    with SlowJob(tmp_path) as job:
        job.wait_until_all_train()
        before = job.wait_for(lambda status: status.world, "the world")
        for wrong, message in (({**FEWER, SLOW: 2}, "8 virtual workers, but 9"), ({"worker-7": 8}, "worker-7 not in")):
            with pytest.raises(InvalidRequest, match=message):
                job.assign(wrong)
        job.wait_for_step(job.committed() + 2)
        assert job.wait_for(lambda status: status.world, "the world").round == before.round
        job.ends_well()
    assert job.hashes() == static.hashes()


# --- trainers in threads around a real master, at chosen points


def assign(threads: TrainerThreads, seats: dict[str, int]) -> None:
    """As a plan does."""
    request: ChangeRequest = plan_request(ResourcePlan("plan-1", "a test", seats=seats))
    threads.master.run_inside(lambda parts: parts.require(ChangeHandler).handle(request).check())


def counts_of(worker: Worker) -> dict[int, int]:
    """Units by step."""
    return Counter(step for _, step, _ in worker.computed)


def test_a_plan_takes_effect_at_the_next_step_boundary_in_the_same_process(tmp_path: Path) -> None:
    seats = {"worker-0": 1, "worker-1": 1, "worker-2": 3}
    options: dict[str, Any] = {"virtual_workers": 5}
    with TrainerThreads(tmp_path, workers=3, **options) as threads, threads.points():
        before: dict[str, int] = {}

        def change() -> None:
            before.update(threads.master.run_inside(lambda parts: parts.require(RendezvousServer).book.hosted()))
            assign(threads, seats)
            wait_until(lambda: any(w.trainer._elastic.world.outdated for w in threads.workers), what="word of it")

        threads.workers[0].does(change, "before the collective", step=1)
        threads.start()
        threads.finish()
        threads.assert_each_record_once(38)
        threads.assert_all_equal(bits(alone_result(**options).trainer.model))
        assert sorted(before.values()) == [1, 2, 2]
        # The word may come to a worker that has just reported for step 1. Who leaves for the new world first may break
        # the step of one that is behind, so only a step well after it is surely computed in one world.
        assert {worker.name: counts_of(worker)[4] for worker in threads.workers} == seats


def test_a_worker_that_dies_when_it_enters_the_new_world_changes_nothing(tmp_path: Path) -> None:
    entering = "entering a world"
    with (
        TrainerThreads(tmp_path, workers=3, virtual_workers=5) as threads,
        threads.points(),
        threads._point(Membership, "_enter", entering),
    ):
        victim = threads.workers[1]

        def change() -> None:
            victim.dies(entering)
            assign(threads, {"worker-0": 1, "worker-1": 1, "worker-2": 3})
            wait_until(lambda: any(w.trainer._elastic.world.outdated for w in threads.workers), what="word of it")

        threads.workers[0].does(change, "before the collective", step=1)
        threads.start()
        threads.finish()
        threads.assert_all_equal(bits(alone_result(virtual_workers=5).trainer.model))
        threads.assert_each_record_once(38)
        assert victim.died
        assert [counts_of(worker)[4] for worker in threads.survivors] == [1, 4]
