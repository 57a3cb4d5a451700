from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.ray.conftest import RayTestCluster
from tests.ray.jobs import LONG_S

from pliant.testing.jobs import LAUNCHER

pytestmark = [pytest.mark.ray, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]


def test_the_example_runs_as_its_first_lines_say(tmp_path: Path, ray_cluster: RayTestCluster) -> None:
    folder = tmp_path / "numbers"
    for command in (
        ("run", "examples/ray/shard-queue.yaml", "--ray-address", ray_cluster.address, "--job-dir", str(folder)),
        ("audit", "--job-dir", str(folder)),
    ):
        done = subprocess.run(
            [sys.executable, "-c", LAUNCHER, *command],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=LONG_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "exact: 400 records accepted, each once" in done.stdout
