"""What is known of a job: made of its state and of what only a living master knows."""

from __future__ import annotations

import math

import pytest

from pliant.core.job import JobBook, Phase
from pliant.core.job_state import JobState
from pliant.core.nodes.book import NodeBook
from pliant.core.nodes.fault_policy import FaultPolicy
from pliant.core.nodes.states import NodeState, RoleSpec
from pliant.core.planning.cluster.offer import Grant, grant_to_json
from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.planner import Planner
from pliant.core.progress import TrainingProgress, progress_to_json
from pliant.core.shards.book import ShardBook
from pliant.core.shards.datasets import MAX_RECORDS, DatasetSpec
from pliant.core.status import BRAIN_LEADS, GrantStatus, JobStatus, Progress, RoleStatus
from pliant.core.status_builder import LiveFigures, NodeFigures, build_status
from pliant.core.training import TrainingBook
from pliant.rpc.status import status_from_message, status_message


@pytest.fixture
def state() -> JobState:
    nodes = NodeBook({"worker": RoleSpec("worker", 1, 4, 2)}, FaultPolicy())
    state = JobState(job=JobBook(), nodes=nodes, shards=ShardBook(), training=TrainingBook())
    state.job.master_started(100.0)
    nodes.start(100.0)
    return state


def nodes_of(state: JobState) -> NodeBook:
    assert state.nodes is not None
    return state.nodes


def run_workers(state: JobState) -> None:
    for name in ("worker-0", "worker-1"):
        nodes_of(state).accepted(101.0, node=name)
        nodes_of(state).registered(102.0, node=name, agent_pid=7, host="here")


def built(state: JobState, now: float = 200.0, live: LiveFigures | None = None) -> JobStatus:
    return build_status("job", state, now, live or LiveFigures())


def test_a_role_counts_its_nodes_by_state(state: JobState) -> None:
    assert built(state).roles == (RoleStatus("worker", 1, 4, 2, ready=0, pending=2),)
    run_workers(state)
    assert built(state).roles == (RoleStatus("worker", 1, 4, 2, ready=2),)
    nodes_of(state).node_ended(103.0, node="worker-0", exit_reason="Completed", message="")
    found = built(state).role("worker")
    assert found is not None
    assert (found.wanted, found.ready, found.succeeded, found.failed) == (2, 1, 1, 0)


def test_a_suspended_job_is_suspending_until_its_last_node_has_ended(state: JobState) -> None:
    run_workers(state)
    nodes_of(state).suspend(110.0, reason="night")
    status = built(state)
    assert (status.phase, status.reason, status.suspended_at) == (Phase.SUSPENDING, "night", 0.0)
    for number, name in enumerate(("worker-0", "worker-1")):
        nodes_of(state).node_ended(111.0 + number, node=name, exit_reason="Killed", message="")
    status = built(state)
    assert (status.phase, status.suspended_at) == (Phase.SUSPENDED, 112.0)
    nodes_of(state).resume(120.0, reason="day")
    status = built(state)
    assert (status.phase, status.reason, status.suspended_at) == (Phase.RUNNING, "", 0.0)


def test_an_ended_job_says_why_and_has_no_eta(state: JobState) -> None:
    assert state.shards is not None
    state.shards.create(100.0, dataset=DatasetSpec("train", 10, size=100, epochs=2).to_json())
    live = LiveFigures(records_per_second=20.0, training=TrainingProgress(step=5))
    running = built(state, live=live)
    assert (running.progress, running.eta) == (Progress(0, 200, step=5), 10.0)
    state.job.end(150.0, phase="Stopped", reason="enough")
    ended = built(state, live=live)
    assert (ended.phase, ended.reason, ended.message, ended.eta) == (Phase.STOPPED, "enough", "enough", None)
    assert (ended.seconds, running.seconds) == (50.0, 100.0)


def test_the_steps_of_a_training_without_shards_are_its_progress(state: JobState) -> None:
    training = TrainingProgress(40, 160, epoch=1, records_done=1280, records_total=5120, metrics={"loss": 0.5})
    status = built(state, live=LiveFigures(training=training, steps_per_second=10.0, records_per_second=1.0))
    assert status.progress == Progress(1280, 5120, step=40, epoch=1, total_steps=160, metrics={"loss": 0.5})
    assert (status.progress.percent, status.progress.loss, status.eta) == (25.0, 0.5, 12.0)


def test_what_a_training_knows_of_all_its_records_goes_before_the_sums_of_datasets(state: JobState) -> None:
    assert state.shards is not None
    state.shards.create(100.0, dataset=DatasetSpec("eval@3", 10, size=100).to_json())
    training = TrainingProgress(1, 2, records_done=8, records_total=16)
    found = built(state, live=LiveFigures(training=training)).progress
    assert (found.records_done, found.records_total) == (8, 16)


