from __future__ import annotations

from pliant.core.job import JobBook
from pliant.core.job_progress import job_progress
from pliant.core.job_state import JobState
from pliant.core.nodes.book import NodeBook
from pliant.core.nodes.fault_policy import FaultPolicy
from pliant.core.nodes.permanent import JobProgress
from pliant.core.nodes.states import RoleSpec
from pliant.core.rendezvous.groups import GroupBook


def a_state() -> JobState:
    nodes = NodeBook({"worker": RoleSpec("worker", 1, 2, 2)}, FaultPolicy())
    nodes.start(0.0)
    return JobState(job=JobBook(), nodes=nodes, groups=GroupBook())


def test_a_job_that_has_just_started_got_nowhere() -> None:
    assert job_progress(a_state()) is JobProgress.NONE
    assert job_progress(JobState(job=JobBook())) is JobProgress.NONE


def test_a_reported_step_or_a_finished_program_is_training() -> None:
    assert job_progress(a_state(), reported_step=1) is JobProgress.TRAINED
    state = a_state()
    assert state.nodes is not None
    state.nodes.node_ended(1.0, node="worker-0", exit_reason="Completed", message="done")
    assert job_progress(state) is JobProgress.TRAINED


def test_programs_of_a_group_that_met_are_connected() -> None:
    state = a_state()
    assert state.groups is not None
    state.groups.form(0.0, role="worker", nodes=["worker-0", "worker-1"], addr="a", port=1, reason="start")
    assert job_progress(state) is JobProgress.NONE
    state.groups.seen(1.0, role="worker", node="worker-0", generation=1)
    assert job_progress(state) is JobProgress.CONNECTED
