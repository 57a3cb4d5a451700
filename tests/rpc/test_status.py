"""A job's status on the wire."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.status_values import job_statuses

from pliant.core.job import Phase
from pliant.core.status import EvaluationStatus, JobStatus
from pliant.core.status_json import status_to_json
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.status import status_from_message, status_message

METRICS = st.none() | st.floats(allow_nan=False, allow_infinity=False)


@settings(deadline=None)
@given(job_statuses(METRICS))
def test_a_status_arrives_as_it_was_sent(status: JobStatus) -> None:
    sent = status_message(status).SerializeToString()
    assert status_from_message(pb.JobStatus.FromString(sent)) == status


def test_every_field_of_the_message_has_a_value_of_the_model() -> None:
    """A field that is added to the proto alone would always be empty."""
    fields = {field.name for field in pb.JobStatus.DESCRIPTOR.fields}
    assert fields == set(JobStatus.__slots__)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_metric_that_is_no_finite_number_is_none_on_arrival(value: float) -> None:
    message = pb.JobStatus(name="job", phase="PHASE_RUNNING", evaluations=[pb.EvaluationResult(version=1)])
    message.evaluations[0].metrics["loss"] = value
    (found,) = status_from_message(message).evaluations
    assert found == EvaluationStatus(1, {"loss": None}, 0)


def test_what_is_not_set_is_absent_on_arrival() -> None:
    found = status_from_message(status_message(JobStatus("job", Phase.RUNNING)))
    assert (found.best, found.first_failure, found.world, found.parameters) == (None, None, None, None)
    assert (found.eta, found.goodput, found.last_plan) == (None, None, None)


def whole_numbers(message: Any) -> set[str]:
    found = {field.name for field in message.fields if field.cpp_type == field.CPPTYPE_INT64}
    for field in message.fields:
        if field.message_type is not None:
            found |= whole_numbers(field.message_type)
    return found


def test_every_whole_number_of_a_status_is_a_number_in_json() -> None:
    names = whole_numbers(pb.JobStatus.DESCRIPTOR)
    status = pb.JobStatus(
        phase="PHASE_RUNNING",
        progress=pb.Progress(step=1),
        nodes=[pb.NodeStatus(state="NODE_STATE_RUNNING", pid=1, agent_pid=2, records=3)],
        datasets=[
            pb.DatasetStatus(type="SHARD_TYPE_TRAIN", records_done=1 << 60, parked=[pb.ParkedShard(start=1, end=2)])
        ],
        world=pb.World(round=4, members=[pb.Member(step=5)]),
    )

    def check(value: object) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                assert key not in names or isinstance(inner, int | list), f"{key} is {inner!r}"
                check(inner)
        elif isinstance(value, list):
            for inner in value:
                check(inner)

    check(status_to_json(status_from_message(status)))
