"""The job's status for Prometheus."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

from pliant.rpc import pliant_pb2 as pb
from pliant.testing import FakeAgent, RunningMaster, wait_until

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
