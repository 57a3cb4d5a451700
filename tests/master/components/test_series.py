"""What the job's charts are drawn of, in a real master."""

from __future__ import annotations

from pathlib import Path

import pytest

from pliant.core.series.job_series import JobSeries
from pliant.handles.local import LocalJob
from pliant.master.series_file import read_series
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.series import series_from
from pliant.testing import FakeAgent, RunningMaster, wait_until

JOB = {
    "roles": {"worker": {"command": ["true"], "replicas": 1}},
    "datasets": [{"name": "train", "size": 100, "shard_size": 10}],
}


def asked(master: RunningMaster, **request: float) -> JobSeries:
    reply = master.client.call(master.client.stubs.job.GetSeries, pb.SeriesRequest(**request))  # type: ignore[arg-type]
    return series_from(reply)


def report(master: RunningMaster, step: int, **metrics: float) -> None:
    request = pb.ReportStepRequest(node="worker-0", step=step, metrics=metrics)
    master.client.call(master.client.stubs.stats.ReportStep, request)


def started(master: RunningMaster) -> FakeAgent:
    wait_until(lambda: "worker-0" in master.platform.running())
    return FakeAgent(master.client, "worker-0").starts()


def test_metrics_speed_and_use_of_nodes_are_recorded(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, JOB) as master:
        agent = started(master)
        agent.beats(cpu=1.25, memory_mb=64)
        report(master, 3, loss=0.5, accuracy=float("nan"))
        wait_until(lambda: asked(master).nodes and any(point.mean == 1 for point in asked(master).workers))
        found = asked(master)
        assert found.name == "tested"
        assert [(point.step, point.mean) for point in found.metrics["loss"]] == [(3, 0.5)]
        assert "accuracy" not in found.metrics
        assert found.nodes["worker-0"].cpu[-1].mean == 1.25
        assert found.nodes["worker-0"].memory_mb[-1].mean == 64
        assert len(found.records_per_second) == len(found.steps_per_second) > 0
        assert len(asked(master, max_points=1).workers) == 1
        newest = found.workers[-1].time
        assert asked(master, since=newest).workers[0].time == newest


def test_results_of_evaluations_are_recorded_once_with_the_version_of_the_model(tmp_path: Path) -> None:
    job = {**JOB, "strategy": "allreduce"}
    with RunningMaster(tmp_path, job) as master:
        request = pb.ReportEvaluationRequest(version=7, metrics={"accuracy": 0.9})
        master.client.call(master.client.stubs.training.ReportEvaluation, request)
        wait_until(lambda: "eval/accuracy" in asked(master).metrics)
        wait_until(lambda: (read_series(master.job_dir.series_file) or JobSeries("")).metrics, what="the file")
        master.restart()
        wait_until(lambda: len(asked(master).workers) > 1)
        assert [(p.step, p.mean, p.count) for p in asked(master).metrics["eval/accuracy"]] == [(7, 0.9, 1)]


def test_a_restarted_master_continues_the_curves_and_an_ended_job_keeps_them(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, JOB) as master:
        started(master)
        report(master, 1, loss=1.0)
        wait_until(lambda: (read_series(master.job_dir.series_file) or JobSeries("")).metrics, what="the file")
        master.restart()
        report(master, 2, loss=0.5)
        job = LocalJob(master.job_dir)
        curve = job.series().metrics["loss"]
        assert sum(point.count for point in curve) == 2
        assert curve[-1].step == 2
        master.stop_job()
        ended = job.series()
        assert ended.metrics["loss"] == curve
        assert not ended.note


def test_a_damaged_file_costs_the_curves_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with RunningMaster(tmp_path, JOB) as master:
        master.kill()
        master.job_dir.series_file.write_text('{"name": ')
        master.start()
        report(master, 2, loss=0.5)
        assert "corrupt or truncated" in caplog.text
        assert asked(master).metrics["loss"][0].mean == 0.5
