"""A running job becomes a trace: only what has settled, with the rate between two statuses."""

from __future__ import annotations

from dataclasses import replace

from pliant.core.job import Phase
from pliant.core.nodes.states import NodeState
from pliant.core.planning.history import JobKind
from pliant.core.status import JobStatus, NodeStatus, ParametersStatus, Progress, RoleStatus
from pliant.sim.recording import TraceRecorder
from pliant.sim.truth.trace import JobLine, NodeLine, Trace, TraceTruth


def status(time: float, records: int, workers: int, ready: int | None = None) -> JobStatus:
    role = RoleStatus("worker", 1, 8, workers, ready=workers if ready is None else ready, cpu=1.0, memory_mb=512)
    nodes = tuple(
        NodeStatus(f"worker-{n}", "worker", NodeState.RUNNING, cpu=0.9, memory_mb=200.0) for n in range(workers)
    )
    progress = Progress(records_done=records, records_total=10_000)
    return JobStatus("digits", Phase.RUNNING, time=time, roles=(role,), nodes=nodes, progress=progress)


def test_the_rate_is_that_between_two_statuses_of_one_configuration() -> None:
    recorder = TraceRecorder(status(1000, 0, 2))
    assert recorder.add(status(1000, 0, 2)) == []
    job, *nodes = recorder.add(status(1005, 500, 2))
    assert isinstance(job, JobLine)
    assert (job.time, job.rate, job.records, job.configuration.worker.replicas) == (5.0, 100.0, 500, 2)
    assert [node.node for node in nodes if isinstance(node, NodeLine)] == ["worker-0", "worker-1"]


def test_nothing_is_recorded_while_nodes_come_or_go_or_nothing_is_done() -> None:
    recorder = TraceRecorder(status(0, 0, 2))
    recorder.add(status(0, 0, 2))
    assert recorder.add(status(5, 300, 4, ready=3)) == []
    assert recorder.add(status(10, 600, 4)) == []
    assert recorder.add(status(15, 600, 4)) == []
    assert len(recorder.add(status(20, 1600, 4))) == 5


def test_a_recorded_job_can_be_replayed() -> None:
    recorder = TraceRecorder(status(0, 0, 1))
    lines = [line for n in range(5) for line in recorder.add(status(5.0 * n, 100 * n, 1))]
    lines += [line for n in range(5) for line in recorder.add(status(60 + 5.0 * n, 500 + 350 * n, 4))]
    head = recorder.head(status(100, 2000, 4))
    jobs = tuple(line for line in lines if isinstance(line, JobLine))
    truth = TraceTruth.of(Trace(head, jobs, tuple(line for line in lines if isinstance(line, NodeLine))))
    assert (truth.records, truth.kind) == (10_000, JobKind.QUEUE)
    assert [rate for _, rate in truth.points] == [20.0, 70.0]


def test_the_kind_of_a_job_is_known_by_its_servers() -> None:
    found = replace(status(0, 0, 1), parameters=ParametersStatus(sync=True))
    assert TraceRecorder(found).head(found).strategy is JobKind.PS_SYNC
