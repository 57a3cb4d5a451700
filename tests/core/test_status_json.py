"""A job's status as JSON."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.status_values import job_statuses

from pliant.core.job import Phase
from pliant.core.nodes.states import NodeState
from pliant.core.status import EvaluationStatus, JobStatus, NodeStatus
from pliant.core.status_json import status_from_json, status_to_json


@settings(deadline=None)
@given(job_statuses(st.floats(allow_nan=False, allow_infinity=False)))
def test_a_status_is_read_back_as_it_was_written(status: JobStatus) -> None:
    assert status_from_json(json.loads(json.dumps(status_to_json(status)))) == status


def test_what_is_unknown_is_left_out_and_what_is_missing_has_its_default() -> None:
    value = status_to_json(JobStatus("job", Phase.RUNNING))
    assert not {"first_failure", "world", "parameters", "best", "eta", "goodput", "last_plan"} & set(value)
    assert status_from_json({"name": "job", "phase": "Running", "more": 1}) == JobStatus("job", Phase.RUNNING)


def test_a_metric_that_is_no_number_is_left_out() -> None:
    status = JobStatus("job", Phase.RUNNING, evaluations=(EvaluationStatus(1, {"loss": None, "auc": 0.5}),))
    assert status_to_json(status)["evaluations"] == [{"version": 1, "metrics": {"auc": 0.5}, "records": 0}]


def test_a_node_that_runs_has_an_empty_exit_reason() -> None:
    status = JobStatus("job", Phase.RUNNING, nodes=(NodeStatus("worker-0", "worker", NodeState.RUNNING),))
    (node,) = status_to_json(status)["nodes"]
    assert (node["state"], node["exit_reason"]) == ("Running", "")
