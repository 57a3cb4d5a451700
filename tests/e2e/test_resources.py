"""A person gives a running job other resources: real agents, real cgroups, and every record accepted exactly once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pliant.core.events import EventKind
from pliant.platforms.cgroup import CgroupLimit, cgroup_job, why_not
from pliant.testing.reading import ReadingJob

pytestmark = pytest.mark.e2e

READ = {"train": {"size": 400, "shard_size": 4}}


def pliant_scale(job: ReadingJob, *words: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-c",
        "from pliant.cli import main; main()",
        "scale",
        *words,
        "--job-dir",
        str(job.home.path),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def group_of(job: ReadingJob, node: str) -> CgroupLimit:
    group = CgroupLimit.find(cgroup_job(job.name, job.home.path), node)
    assert group is not None, f"{node} has no cgroup"
    return group


@pytest.mark.skipif(bool(why_not()), reason=f"no limits here: {why_not()}")
def test_the_cgroup_of_a_running_node_changes_in_place(tmp_path: Path) -> None:
    """Also of a node that had no limits. What its program holds cannot be taken from it."""
    with ReadingJob(tmp_path, READ, gated=True) as job:
        job.wait_until_all_work(1)
        before = job.wait_until_running("worker-0")
        group = group_of(job, "worker-0")
        free = group.read().memory_limit_bytes
        assert free is None or free > 300 << 20
        done = pliant_scale(job, "worker", "--cpu", "1.5", "--memory", "300Mi", "--reason", "a smaller machine")
        assert done.returncode == 0, done.stderr
        assert "1 running node resized in place" in done.stdout
        job.until(lambda: job.events(EventKind.ROLLED_OUT), "the end of the rollout")
        assert group.read().memory_limit_bytes == 300 << 20
        quotas = [path / "cpu.cfs_quota_us" for path in group.directories]  # version 1
        assert [quota.read_text() for quota in quotas if quota.exists()] in ([], ["150000\n"])
        refused = pliant_scale(job, "worker", "--memory", "1Mi")
        assert refused.returncode == 2
        assert "1 MB requested, but its program uses" in refused.stderr
        assert group.read().memory_limit_bytes == 300 << 20
        node = job.wait_for(
            lambda s: next((n for n in s.nodes if n.memory_limit_mb == 300), None), "what the agent says"
        )
        assert (node.pid, node.restarts, node.cpu_limit) == (before.pid, 0, 1.5), "its program was restarted"
        [resized] = job.events(EventKind.RESIZE)
        assert resized.facts["reason"] == "a smaller machine"
        job.open_gate()
        assert job.wait() == 0
        job.assert_each_record_once()


def test_nodes_are_replaced_one_by_one_and_no_record_is_lost(tmp_path: Path) -> None:
    role = {"resources": {"memory": "400Mi"}}
    with ReadingJob(tmp_path, READ, gated=True, workers="1:3", spec={}, role=role) as job:
        job.wait_until_all_work(3)
        done = pliant_scale(job, "worker", "--memory", "500Mi", "--rolling")
        assert done.returncode == 0, done.stderr
        job.until(lambda: job.events(EventKind.LAUNCH)[3:], "the first successor")
        job.kill_master()
        job.until(lambda: job.events(EventKind.ROLLED_OUT), "the end of the rollout")
        status = job.status()
        assert status is not None
        assert [node.memory_limit_mb for node in status.live_nodes] == [500] * 3
        assert {node.name for node in status.live_nodes}.isdisjoint({"worker-0", "worker-1", "worker-2"})
        job.open_gate()
        assert job.wait() == 0
        job.assert_each_record_once()
        assert not job.events(EventKind.RESTART)
