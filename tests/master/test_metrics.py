"""The job's status for Prometheus."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from pliant.core.job import Phase
from pliant.core.nodes.states import NodeState
from pliant.core.status import (
    CheckpointStatus,
    DatasetStatus,
    JobStatus,
    NodeStatus,
    ParametersStatus,
    ParkedShard,
    Progress,
    RoleStatus,
    SeatStatus,
    ServerStats,
)
from pliant.master import metrics
from pliant.master.metrics import MAX_CONNECTIONS, status_metrics
from pliant.rpc import pliant_pb2 as pb
from pliant.testing import FakeAgent, RunningMaster, wait_until
from pliant.testing.waiting import MAX_WAIT_S

JOB = {
    "roles": {"worker": {"command": ["true"], "replicas": "1:2"}},
    "datasets": [{"name": "train", "size": 100, "shard_size": 10, "epochs": 2}],
    "metrics_port": 0,
}


def test_the_metrics_are_served_for_prometheus_on_the_port_that_is_told(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, JOB) as master:
        wait_until(lambda: len(master.platform.running()) == 2)
        FakeAgent(master.client, "worker-0").starts().beats(cpu=1.25, memory_mb=64)
        client, stubs = master.client, master.client.stubs
        client.call(stubs.shards.OpenSession, pb.OpenSessionRequest(session="s", node="worker-0"))
        client.call(stubs.shards.Exchange, pb.ExchangeRequest(session="s", request=1, dataset="train", want=2))
        client.call(stubs.shards.Exchange, pb.ExchangeRequest(session="s", request=2, done=[1]))
        client.call(
            stubs.stats.ReportStep,
            pb.ReportStepRequest(node="worker-0", step=12, total_steps=48, metrics={"loss": 0.5}),
        )
        port = json.loads(master.job_dir.master_file.read_text())["metrics_port"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=MAX_WAIT_S) as reply:
            lines = reply.read().decode().splitlines()
        for expected in (
            'pliant_nodes{job="tested",role="worker",state="Running"} 1.0',
            'pliant_node_cpu{job="tested",node="worker-0"} 1.25',
            'pliant_dataset_records_done{dataset="train",job="tested"} 10.0',
            'pliant_dataset_records{dataset="train",job="tested"} 200.0',
            'pliant_dataset_shards_in_work{dataset="train",job="tested"} 1.0',
            'pliant_global_step{job="tested"} 12.0',
            'pliant_total_steps{job="tested"} 48.0',
            'pliant_progress_percent{job="tested"} 25.0',
            'pliant_training_metric{job="tested",name="loss"} 0.5',
            'pliant_master_starts{job="tested"} 1.0',
        ):
            assert expected in lines
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=1)


def test_idle_connections_take_few_threads_and_keep_nobody_out(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, JOB) as master, contextlib.ExitStack() as opened:
        port = json.loads(master.job_dir.master_file.read_text())["metrics_port"]
        before = threading.active_count()
        idle = [
            opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=MAX_WAIT_S)) for _ in range(150)
        ]
        wait_until(lambda: idle[0].recv(1) == b"", what="the oldest one to be closed")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=MAX_WAIT_S) as reply:
            assert b"pliant_nodes" in reply.read()
        wait_until(
            lambda: threading.active_count() - before <= MAX_CONNECTIONS, what="the threads of the others to end"
        )


def test_a_connection_that_sends_nothing_ends_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics._Handler, "timeout", 0.2)
    with RunningMaster(tmp_path, JOB) as master:
        port = json.loads(master.job_dir.master_file.read_text())["metrics_port"]
        with socket.create_connection(("127.0.0.1", port), timeout=MAX_WAIT_S) as idle:
            assert idle.recv(1) == b""


def test_every_figure_that_the_guides_name_is_a_metric() -> None:
    use = {"cpu": 1.5, "memory_mb": 64.0, "cpu_limit": 3.0, "memory_limit_mb": 128.0}
    node = NodeStatus("worker-0", "worker", NodeState.RUNNING, restarts=2, replaces="worker-9", **use)  # type: ignore[arg-type]
    role = RoleStatus("worker", 1, 4, 3)
    parked = (ParkedShard("", 0, 10, 0, 3, "bad record"),)
    served = {"rows": 3, "bytes": 4, "bytes_in": 5, "bytes_out": 6, "requests": 7, "queue": 8}
    stats = ServerStats(**served, apply_seconds=9.0, cpu_seconds=10.0, log_bytes=11)
    seat = SeatStatus(1, node="ps-0", partitions=12, stats=stats)
    told = {"iteration": 13, "examples": 14, "contributions": 15, "stale": 16, "dump_iteration": 17, "moves": 18}
    parameters = replace(ParametersStatus(sync=True, seats=(seat,)), **told)  # type: ignore[arg-type]  # all are counts
    dataset = DatasetStatus(
        "train", records_done=19, records_total=20, shards_in_work=21, shards_waiting=22, parked=parked
    )
    status = JobStatus(
        "tested",
        Phase.RUNNING,
        nodes=(node,),
        roles=(role,),
        datasets=(dataset,),
        parameters=parameters,
        records_per_second=23.0,
        stalled_seconds=24.0,
        master_starts=25,
        progress=Progress(27, step=26, total_steps=104, metrics={"loss": 0.5, "auc": None}),
        steps_per_second=28.0,
        eta=29.0,
        checkpoints=(CheckpointStatus("/saved", 30, last_step=31, last_time=32.0, failures=33, failures_in_a_row=34),),
    )
    found = {family.name: [sample.value for sample in family.samples] for family in status_metrics(status)}
    assert found == {
        **{"pliant_job_phase": [1], "pliant_nodes": [1], "pliant_nodes_wanted": [3], "pliant_restarts": [2, 1]},
        **{"pliant_node_cpu": [1.5], "pliant_node_cpu_limit": [3.0], "pliant_node_restarts": [2]},
        **{"pliant_node_memory_bytes": [64 << 20], "pliant_node_memory_limit_bytes": [128 << 20]},
        **{f"pliant_ps_{name}": [value] for name, value in served.items()},
        **{"pliant_ps_apply_seconds": [9.0], "pliant_ps_cpu_seconds": [10.0], "pliant_ps_log_bytes": [11]},
        "pliant_ps_partitions": [12],
        **{f"pliant_parameters_{name}": [value] for name, value in told.items()},
        **{"pliant_dataset_records_done": [19], "pliant_dataset_records": [20]},
        **{"pliant_dataset_shards_in_work": [21], "pliant_dataset_shards_waiting": [22]},
        "pliant_dataset_shards_parked": [1],
        **{"pliant_records_per_second": [23.0], "pliant_stalled_seconds": [24.0]},
        **{"pliant_master_starts": [25], "pliant_global_step": [26], "pliant_total_steps": [104]},
        **{"pliant_records_done": [27], "pliant_progress_percent": [25.0], "pliant_training_metric": [0.5]},
        **{"pliant_steps_per_second": [28.0], "pliant_eta_seconds": [29.0]},
        **{"pliant_checkpoints_written": [30], "pliant_checkpoint_last_step": [31]},
        **{"pliant_checkpoint_last_success_timestamp_seconds": [32.0], "pliant_checkpoint_failures": [33]},
        "pliant_checkpoint_failures_in_a_row": [34],
    }
