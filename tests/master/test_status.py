"""The status of a job with a living master."""

from __future__ import annotations

from pathlib import Path

from pliant.core.status_json import status_to_json
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.status import status_from_message
from pliant.testing import FakeAgent, RunningMaster, wait_until

JOB = {
    "roles": {"worker": {"command": ["true"], "replicas": "1:2"}},
    "datasets": [{"name": "train", "size": 100, "shard_size": 10, "epochs": 2}],
    "metrics_port": 0,
}


def test_the_status_tells_nodes_roles_and_datasets(tmp_path: Path) -> None:
    with RunningMaster(tmp_path, JOB) as master:
        wait_until(lambda: len(master.platform.running()) == 2)
        FakeAgent(master.client, "worker-0", pid=77).starts()
        status = status_to_json(status_from_message(master.client.call(master.client.stubs.job.GetStatus, pb.Empty())))
    assert (status["name"], status["phase"], status["master_starts"]) == ("tested", "Running", 1)
    (dataset,) = status["datasets"]
    assert (dataset["records_total"], dataset["shards_total"], dataset["complete"]) == (200, 20, False)
    first = status["nodes"][0]
    assert (first["name"], first["state"], first["pid"], first["agent_pid"]) == ("worker-0", "Running", 77, 78)
    counts = {"wanted": 2, "ready": 1, "pending": 1, "succeeded": 0, "failed": 0}
    assert len(status["roles"]) == 1
    assert {"name": "worker", "min": 1, "max": 2, **counts}.items() <= status["roles"][0].items()