def test_without_a_master_the_progress_is_what_the_journal_has(state: JobState) -> None:
    state.progress.note(
        150.0, progress=progress_to_json(TrainingProgress(7, 9, records_done=70, metrics={"loss": 1.0}))
    )
    copy = JobState(job=JobBook(), nodes=NodeBook({}, FaultPolicy()), shards=ShardBook(), training=TrainingBook())
    copy.restore(state.snapshot())
    assert built(copy).progress == Progress(70, 0, step=7, total_steps=9, metrics={"loss": 1.0})


def test_people_are_told_of_a_refused_change_before_nodes_that_wait(state: JobState) -> None:
    assert built(state).message == ""
    nodes_of(state).accepted(101.0, node="worker-0")
    nodes_of(state).unschedulable(102.0, node="worker-0", message="0/3 machines are free")
    assert built(state).message == "1 node unschedulable: 0/3 machines are free"
    assert built(state, live=LiveFigures(refusal="at most 4")).message == "at most 4"


def test_what_a_node_uses_is_shown_as_long_as_it_lives(state: JobState) -> None:
    run_workers(state)
    figures = NodeFigures(cpu=1.5, memory_mb=64.0, records_per_second=3.0, records=30)
    live = LiveFigures(nodes={"worker-0": figures})
    node = built(state, live=live).nodes[0]
    assert (node.state, node.cpu, node.memory_mb, node.records) == (NodeState.RUNNING, 1.5, 64.0, 30)
    nodes_of(state).node_ended(103.0, node="worker-0", exit_reason="Completed", message="")
    status = built(state, live=live)
    node = status.nodes[0]
    assert (node.ended, node.cpu, node.records_per_second, node.records) == (True, 0.0, 0.0, 30)
    assert [node.name for node in status.live_nodes] == ["worker-1"]


def test_two_statuses_of_the_same_state_are_equal_also_with_metrics_that_are_no_numbers(state: JobState) -> None:
    assert state.training is not None
    state.training.report_metrics(101.0, version=1, metrics={"loss": math.nan, "auc": 0.5})
    copy = JobState(job=JobBook(), nodes=NodeBook({}, FaultPolicy()), shards=ShardBook(), training=TrainingBook())
    copy.restore(state.snapshot())
    assert built(copy) == built(state)
    assert built(state).evaluations[0].metrics == {"loss": None, "auc": 0.5}


def test_the_components_are_those_that_the_job_has(state: JobState) -> None:
    assert built(state).components == ("nodes", "shards", "training")


def test_why_a_job_failed_is_known_after_very_many_other_nodes_have_ended() -> None:
    nodes = NodeBook({"worker": RoleSpec("worker", 10, 10, 10, critical=True)}, FaultPolicy(), keep_ended=3)
    state = JobState(job=JobBook(), nodes=nodes)
    state.job.master_started(100.0)
    nodes.start(100.0)
    while nodes.failure is None:
        node = nodes.live()[0]
        nodes.accepted(101.0, node=node.name)
        nodes.registered(101.0, node=node.name, agent_pid=7, host="here")
        nodes.node_ended(102.0, node=node.name, exit_reason="Error", message="no such file")
    state.job.end(103.0, phase=Phase.FAILED.value, reason=nodes.failure.reason)
    nodes.stop(103.0, reason="it failed")
    for node in nodes.live():
        nodes.node_ended(104.0, node=node.name, exit_reason="Killed", message="")
    assert built(state).message == f"{nodes.failure.reason}: no such file"
    assert len(nodes.nodes()) == 4, "the last three, and the one that the job failed for"


def test_the_progress_of_several_very_large_datasets_fits_the_wire(state: JobState) -> None:
    assert state.shards is not None
    state.shards.open_session(100.0, session="s", node="worker-0", incarnation=0)
    for number, name in enumerate("abc", start=1):
        state.shards.create(100.0, dataset=DatasetSpec(name, MAX_RECORDS // 10, size=MAX_RECORDS).to_json())
        state.shards.exchange(100.0, session="s", request=number, dataset=name, want=1)
    status = built(state)
    assert status.progress.records_total == MAX_RECORDS
    assert status_from_message(status_message(status)).progress == status.progress


def test_a_planner_says_whether_the_brain_leads_and_what_it_granted(state: JobState) -> None:
    assert built(state).optimize == "manual"
    planner = Planner(algorithms=[])
    state = JobState(job=state.job, planner=planner)
    assert built(state).optimize == "single-job"
    led = LiveFigures(brain=BRAIN_LEADS)
    assert built(state, live=led).optimize == "cluster"
    limit = Configuration(Shape(3, 2.0, 512), Shape(1, 0.0, 1024))
    for number, grant, expected in (
        (1, Grant("job", 1, limit, "two jobs", 5.0), GrantStatus(4, 7.0, 2560, "two jobs")),
        (2, Grant("job", 2, None, "others go first"), GrantStatus(0, reason="others go first")),
        (3, Grant("job", 3, None, "no quota", is_unlimited=True), None),
    ):
        planner.granted(100.0 + number, grant=grant_to_json(grant))
        found = built(state, live=led).planner
        assert found is not None
        assert (found.brain, found.grant) == ("leads", expected)
