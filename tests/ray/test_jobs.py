"""Whole jobs on a Ray cluster, and what is killed under them: each record counts once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.ray.conftest import RayTestCluster
from tests.ray.jobs import LONG_S, actor_of, move_to_ray, wait_until_all_work, wait_until_runs

from pliant.core.events import EventKind
from pliant.rpc import pliant_pb2 as pb
from pliant.testing.jobs import LAUNCHER, LocalJob
from pliant.testing.reading import ReadingJob

pytestmark = [pytest.mark.ray, pytest.mark.timeout(1800)]

TRAIN = {"train": {"size": 600, "shard_size": 3, "shuffle": True}}


def reading(
    folder: Path,
    cluster: RayTestCluster,
    workers: int = 3,
    cpu: float = 0.0,
    most: int = 0,
    fault: Mapping[str, Any] | None = None,
) -> ReadingJob:
    replicas = {"min": 1, "max": most or workers, "wanted": workers}
    job = ReadingJob(
        folder,
        TRAIN,
        role={"replicas": replicas},
        gated=True,
        spec={"fault": dict(fault or {})},
    )
    move_to_ray(job, cluster.address, cpu=cpu)
    return job


def test_a_killed_actor_takes_its_program_along_and_is_replaced_under_a_new_number(
    tmp_path: Path, ray_cluster: RayTestCluster
) -> None:
    with reading(tmp_path, ray_cluster, 2) as job:
        wait_until_all_work(job, 2)
        program = wait_until_runs(job, "worker-0").pid
        actor_of(program).kill()
        wait_until_runs(job, "worker-2")
        assert program not in {process.pid for process in job.processes()}
        killed = job.kill_program("worker-1")
        job.wait_for(
            lambda s: any(n.restarts == 1 and n.pid not in (0, killed) for n in s.nodes), "the restart", LONG_S
        )
        job.open_gate()
        assert job.wait(LONG_S) == 0, job.report()
        job.assert_each_record_once()
        nodes = {node["name"]: node for node in job.summary()["nodes"]}
    assert (nodes["worker-0"]["state"], nodes["worker-0"]["exit_reason"]) == ("Failed", "Killed")
    assert (nodes["worker-2"]["state"], nodes["worker-2"]["replaces"]) == ("Succeeded", "worker-0")


def test_a_killed_master_comes_back_and_nobody_noticed(tmp_path: Path, ray_cluster: RayTestCluster) -> None:
    with reading(tmp_path, ray_cluster, 2) as job:
        wait_until_all_work(job, 2)
        programs = {wait_until_runs(job, node).pid for node in ("worker-0", "worker-1")}
        master = job.kill_master()
        assert job.until(lambda: job.master_pid() != master, "another master", LONG_S)
        second = job.master_pid()
        actor_of(second).kill()  # with its supervisor: Ray starts the actor again
        job.until(lambda: job.master_pid() not in (master, second), "a master of another actor", LONG_S)
        assert {wait_until_runs(job, node).pid for node in ("worker-0", "worker-1")} == programs
        job.open_gate()
        assert job.wait(LONG_S) == 0, job.report()
        job.assert_each_record_once()
    assert len(job.events(EventKind.MASTER)) == 3


def test_a_job_does_not_need_who_submitted_it_and_is_scaled_stopped_and_resumed_by_others(
    tmp_path: Path, ray_cluster: RayTestCluster
) -> None:
    with reading(tmp_path, ray_cluster, 1, most=3) as job:
        wait_until_all_work(job, 1)
        job.kill_launcher()
        job.call(lambda client: client.stubs.job.Scale, pb.ScaleRequest(role="worker", replicas=3, reason="more"))
        wait_until_all_work(job, 3)
        job.call(lambda client: client.stubs.job.Scale, pb.ScaleRequest(role="worker", replicas=1, reason="fewer"))
        job.wait_for(lambda s: sum(node.state == "Running" for node in s.nodes) == 1, "one worker", LONG_S)
        for command in ("status", "events", "stop"):
            done = subprocess.run(
                [sys.executable, "-c", LAUNCHER, command, "--job-dir", str(job.home.path)],
                capture_output=True,
                text=True,
                timeout=LONG_S,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            assert done.stdout
        assert job.wait_for_summary(LONG_S)["phase"] == "Stopped"
        job.open_gate()
        assert job.resume().wait(LONG_S) == 0, job.report()
        job.assert_each_record_once()


def test_what_no_machine_has_is_said_with_numbers_and_other_nodes_start(
    tmp_path: Path, ray_cluster: RayTestCluster
) -> None:
    with reading(tmp_path, ray_cluster, 2, cpu=3.0) as job:  # one machine has 4, the others 2
        found = job.wait_for(lambda s: s.waiting, "what it waits for", LONG_S)
        assert "3 CPU requested; no machine of the Ray cluster has that free now" in found.message
        wait_until_runs(job, "worker-0")
        job.open_gate()
        assert job.wait(LONG_S) == 0, job.report()
        job.assert_each_record_once()


def test_a_request_that_no_machine_can_meet_ends_the_job_and_says_so(
    tmp_path: Path, ray_cluster: RayTestCluster
) -> None:
    with reading(tmp_path, ray_cluster, 1, cpu=64.0, fault={"unschedulable": {"give_up_after": 1}}) as job:
        assert job.wait(LONG_S) == 1, job.report()
    assert "64 CPU requested, the largest machine has 4" in job.summary()["reason"]


def test_a_node_that_takes_more_memory_than_it_asked_for_is_replaced_and_the_next_one_asks_for_more(
    tmp_path: Path, ray_cluster: RayTestCluster
) -> None:
    hungry = "import pliant; job = pliant.connect(); taken = b'x' * (500 << 20 if job.node == 'worker-0' else 1)"
    work = "; print(len(taken), [len(shard) for shard in job.shards('train', size=20, shard_size=2)])"
    job = LocalJob(
        tmp_path,
        ["python", "-c", hungry + work],
        role={"resources": {"memory": "256Mi"}},
        spec={"fault": {"oom": {"backoff": {"first": 0.05}}}},
    )
    move_to_ray(job, ray_cluster.address)
    with job:
        assert job.wait(LONG_S) == 0, job.report()
        nodes = {node["name"]: node for node in job.summary()["nodes"]}
    assert nodes["worker-0"]["exit_reason"] == "OOM"
    assert nodes["worker-1"]["memory_limit_mb"] > nodes["worker-0"]["memory_limit_mb"] == 256
    assert sum(row.end - row.begin for row in job.audit()) == 20
