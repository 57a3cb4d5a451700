"""Machines that leave a Ray cluster: a cluster of its own, which the tests break, one machine after the other."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.ray.conftest import RayTestCluster, is_available, started
from tests.ray.jobs import LONG_S, actor_of, raylet_of, wait_until_all_work, wait_until_runs
from tests.ray.test_jobs import reading

from pliant.core.events import EventKind
from pliant.testing.reading import ReadingJob

pytestmark = [pytest.mark.ray, pytest.mark.timeout(1800), pytest.mark.xdist_group("losses")]

# One CPU each, so each has one worker: the head, three that are lost, and room for whoever replaces.
CPUS = (1, 1, 1, 1, 1, 1, 1)
# Ray takes a minute to find that a machine is frozen; here 10 s.
CONFIG = {"RAY_health_check_period_ms": "2000", "RAY_health_check_timeout_ms": "4000"}
CONFIG |= {"RAY_health_check_failure_threshold": "2"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[started]:
    """Its control store keeps its data on disk, and asks for a token."""
    is_available()
    folder = tmp_path_factory.mktemp("ray-losses")
    (folder / "store").mkdir()
    stored = {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": str(folder / "store")}
    token = folder / "ray-token"
    token.write_text(secrets.token_hex(32))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
        yield started(folder, CPUS, {**CONFIG, **stored})


@pytest.fixture(scope="module")
def cluster(site: started) -> Iterator[RayTestCluster]:
    with site as made:
        yield made


def raylets(job: ReadingJob, nodes: tuple[str, ...]) -> dict[str, int]:
    """The machines that the programs of nodes run on."""
    return {node: raylet_of(wait_until_runs(job, node).pid).pid for node in nodes}


def ends_exactly(job: ReadingJob) -> dict[str, dict[str, str]]:
    """Its nodes, by name."""
    job.open_gate()
    assert job.wait(LONG_S) == 0, job.report()
    job.assert_each_record_once()
    return {node["name"]: node for node in job.summary()["nodes"]}


def test_a_killed_raylet_is_a_machine_that_left_and_its_node_is_replaced_on_another(
    tmp_path: Path, cluster: RayTestCluster
) -> None:
    with reading(tmp_path, cluster, 2, cpu=1.0) as job:
        wait_until_all_work(job, 2)
        machines = raylets(job, ("worker-0", "worker-1"))
        kept = {cluster.raylets[0], raylet_of(job.master_pid()).pid}  # the head, and the master's machine
        lost = next(node for node, raylet in machines.items() if raylet not in kept)
        program = wait_until_runs(job, lost).pid
        os.kill(machines[lost], signal.SIGKILL)
        wait_until_runs(job, "worker-2")
        gone = "the end of the program of a machine that left"
        job.until(lambda: program not in {process.pid for process in job.processes()}, gone, LONG_S)
        nodes = ends_exactly(job)
    assert nodes["worker-2"]["replaces"] == lost
    assert nodes[lost]["exit_reason"] in ("Preempted", "Killed")


def test_nodes_find_the_master_that_ray_starts_on_another_machine(tmp_path: Path, cluster: RayTestCluster) -> None:
    with reading(tmp_path, cluster, 3, cpu=1.0) as job:
        wait_until_all_work(job, 3)
        machines = raylets(job, ("worker-0", "worker-1", "worker-2"))
        master = raylet_of(job.master_pid()).pid
        elsewhere = {node: wait_until_runs(job, node).pid for node, raylet in machines.items() if raylet != master}
        before = job.home.address().target
        os.kill(master, signal.SIGKILL)
        job.until(lambda: job.home.address().target != before, "a master at another address", LONG_S)
        assert {node: wait_until_runs(job, node).pid for node in elsewhere} == elsewhere
        ends_exactly(job)
    assert len(job.events(EventKind.MASTER)) == 2


def test_a_job_goes_on_and_replaces_nodes_after_the_control_store_was_killed(
    tmp_path: Path, cluster: RayTestCluster, site: started
) -> None:
    with reading(tmp_path, cluster, 2, cpu=1.0) as job:
        wait_until_all_work(job, 2)
        kept = wait_until_runs(job, "worker-1").pid
        site.restart_control_store()
        actor_of(wait_until_runs(job, "worker-0").pid).kill()
        wait_until_runs(job, "worker-2")
        assert wait_until_runs(job, "worker-1").pid == kept
        nodes = ends_exactly(job)
    assert nodes["worker-2"]["replaces"] == "worker-0"


def test_a_machine_that_is_drained_is_left_before_its_deadline(tmp_path: Path, cluster: RayTestCluster) -> None:
    with reading(tmp_path, cluster, 2, cpu=1.0) as job:
        wait_until_all_work(job, 2)
        machines = raylets(job, ("worker-0", "worker-1"))
        kept = {cluster.raylets[0], raylet_of(job.master_pid()).pid}
        left = next(node for node, raylet in machines.items() if raylet not in kept)
        drain(cluster.address, ray_node_of(wait_until_runs(job, left).pid))
        wait_until_runs(job, "worker-2")
        nodes = ends_exactly(job)
    assert (nodes[left]["state"], nodes[left]["exit_reason"]) == ("Failed", "Preempted")
    assert "got SIGTERM" in (job.home.logs / "agents.log").read_text()


def drain(address: str, ray_node: str) -> None:
    given = ["--address", address, "--node-id", ray_node, "--reason", "DRAIN_NODE_REASON_PREEMPTION"]
    given += ["--reason-message", "a test", "--deadline-remaining-seconds", str(int(LONG_S))]
    command = [sys.executable, "-c", "from ray.scripts.scripts import main; main()", "drain-node", *given]
    subprocess.run(command, check=True, timeout=LONG_S, capture_output=True)


def ray_node_of(pid: int) -> str:
    """Of the machine that a process runs on, as its raylet was started with it."""
    words = raylet_of(pid).cmdline()
    return next(word.partition("=")[2] for word in words if word.startswith("--node_id="))


def test_a_frozen_machine_is_left_and_what_it_still_does_counts_once(tmp_path: Path, cluster: RayTestCluster) -> None:
    with reading(tmp_path, cluster, 2, cpu=1.0) as job:
        wait_until_all_work(job, 2)
        machines = raylets(job, ("worker-0", "worker-1"))
        master = raylet_of(job.master_pid()).pid
        lost = next(node for node, raylet in machines.items() if raylet != master)
        raylet = psutil.Process(machines[lost])
        raylet.suspend()
        try:
            wait_until_runs(job, "worker-2")
            nodes = ends_exactly(job)
        finally:
            raylet.resume()
    assert nodes["worker-2"]["replaces"] == lost
    assert nodes[lost]["exit_reason"] == "Preempted"
