"""Machines that leave a Ray cluster: a cluster of its own, which the tests break."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.ray.conftest import is_available, started
from tests.ray.jobs import LONG_S, raylet_of, wait_until_all_work, wait_until_runs
from tests.ray.test_jobs import reading

pytestmark = [pytest.mark.ray, pytest.mark.timeout(1800)]

WORKERS = ("worker-0", "worker-1", "worker-2")


def test_a_killed_raylet_is_a_machine_that_left_and_its_node_is_replaced_on_another(tmp_path: Path) -> None:
    is_available()
    (tmp_path / "cluster").mkdir()
    (tmp_path / "job").mkdir()
    with started(tmp_path / "cluster", (1, 1, 1, 1)) as cluster, reading(tmp_path / "job", cluster, 3, cpu=1.0) as job:
        wait_until_all_work(job, 3)
        kept = {cluster.raylets[0], raylet_of(job.master_pid()).pid}  # the head, and the master's machine
        raylets = {node: raylet_of(wait_until_runs(job, node).pid).pid for node in WORKERS}
        lost = next(node for node, raylet in raylets.items() if raylet not in kept)
        program = wait_until_runs(job, lost).pid
        os.kill(raylets[lost], signal.SIGKILL)
        wait_until_runs(job, "worker-3")
        assert program not in {process.pid for process in job.processes()}
        job.open_gate()
        assert job.wait(LONG_S) == 0, job.report()
        job.assert_each_record_once()
        nodes = {node["name"]: node for node in job.summary()["nodes"]}
    assert nodes["worker-3"]["replaces"] == lost
    assert nodes[lost]["exit_reason"] in ("Preempted", "Killed")
