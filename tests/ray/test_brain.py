"""Jobs on Ray that the Brain plans for, and the monitor that tells it what the cluster looks like."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.auto.planned_job import PlannedJob
from tests.e2e.brain.brain_process import BrainProcess
from tests.ray.conftest import RayTestCluster
from tests.ray.jobs import LONG_S, move_to_ray

from pliant.testing.jobs import LAUNCHER

pytestmark = [pytest.mark.ray, pytest.mark.timeout(1800)]


def test_a_job_on_ray_gets_its_plans_from_the_brain_which_knows_the_cluster(
    tmp_path: Path, ray_cluster: RayTestCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLIANT_BRAIN_DIR", str(tmp_path / "brain"))
    with BrainProcess(tmp_path / "brain", "--no-monitor") as brain:
        job = PlannedJob(tmp_path, "wait", "--seconds", "0.05", workers="1:3", optimize={"mode": "cluster"}, name="fit")
        move_to_ray(job, ray_cluster.address)
        with job:
            job.until(lambda: [p for p in job.plans() if p.origin], "a plan of the Brain", LONG_S)
            watch(brain, ray_cluster.address)
            machines = brain.ask("SELECT cpu FROM machines")
            assert sorted(row.cpu for row in machines) == [2.0, 2.0, 4.0]
            nodes = brain.ask("SELECT name, phase FROM observed_nodes WHERE namespace = 'ray'")
            assert (f"{job.name}/worker-0", "Running") in {(row.name, row.phase) for row in nodes}
            job.finish()
        assert all(plan.origin for plan in job.plans())
        [(namespace, phase)] = brain.ask("SELECT namespace, phase FROM jobs")
        assert (namespace, phase) == ("ray", "Succeeded")
        assert brain.accepted(job.name) == job.summary()["progress"]["records_total"]


def watch(brain: BrainProcess, address: str) -> None:
    command = ["brain", "monitor", "--platform", "ray", "--brain-dir", str(brain.folder), "--once"]
    done = subprocess.run(
        [sys.executable, "-c", LAUNCHER, *command],
        env={**os.environ, "RAY_ADDRESS": address},
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
