"""Training on a Ray cluster: elastic allreduce is that of one process to the last bit, parameter servers count each record
once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.native.test_ps_strategies import LONG, check, train
from tests.e2e.torch.training_job import PROGRAM, TIMEOUT_S, TrainingJob
from tests.ray.conftest import RayTestCluster
from tests.ray.jobs import LONG_S, actor_of, move_to_ray, unique_name, wait_until_runs

pytestmark = [pytest.mark.ray, pytest.mark.timeout(1800)]


def test_weights_are_those_of_one_process_to_the_last_bit_although_an_actor_was_killed(
    tmp_path: Path, ray_cluster: RayTestCluster
) -> None:
    alone = TrainingJob(tmp_path / "alone", workers=1)
    env = {name: value for name, value in alone._env.items() if not name.startswith("PLIANT_")}
    subprocess.run([sys.executable, str(PROGRAM)], env=env, check=True, timeout=TIMEOUT_S, capture_output=True)
    job = TrainingJob(tmp_path / "ray", workers=3, gated=True, pace=0.02)
    move_to_ray(job, ray_cluster.address)
    with job:
        job.until(lambda: job.committed() > 4, "some steps", LONG_S)
        actor_of(wait_until_runs(job, "worker-0").pid).kill()
        wait_until_runs(job, "worker-3")
        job.open_gate()
        assert job.wait(LONG_S) == 0, job.report()
        assert job.summary()["phase"] == "Succeeded"
    assert job.hashes() == alone.hashes()


def test_parameter_servers_count_each_record_once_although_one_is_killed(
    tmp_path: Path, ray_cluster: RayTestCluster
) -> None:
    job = train(tmp_path, "ps-sync", pause=0.05)
    job.name = unique_name(job)
    given = {name: value for name, value in job._env.items() if os.environ.get(name) != value and name != "PLIANT_HOME"}
    for name, value in given.items():
        job._options += ["--env", f"{name}={value}"]
    job._options += ["--platform", "ray", "--ray-address", ray_cluster.address]
    with job:
        job.wait_for_progress(32, LONG_S)
        actor_of(wait_until_runs(job, "ps-0").pid).kill()
        assert job.wait(2 * LONG) == 0, job.report()
        check(job)
