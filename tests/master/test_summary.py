"""The summary of a job that is over."""

from __future__ import annotations

from pathlib import Path

from pliant.rpc import pliant_pb2 as pb
from pliant.testing import RunningMaster, wait_until

JOB = {
    "roles": {"worker": {"command": ["true"], "replicas": "1:2"}},
    "datasets": [{"name": "train", "size": 100, "shard_size": 10, "epochs": 2}],
    "metrics_port": 0,
}


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
