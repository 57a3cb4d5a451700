"""A trace of a real job becomes a truth that gives back what was measured, and nothing beyond it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.sim.jobs import Scripted, simulate

from pliant.core.errors import CorruptData
from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.history import JobKind
from pliant.sim.run import run_scenario
from pliant.sim.scenario import load_scenario
from pliant.sim.truth.trace import (
    JobLine,
    NodeLine,
    Trace,
    TraceLine,
    TraceTruth,
    configuration_line,
    read_trace,
    write_trace,
)

HEAD = TraceLine(kind="trace", version=1, job="digits", records=100_000)


def job_line(time: float, replicas: int, rate: float, records: int = 0, servers: int = 0) -> JobLine:
    server = Shape(servers, 1.0) if servers else None
    configuration = configuration_line(Configuration(Shape(replicas, 1.0), server))
    return JobLine(kind="job", time=time, records=records, rate=rate, configuration=configuration)


def truth_of(*lines: JobLine | NodeLine) -> TraceTruth:
    jobs = tuple(line for line in lines if isinstance(line, JobLine))
    return TraceTruth.of(Trace(HEAD, jobs, tuple(line for line in lines if isinstance(line, NodeLine))))


def workers(count: int) -> Configuration:
    return Configuration(Shape(count, 1.0))


def test_what_was_measured_is_given_back_and_what_lies_between_is_interpolated() -> None:
    truth = truth_of(job_line(0, 1, 100), job_line(5, 1, 102), job_line(10, 1, 98), job_line(20, 4, 300))
    assert truth.rate_of(workers(1)) == pytest.approx(100)
    assert truth.rate_of(workers(4)) == pytest.approx(300)
    assert 100 < truth.rate_of(workers(2)) < 300


def test_beyond_what_was_tried_nothing_is_gained() -> None:
    truth = truth_of(job_line(0, 2, 100), job_line(5, 4, 180))
    assert truth.rate_of(workers(64)) == pytest.approx(180)
    assert truth.rate_of(workers(1)) == pytest.approx(100)


def test_two_dimensions_are_interpolated_within_what_was_measured() -> None:
    lines = [job_line(0, w, 10.0 * w * s**0.5, servers=s) for w in (1, 4) for s in (1, 4)]
    truth = TraceTruth.of(Trace(HEAD.model_copy(update={"strategy": JobKind.PS_ASYNC}), tuple(lines)))
    for line in lines:
        servers = line.configuration.server
        assert servers is not None
        shape = Configuration(Shape(line.configuration.worker.replicas, 1.0), Shape(servers.replicas, 1.0))
        assert truth.rate_of(shape) == pytest.approx(line.rate, rel=1e-3)
    middle = truth.rate_of(Configuration(Shape(2, 1.0), Shape(2, 1.0)))
    assert 10 < middle < 80


def test_memory_grows_as_it_did() -> None:
    nodes = [
        NodeLine(kind="node", time=t, node="worker-0", role="worker", memory_mb=300 + 4 * t) for t in range(0, 100, 5)
    ]
    jobs = [job_line(t, 1, 1000, records=1000 * t) for t in range(0, 100, 5)]
    truth = truth_of(*jobs, *nodes)
    assert truth.worker_memory.at(0.0) == pytest.approx(300, abs=5)
    assert truth.worker_memory.at(1.0) == pytest.approx(700, abs=10)


def test_a_replayed_job_runs_in_the_simulator() -> None:
    truth = truth_of(job_line(0, 1, 100), job_line(5, 4, 350))
    job = simulate(truth, Scripted(workers(4)))
    assert job.outcome.completion_s == pytest.approx(100_000 / 350 + 20, rel=0.1)


def test_a_trace_is_written_and_read_alike_and_found_beside_its_scenario(tmp_path: Path) -> None:
    lines: list[Any] = [
        job_line(0, 1, 100),
        job_line(9, 2, 190),
        NodeLine(kind="node", time=1, node="worker-0", role="worker", cpu=0.5, memory_mb=100),
    ]
    write_trace(tmp_path / "digits.jsonl", HEAD, lines)
    trace = read_trace(tmp_path / "digits.jsonl")
    assert (trace.head, list(trace.jobs), list(trace.nodes)) == (HEAD, lines[:2], lines[2:])
    (tmp_path / "mine.yaml").write_text("name: mine\njobs: [{trace: {file: digits.jsonl}, workers: {max: 2}}]\n")
    scenario, folder = load_scenario(str(tmp_path / "mine.yaml"))
    run = run_scenario(scenario, folder, policies=["oracle", "static-1"])
    assert run.best_rate == pytest.approx({"job": 190})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the first line must have kind trace"),
        ('{"kind": "job"', "line 1: not JSON"),
        ('{"kind": "nod"}', "line 1: kind"),
        (json.dumps({"kind": "trace", "version": 2, "records": 5}), "line 1: version"),
        (json.dumps({"kind": "trace", "version": 1, "records": 5}), "no line of kind job has a rate above 0"),
        (json.dumps({"kind": "trace", "version": 1, "records": 5}) + '\n{"kind": "job", "time": -1}', "line 2: time"),
    ],
)
def test_a_damaged_trace_is_refused_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "t.jsonl").write_text(text)
    with pytest.raises(CorruptData) as error:
        read_trace(tmp_path / "t.jsonl")
    assert problem in str(error.value)
