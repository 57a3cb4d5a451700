"""What stays of a job."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.core.planning.records import RECORDS

from pliant.core.errors import CorruptData
from pliant.core.job import Phase
from pliant.core.nodes.states import NodeState
from pliant.core.status import DatasetStatus, JobStatus, NodeStatus
from pliant.core.summary import JobSummary, exit_code


@pytest.mark.parametrize(("phase", "code"), [("Succeeded", 0), ("Failed", 1), ("Stopped", 130)])
def test_the_exit_code_is_that_of_the_phase(phase: str, code: int) -> None:
    assert exit_code(Phase(phase)) == code


def test_a_summary_is_read_back_as_it_was_written() -> None:
    status = JobStatus(
        "job",
        Phase.FAILED,
        "no workers left",
        started_at=10.0,
        ended_at=25.0,
        nodes=(NodeStatus("worker-1", "worker", NodeState.FAILED, replaces="worker-0"),),
        datasets=(DatasetStatus("train", records_done=30, records_total=60),),
    )
    metrics = {"loss": None, "auc": 0.5}
    summary = JobSummary(status, restarts=2, replacements=1, metrics=metrics, evaluation=metrics, plans=RECORDS)
    summary = replace(summary, left_out=("events",))
    value = json.loads(json.dumps(summary.to_json()))
    assert JobSummary.from_json(value) == summary
    assert (value["seconds"], value["records_done"], value["average_records_per_second"]) == (15.0, 30, 2.0)
    assert (value["exit_code"], value["restarts"], value["replacements"], value["best"]) == (1, 2, 1, None)


@pytest.mark.parametrize(
    "value",
    [{}, {"phase": "Running away"}, {"phase": "Failed", "name": "j", "nodes": [1]}, {"phase": "Failed", "metrics": 3}],
)
def test_what_is_no_summary_is_corrupt(value: dict[str, object]) -> None:
    with pytest.raises(CorruptData):
        JobSummary.from_json(value)
