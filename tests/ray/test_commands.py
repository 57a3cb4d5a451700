"""What looks at a Ray cluster without running a job there: the doctor and the monitor."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys

import pytest
from tests.ray.conftest import RayTestCluster
from tests.ray.jobs import LONG_S

from pliant.monitors.base import Observation
from pliant.monitors.ray import RayMonitor
from pliant.testing.jobs import LAUNCHER

pytestmark = [pytest.mark.ray, pytest.mark.timeout(1800)]


def examined(*options: str) -> tuple[int, dict[str, dict[str, str]]]:
    command = [sys.executable, "-c", LAUNCHER, "doctor", "--platform", "ray", "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG_S, check=False)
    assert done.stdout, done.stderr
    return done.returncode, {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def test_the_doctor_counts_the_machines_of_a_cluster(ray_cluster: RayTestCluster) -> None:
    code, checks = examined("--ray-address", ray_cluster.address)
    assert code == 0
    assert checks["machines"]["text"].startswith("3 machines, ")
    assert checks["cluster"]["state"] == "ok"


def test_the_doctor_does_not_start_rays_client_where_nobody_listens(ray_cluster: RayTestCluster) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # does not listen
        code, checks = examined("--ray-address", f"127.0.0.1:{taken.getsockname()[1]}")
    assert code == 1
    assert checks["cluster"]["state"] == "broken"
    assert "client" not in checks


def test_a_dashboard_that_does_not_answer_is_a_warning(ray_cluster: RayTestCluster) -> None:
    code, checks = examined("--ray-address", ray_cluster.address, "--ray-dashboard", "http://127.0.0.1:9")
    assert checks["dashboard"]["state"] == "warning"
    assert code == 0


def test_the_monitor_sees_the_machines_with_what_they_have(ray_cluster: RayTestCluster) -> None:
    async def observe() -> Observation:
        monitor = RayMonitor(ray_cluster.address)
        try:
            return await monitor.observe()
        finally:
            await monitor.close()

    found = asyncio.run(observe())
    assert sorted(machine.size.cpu for machine in found.machines) == [2.0, 2.0, 4.0]
    assert all(machine.is_ready and machine.size.memory_mb > 0 for machine in found.machines)
