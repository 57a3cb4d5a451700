"""What a job tells of itself: statistics, status, metrics, summary."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from pliant.core.errors import InvalidRequest
from pliant.master.scaling import ManualGenerator
from pliant.master.stats import AGENT_SILENT, HISTORY, MOST_METRICS, MemoryStats, NodeUsage, Rate
from pliant.master.summary import exit_code, status_dict
from pliant.rpc import pliant_pb2 as pb
from pliant.testing import FakeAgent, ManualClock, RunningMaster, wait_until

JOB = {
    "roles": {"worker": {"command": ["true"], "replicas": "1:2"}},
    "datasets": [{"name": "train", "size": 100, "shard_size": 10, "epochs": 2}],
    "metrics_port": 0,
}


def test_a_rate_is_that_of_the_last_seconds_and_falls_to_nothing() -> None:
    rate = Rate()
    assert rate.per_second(0.0) == 0.0
    for second in range(20):
        rate.add(float(second), 50)
    assert rate.per_second(19.0) == pytest.approx(50, rel=0.15)
    assert rate.per_second(100.0) == 0.0
    assert rate.total == 1000


def test_a_rate_right_after_the_first_records_is_not_absurd() -> None:
    rate = Rate()
    rate.add(5.0, 10)
    assert rate.per_second(5.0) == 20.0, "as if half a second had passed"


def test_what_the_platform_measured_counts_where_the_agent_is_silent() -> None:
    stats = MemoryStats(ManualClock(0.0))
    stats.collect_measured_usage("worker-0", NodeUsage(0.0, cpu=1.0))
    assert stats.report_resource_usage()["worker-0"].cpu == 1.0, "no agent has told anything yet"
    stats.collect_node_resource_usage("worker-0", NodeUsage(10.0, cpu=2.0))
    stats.collect_measured_usage("worker-0", NodeUsage(15.0, cpu=1.0))
    assert stats.report_resource_usage()["worker-0"].cpu == 2.0
    stats.collect_measured_usage("worker-0", NodeUsage(10.0 + AGENT_SILENT + 1, cpu=3.0))
    assert stats.report_resource_usage()["worker-0"].cpu == 3.0


def test_statistics_keep_a_history_of_each_node_and_the_newest_step_of_all() -> None:
    clock = ManualClock(0.0)
    stats = MemoryStats(clock)
    for second in range(HISTORY + 50):
        stats.collect_node_resource_usage("worker-0", NodeUsage(float(second), cpu=second))
    assert len(stats.node("worker-0").usage) == HISTORY
    assert stats.report_resource_usage()["worker-0"].cpu == HISTORY + 49
    stats.set_step("worker-0", 7, {"loss": 0.5})
    stats.set_step("worker-1", 5, {"accuracy": 0.9})
    assert (stats.global_step, stats.node("worker-1").step) == (7, 5)
    assert stats.metrics == {"loss": 0.5, "accuracy": 0.9}
    stats.add_records("worker-0", 30)
    clock.advance(1.0)
    assert stats.records_per_second() == stats.records_per_second("worker-0") == 30.0
    assert stats.records_per_second("worker-1") == 0.0
    stats.forget("worker-0")
    assert list(stats.report_resource_usage()) == []


def test_no_number_of_metrics_fills_the_memory() -> None:
    stats = MemoryStats(ManualClock())
    stats.set_step("w", 1, {str(n): 0.0 for n in range(MOST_METRICS)})
    stats.set_step("w", 2, {"0": 1.0})
    with pytest.raises(InvalidRequest):
        stats.set_step("w", 3, {"one more": 1.0})
    assert len(stats.metrics) == MOST_METRICS


def test_a_person_is_a_generator_of_plans() -> None:
    plan = ManualGenerator().generate_plan("running", {"role": "worker", "replicas": 3, "reason": "night"})
    assert plan is not None
    assert (plan.roles["worker"].replicas, plan.reason) == (3, "night")
    assert ManualGenerator().generate_plan("running", {}) is None


def test_the_metrics_are_served_for_prometheus_on_the_port_that_is_told(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, JOB) as master:
        wait_until(lambda: len(master.platform.running()) == 2)
        FakeAgent(master.client, "worker-0").starts().beats(cpu=1.25, memory_mb=64)
        client, stubs = master.client, master.client.stubs
        client.call(stubs.shards.OpenSession, pb.OpenSessionRequest(session="s", node="worker-0"))
        client.call(stubs.shards.Exchange, pb.ExchangeRequest(session="s", request=1, dataset="train", want=2))
        client.call(stubs.shards.Exchange, pb.ExchangeRequest(session="s", request=2, done=[1]))
        client.call(stubs.stats.ReportStep, pb.ReportStepRequest(node="worker-0", step=12))
        port = json.loads(master.job_dir.master_file.read_text())["metrics_port"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as reply:
            lines = reply.read().decode().splitlines()
        for expected in (
            'pliant_nodes{job="tested",role="worker",state="Running"} 1.0',
            'pliant_node_cpu{job="tested",node="worker-0"} 1.25',
            'pliant_dataset_records_done{dataset="train",job="tested"} 10.0',
            'pliant_dataset_records_total{dataset="train",job="tested"} 200.0',
            'pliant_dataset_shards_in_work{dataset="train",job="tested"} 1.0',
            'pliant_global_step{job="tested"} 12.0',
            'pliant_master_starts{job="tested"} 1.0',
        ):
            assert expected in lines
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=1)


def test_the_status_tells_nodes_roles_and_datasets(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, JOB) as master:
        wait_until(lambda: len(master.platform.running()) == 2)
        FakeAgent(master.client, "worker-0", pid=77).starts()
        status = status_dict(master.client.call(master.client.stubs.job.GetStatus, pb.Empty()))
    assert (status["name"], status["phase"], status["master_starts"]) == ("tested", "Running", 1)
    (dataset,) = status["datasets"]
    assert (dataset["records_total"], dataset["shards_total"], dataset["complete"]) == (200, 20, False)
    first = status["nodes"][0]
    assert (first["name"], first["state"], first["pid"], first["agent_pid"]) == ("worker-0", "Running", 77, 78)
    assert status["roles"] == [{"name": "worker", "min": 1, "max": 2, "target": 2, "running": 1}]


def whole_numbers(message: Any) -> set[str]:
    found = {field.name for field in message.fields if field.cpp_type == field.CPPTYPE_INT64}
    for field in message.fields:
        if field.message_type is not None:
            found |= whole_numbers(field.message_type)
    return found


def test_every_whole_number_of_a_status_is_a_number_in_json() -> None:
    names = whole_numbers(pb.JobStatus.DESCRIPTOR)
    status = pb.JobStatus(
        global_step=1,
        nodes=[pb.NodeStatus(pid=1, agent_pid=2, records=3)],
        datasets=[pb.DatasetStatus(records_done=1 << 60, parked=[pb.ParkedShard(start=1, end=2)])],
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

    check(status_dict(status))


@pytest.mark.parametrize(("phase", "code"), [("Succeeded", 0), ("Failed", 1), ("Stopped", 130)])
def test_the_exit_code_is_that_of_the_phase(phase: str, code: int) -> None:
    assert exit_code(phase) == code


def test_the_summary_says_what_was_done_and_with_which_parts(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, JOB) as master:
        wait_until(lambda: len(master.platform.running()) == 2)
        master.client.call(
            master.client.stubs.stats.ReportStep,
            pb.ReportStepRequest(node="guest", step=3, metrics={"loss": float("inf"), "accuracy": 0.5}),
        )
        master.stop_job("enough")
        summary = master.job_dir.summary()
    assert summary is not None
    assert summary["metrics"] == {"loss": None, "accuracy": 0.5}
    assert summary["master_parts"]["shards"]
    assert (summary["restarts"], summary["replacements"], summary["records_done"]) == (0, 0, 0)
    assert summary["seconds"] >= 0
