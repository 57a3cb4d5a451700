from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from tests.core.planning.histories import usual_history
from tests.core.planning.test_bounds_property import ALGORITHMS, NOW, histories

from pliant.core.planning.algorithms.straggler import Straggler
from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.history import JobHistory, JobKind, NodeView
from pliant.core.planning.proposal import Prediction, Proposal
from pliant.core.planning.proposal_check import MAX_REASON, problem_of

SERVERS = usual_history()
PRESENT = SERVERS.configuration
ALLREDUCE = JobHistory(
    JobKind.ALLREDUCE,
    Configuration(Shape(2, gpu=1)),
    Bounds(RoleBounds(1, 4)),
    virtual_workers=8,
    nodes=(NodeView("worker-0", "worker"), NodeView("worker-1", "worker")),
    pending=("worker-2",),
)


def proposal(**changed: Any) -> Proposal:
    more = replace(PRESENT, worker=replace(PRESENT.worker, replicas=12))
    return replace(Proposal("test", "more workers", more, Prediction(400.0, 300.0, 500.0)), **changed)


def of_nodes(**changed: Any) -> Proposal:
    return Proposal("test", "others", ALLREDUCE.configuration, **changed)


def worker(**changed: Any) -> Configuration:
    return replace(PRESENT, worker=replace(PRESENT.worker, **changed))


def test_sound_proposals_have_no_problem() -> None:
    assert problem_of(proposal(), SERVERS) == ""
    assert problem_of(proposal(prediction=None, moves={"ps-1": 0.5}, replace=("worker-3",)), SERVERS) == ""
    assert problem_of(proposal(prediction=Prediction(np.float64(4.0), np.float64(3.0), 5)), SERVERS) == ""
    assert problem_of(of_nodes(seats={"worker-0": 5, "worker-1": 3}), ALLREDUCE) == ""
    assert problem_of(of_nodes(replace=("worker-2",)), ALLREDUCE) == ""


def test_the_present_configuration_is_sound_even_if_the_bounds_were_lowered_since() -> None:
    lowered = replace(SERVERS, bounds=replace(SERVERS.bounds, worker=RoleBounds(1, 2)))
    assert problem_of(proposal(configuration=PRESENT), lowered) == ""
    assert problem_of(proposal(), lowered).startswith("beyond the bounds of the job")


@pytest.mark.parametrize(
    ("made", "history", "problem"),
    [
        ("8 workers", SERVERS, "proposal is '8 workers', expected an object"),
        (proposal(configuration="many"), SERVERS, "proposal.configuration is 'many', expected an object"),
        (proposal(prediction=Prediction(nan, 1.0, 2.0)), SERVERS, "proposal.prediction.rate is nan"),
        (proposal(prediction=Prediction(1.0, 1.0, inf)), SERVERS, "proposal.prediction.high is inf"),
        (proposal(prediction=Prediction(1.0, 2.0, 3.0)), SERVERS, "the predicted rate 1 and its interval 2 to 3 do not"),
        (proposal(prediction=Prediction(1.0, -1.0, 3.0)), SERVERS, "the predicted rate 1 and its interval -1 to 3"),
        (proposal(prediction=Prediction(1.0, 1.0, 1.0, change_s=-1.0)), SERVERS, "a prediction is negative"),
        (proposal(reason=" "), SERVERS, "the reason is empty"),
        (proposal(reason="x" * (MAX_REASON + 1)), SERVERS, f"the reason has {MAX_REASON + 1} characters"),
        (proposal(reason="fine\x1b[2J"), SERVERS, "the reason has line ends or control characters"),
        (proposal(reason="one\ntwo"), SERVERS, "the reason has line ends or control characters"),
        (proposal(configuration=worker(replicas=33)), SERVERS, "beyond the bounds of the job: workers 33"),
        (proposal(configuration=worker(replicas=-1)), SERVERS, "proposal.configuration.worker.replicas is -1"),
        (proposal(configuration=worker(replicas=2.5)), SERVERS, "proposal.configuration.worker.replicas is 2.5"),
        (proposal(configuration=worker(cpu=nan)), SERVERS, "proposal.configuration.worker.cpu is nan"),
        (proposal(configuration=worker(cpu=-1.0)), SERVERS, "8 x (-1 CPU, 2048 MB) for role worker is out of range"),
        (proposal(configuration=worker(gpu=1)), SERVERS, "1 instead of 0 GPU for each worker: GPUs cannot be changed"),
        (proposal(configuration=replace(PRESENT, server=None)), SERVERS, "role ps is missing"),
        (proposal(configuration=replace(PRESENT, micro_batch=10**10)), SERVERS, "a micro-batch of 10000000000 records"),
        (proposal(moves={"ps-9": 0.5}), SERVERS, "servers with partitions to move do not exist: ps-9"),
        (proposal(moves={"worker-1": 0.5}), SERVERS, "servers with partitions to move do not exist: worker-1"),
        (proposal(moves={"ps-1": 1.5}), SERVERS, "the share 1.5 of the partitions of ps-1 is not between 0 and 1"),
        (proposal(moves={3: 0.5}), SERVERS, "a key is int, not str"),
        (proposal(replace=("worker-99",)), SERVERS, "nodes to replace do not exist: worker-99"),
        (proposal(replace=("worker-1", "worker-1")), SERVERS, "a node to replace is named twice"),
        (proposal(urgent={1}), SERVERS, "set has no JSON form"),
        (of_nodes(seats={"worker-0": 5}), ALLREDUCE, "5 virtual workers are assigned, the job has 8"),
        (of_nodes(seats={"worker-0": 5, "worker-2": 3}), ALLREDUCE, "workers with virtual workers do not exist: worker-2"),
        (of_nodes(seats={"worker-0": 9, "worker-1": -1}), ALLREDUCE, "proposal.seats['worker-1'] is -1"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_proposal_is_named(made: Any, history: JobHistory, problem: str) -> None:
    assert problem_of(made, history).startswith(problem)


def test_a_proposal_that_contains_itself_is_a_problem_and_no_crash() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert problem_of(proposal(replace=endless), SERVERS) == "the proposal is nested too deeply"


def test_without_a_maximum_of_the_bounds_numbers_still_end_somewhere() -> None:
    open_ended = replace(SERVERS, bounds=Bounds(RoleBounds(1, 100), RoleBounds(1, 8)))
    assert problem_of(proposal(configuration=worker(cpu=1e6)), open_ended).endswith("is out of range")
    assert problem_of(proposal(configuration=worker(memory_mb=10**12)), open_ended).endswith("is out of range")


@given(histories())
def test_whatever_a_built_in_algorithm_proposes_is_sound(history: JobHistory) -> None:
    for each in ALGORITHMS:
        made = each(history, NOW)
        assert made is None or problem_of(made, history) == ""


def test_the_reason_is_short_however_many_stragglers_a_large_job_has() -> None:
    nodes = tuple(
        NodeView(f"worker-{i}", "worker", unit_seconds=9.0 if i < 400 else 1.0, virtual_workers=1, age_s=100.0)
        for i in range(1000)
    )
    history = replace(ALLREDUCE, configuration=Configuration(Shape(1000)), nodes=nodes, virtual_workers=1000)
    made = Straggler()(history, NOW)
    assert made is None or problem_of(made, history) == ""
    history = replace(history, virtual_workers=4000, nodes=tuple(replace(node, virtual_workers=4) for node in nodes))
    made = Straggler()(history, NOW)
    assert made is not None
    assert problem_of(made, history) == ""
    assert "worker-0, worker-1, " in made.reason
    assert "and 392 more need up to 9.0 times as long" in made.reason
