"""The planner of a real master, on a platform in memory: what it does before nodes run, and who it gives way to."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pliant.core.changes import ChangeRequest, RequestSource, Scale, Suspend
from pliant.core.events import EventKind
from pliant.core.nodes.capacity import Machine
from pliant.core.planning.algorithms.create_from_history import CreateFromHistory
from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.history import JobHistory
from pliant.core.planning.past_jobs import PastJob, fingerprint
from pliant.core.planning.plan_record import Outcome
from pliant.core.planning.planner import PlannerState
from pliant.core.planning.proposal import Proposal
from pliant.master.components.changes import ChangeHandler
from pliant.master.components.planning import planner as planning
from pliant.master.components.planning.past_jobs import MAX_KEPT, PastJobs
from pliant.master.components.planning.planner import ResourcePlanner
from pliant.master.controller import JobController
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.events import event_from
from pliant.testing import wait_until
from pliant.testing.platform import FakePlatform
from pliant.testing.running import RunningMaster

COMMAND = ("python", "train.py")
MARK = fingerprint("none", COMMAND, "tested")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLIANT_HOME", str(tmp_path))
    return tmp_path


def spec(replicas: Any = "1:9", **optimize: Any) -> dict[str, Any]:
    worker: dict[str, Any] = {"command": list(COMMAND)}
    if replicas is not None:
        worker["replicas"] = replicas
    return {"roles": {"worker": worker}, "optimize": {"mode": "single-job", "interval": 0.1, **optimize}}


def look(master: RunningMaster, read: Callable[[ResourcePlanner], Any]) -> Any:
    def call(controller: JobController) -> Any:
        return read(controller.require(ResourcePlanner))

    return master.run_inside(call)


def past(workers: int, *, ended: float = 1000.0, memory: float = 100.0) -> PastJob:
    return PastJob(MARK, ended, True, Configuration(Shape(workers)), 50.0, memory)


def test_a_job_begins_between_its_bounds_and_no_node_is_launched_for_nothing(tmp_path: Path) -> None:
    platform = FakePlatform()
    with RunningMaster(tmp_path, spec(), platform=platform) as master:
        wait_until(lambda: platform.launched, what="the first nodes")
        [plan] = look(master, lambda planner: planner.plans())
        assert (plan.proposal.algorithm, plan.outcome) == ("create_from_history", Outcome.KEPT)
        planned = plan.proposal.configuration.worker.replicas
        assert 1 < planned < 9
        wait_until(lambda: len(platform.launched) == planned, what="all of them")


def test_a_job_that_nobody_knows_begins_near_the_number_of_cores(tmp_path: Path) -> None:
    platform = FakePlatform(largest=Machine(2, 8000, 0))
    with RunningMaster(tmp_path, spec("1:64"), platform=platform) as master:
        wait_until(lambda: platform.launched, what="the first nodes")
        [plan] = look(master, lambda planner: planner.plans())
        assert 1 < plan.proposal.configuration.worker.replicas <= 8


def test_a_job_begins_with_what_a_similar_one_ended_with(tmp_path: Path, home: Path) -> None:
    PastJobs(home / "history", MARK).remember(past(7))
    platform = FakePlatform()
    with RunningMaster(tmp_path, spec(), platform=platform):
        wait_until(lambda: len(platform.launched) == 7, what="as many nodes as the earlier job had")
        assert platform.nodes["worker-0"].launch.resources.memory_mb == 0, "nobody asked for a limit"


def test_bounds_that_leave_no_choice_are_no_plan_and_stay_so(tmp_path: Path) -> None:
    """Also while no node runs yet: a plan for the first configuration would replace what is being launched."""
    platform = FakePlatform(largest=Machine(4, 8000, 0))
    with RunningMaster(tmp_path, spec("3:3"), platform=platform) as master:
        wait_until(lambda: len(platform.launched) == 3, what="the nodes")
        wait_until(lambda: look(master, lambda planner: planner._periods.settling_since) is not None, what="samples")
        assert look(master, lambda planner: planner.plans()) == ()
        assert len(platform.launched) == 3


def test_a_given_number_to_begin_with_is_taken(tmp_path: Path) -> None:
    platform = FakePlatform()
    with RunningMaster(tmp_path, spec({"min": 1, "max": 9, "wanted": 5}), platform=platform) as master:
        wait_until(lambda: len(platform.launched) == 5, what="the nodes")
        assert look(master, lambda planner: planner.plans()) == ()


def test_a_request_of_a_person_pauses_the_planner_and_survives_the_master(tmp_path: Path) -> None:
    platform = FakePlatform()
    with RunningMaster(tmp_path, spec(), platform=platform) as master:
        wait_until(lambda: platform.launched, what="the first nodes")
        request = ChangeRequest("mine", RequestSource.PERSON, (Scale("worker", 2),), "I know better")
        master.run_inside(lambda controller: controller.require(ChangeHandler).handle(request))
        paused = look(master, lambda planner: planner.planner.paused)
        assert paused is not None
        assert "I know better" in paused[1]
        master.state()  # which is on disk then
        master.kill()
        master.start()
        assert look(master, lambda planner: planner.planner.state) is PlannerState.PAUSED


def test_an_unknown_algorithm_keeps_the_master_from_starting(tmp_path: Path) -> None:
    with (
        pytest.raises(Exception, match="unknown algorithm 'nope'"),
        RunningMaster(tmp_path, spec(algorithms=["nope"])),
    ):
        pass


def test_files_that_are_no_history_are_passed_over(home: Path) -> None:
    folder = home / "history"
    jobs = PastJobs(folder, MARK)
    assert jobs.similar() == (), "there is no folder yet"
    jobs.remember(past(4))
    (folder / "0000000000009.000-bad.json").write_text(json.dumps({"fingerprint": 3}))
    (folder / "0000000000009.100-cut.json").write_text('{"ended": ')
    os.mkfifo(folder / "0000000000009.200-pipe.json")
    assert [job.configuration.worker.replicas for job in jobs.similar()] == [4]


def test_only_the_last_jobs_are_kept_newest_first(home: Path) -> None:
    jobs = PastJobs(home / "history", MARK, keeps_memory=False)
    for number in range(MAX_KEPT + 3):
        jobs.remember(past(1 + number, ended=float(number)))
    found = jobs.similar()
    assert len(found) == MAX_KEPT
    assert (found[0].configuration.worker.replicas, found[0].worker_memory_p95_mb) == (MAX_KEPT + 3, 0.0)


def test_a_home_that_cannot_be_written_is_no_failure(home: Path) -> None:
    (home / "history").write_text("a file")
    PastJobs(home / "history", MARK).remember(past(4))
    assert PastJobs(home / "history", MARK).similar() == ()


def test_a_suspension_by_a_person_is_no_reason_to_plan_no_more(tmp_path: Path) -> None:
    platform = FakePlatform()
    with RunningMaster(tmp_path, spec(), platform=platform) as master:
        wait_until(lambda: platform.launched, what="the first nodes")
        request = ChangeRequest("later", RequestSource.PERSON, (Suspend(),), "the machine is needed")
        answer = master.run_inside(lambda controller: controller.require(ChangeHandler).handle(request))
        assert not answer.refusal
        assert look(master, lambda planner: planner.planner.paused) is None


def test_an_algorithm_that_raises_does_not_keep_a_job_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(CreateFromHistory, "__call__", broken)
    platform = FakePlatform()
    with RunningMaster(tmp_path, spec("1:4"), platform=platform):
        wait_until(lambda: len(platform.launched) == 4, what="as many nodes as the description says")


def test_a_folder_among_past_jobs_keeps_none_from_being_forgotten(home: Path) -> None:
    jobs = PastJobs(home / "history", MARK)
    jobs.remember(past(1, ended=1.0))
    (home / "history" / "0000000000000.000-x.json").mkdir()
    for number in range(MAX_KEPT + 3):
        jobs.remember(past(1, ended=10.0 + number))
    assert len(list((home / "history").iterdir())) <= MAX_KEPT + 1


class Raising:
    def __call__(self, history: JobHistory, now: float) -> Proposal | None:
        raise ValueError("boom")


class Hanging:
    """Until ``leave`` is set; for the tests that ask it, which run in one process."""

    leave = threading.Event()

    def __call__(self, history: JobHistory, now: float) -> Proposal | None:
        self.leave.wait()
        return None


class Growing:
    def __call__(self, history: JobHistory, now: float) -> Proposal | None:
        worker = replace(history.configuration.worker, replicas=9)
        return Proposal("growing", "as many as possible", replace(history.configuration, worker=worker), urgent=True)


def failures(master: RunningMaster) -> list[dict[str, Any]]:
    reply = master.client.call(master.client.stubs.job.GetEvents, pb.EventsRequest())
    return [event_from(event).facts for event in reply.events if event.kind == EventKind.ALGORITHM_FAILED]


def test_an_algorithm_that_raises_is_named_in_an_event_and_the_next_one_is_heard(tmp_path: Path) -> None:
    platform = FakePlatform()
    chain = [f"{__name__}:Raising", f"{__name__}:Growing"]
    with RunningMaster(tmp_path, spec(algorithms=chain), platform=platform) as master:
        wait_until(lambda: len(platform.launched) == 9, what="the plan of the next one")
        [failed] = failures(master)
        assert failed["algorithm"] == chain[0]
        assert "ValueError: boom" in failed["reason"]


def test_an_algorithm_that_hangs_is_given_up_and_keeps_no_master_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "ALGORITHM_LIMIT_S", 0.5)
    Hanging.leave.clear()
    platform = FakePlatform()
    chain = [f"{__name__}:Hanging", f"{__name__}:Growing"]
    try:
        with RunningMaster(tmp_path, spec(algorithms=chain), platform=platform) as master:
            wait_until(lambda: len(platform.launched) == 9, what="the plan of the next one")
            assert failures(master)[0]["reason"] == "did not answer within 0.5 s"
        assert [thread for thread in threading.enumerate() if thread.name == "planning"], "it hangs still"
    finally:
        Hanging.leave.set()
