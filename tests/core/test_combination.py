"""When workers that seem to succeed did not work together, and when nothing is said."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pliant.core.combination import MIN_RUN_S, independent_workers, separate_models
from pliant.core.end_policy import end_of_job
from pliant.core.job import JobBook
from pliant.core.job_state import JobState
from pliant.core.nodes.book import NodeBook
from pliant.core.nodes.fault_policy import FaultPolicy
from pliant.core.nodes.states import RoleSpec
from pliant.core.parameters.book import ParameterBook
from pliant.core.parameters.options import PsOptions
from pliant.core.rendezvous.book import Limits, RendezvousBook
from pliant.core.rendezvous.groups import GroupBook
from pliant.core.shards.book import ShardBook
from pliant.core.shards.datasets import DatasetSpec

NAMES = ("worker-0", "worker-1", "worker-2")


@pytest.fixture
def state() -> JobState:
    nodes = NodeBook({"worker": RoleSpec("worker", 1, 3, 3)}, FaultPolicy())
    state = JobState(
        job=JobBook(),
        nodes=nodes,
        groups=GroupBook(),
        shards=ShardBook(),
        rendezvous=RendezvousBook(Limits(1, 3)),
    )
    nodes.start(0.0)
    for name in NAMES:
        nodes.accepted(0.0, node=name)
        nodes.registered(0.0, node=name, agent_pid=1, host="")
    return state


def trains_alone(state: JobState, *names: str) -> None:
    for name in names:
        state.job.trains_alone(1.0, node=name)


def finish(state: JobState, seconds: float = MIN_RUN_S) -> None:
    assert state.nodes is not None
    for name in NAMES:
        state.nodes.node_ended(seconds, node=name, exit_reason="Completed", message="finished")


def lease(state: JobState) -> None:
    assert state.shards is not None
    state.shards.create(0.0, dataset=DatasetSpec("train", 5, size=5).to_json())
    state.shards.open_session(0.0, session="s", node="worker-0", incarnation=0)
    state.shards.exchange(0.0, session="s", request=1, dataset="train", want=1)
    state.shards.exchange(0.0, session="s", request=2, dataset="train", want=0, done=[1])


def connect(state: JobState) -> None:
    assert state.groups is not None
    state.groups.form(0.0, role="worker", nodes=list(NAMES), addr="127.0.0.1", port=20_000, reason="start")
    state.groups.seen(0.0, role="worker", node="worker-0", generation=1)


def form_a_world(state: JobState) -> None:
    assert state.rendezvous is not None
    for name in NAMES:
        state.rendezvous.join(0.0, member=name, incarnation="a", attrs={}, step=0, after=0)
    assert state.rendezvous.world is not None


def test_two_workers_that_each_update_a_model_are_said_to_train_separate_ones(state: JobState) -> None:
    trains_alone(state, "worker-0")
    assert not separate_models(state), "one worker may do so"
    trains_alone(state, "worker-2")
    told = separate_models(state)
    assert told.startswith("3 workers train without exchanging gradients: each has a model of its own.")
    assert "pliant.torch.Trainer" in told
    assert "job.combines = True" in told


def test_a_worker_that_replaced_another_is_not_a_second_one(state: JobState) -> None:
    assert state.nodes is not None
    trains_alone(state, "worker-0", "worker-1")
    state.nodes.node_ended(2.0, node="worker-0", exit_reason="Killed", message="")
    assert not separate_models(state)


@pytest.mark.parametrize("combine", [connect, form_a_world])
def test_workers_that_met_are_not_warned_of(state: JobState, combine: Callable[[JobState], None]) -> None:
    combine(state)
    trains_alone(state, *NAMES)
    assert not separate_models(state)
    finish(state)
    assert not independent_workers(state)


def test_with_parameter_servers_workers_are_combined() -> None:
    nodes = NodeBook({"worker": RoleSpec("worker", 1, 3, 3)}, FaultPolicy())
    state = JobState(
        job=JobBook(), nodes=nodes, parameters=ParameterBook(PsOptions(sync=True, batch=4, partitions=16), 1)
    )
    trains_alone(state, *NAMES)
    assert not separate_models(state)


def test_workers_that_never_met_and_took_no_shard_ran_the_whole_program_each(state: JobState) -> None:
    finish(state)
    assert independent_workers(state).startswith("3 workers ran the whole program each: none requested a shard")


def test_programs_too_short_to_have_been_seen_and_those_with_shards_are_not_warned_of(state: JobState) -> None:
    finish(state, MIN_RUN_S - 0.1)
    assert not independent_workers(state)


def test_workers_that_shared_shards_are_not_independent(state: JobState) -> None:
    lease(state)
    finish(state)
    assert not independent_workers(state)


@pytest.mark.parametrize(
    ("work", "reason"), [(lease, ", all shards done"), (form_a_world, ""), (lambda state: None, "")]
)
def test_the_end_of_a_job_speaks_of_shards_only_if_it_had_some(
    state: JobState, work: Callable[[JobState], None], reason: str
) -> None:
    work(state)
    finish(state)
    end = end_of_job(state)
    assert end is not None
    assert end.reason == f"all workers finished{reason}"


def test_a_warning_is_given_once_and_survives_the_master(state: JobState) -> None:
    assert state.job.warn(5.0, kind="SeparateModels", message="told")
    assert not state.job.warn(6.0, kind="SeparateModels", message="again")
    trains_alone(state, "worker-1")
    other = JobBook()
    other.restore(state.job.snapshot())
    assert other.snapshot() == state.job.snapshot()
