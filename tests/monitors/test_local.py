from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pliant.files.atomic import read_json, write_json
from pliant.master.job_dir import JobDir
from pliant.monitors.base import Observation, ObservedNode
from pliant.monitors.local import LocalMonitor
from pliant.platforms.gpus import Gpu
from pliant.testing import RunningMaster, wait_until

BUSY = "held = bytearray(200 << 20)\nwhile True: pass"
JOB = {
    "name": "digits",
    "components": {"need_task_manager": False},
    "roles": {
        "worker": {
            "command": [sys.executable, "-c", BUSY],
            "replicas": 2,
            "resources": {"cpu": 0.5, "memory": "512Mi"},
        },
        "ps": {"command": [sys.executable, "-c", "import time; time.sleep(3600)"], "replicas": 1},
    },
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningMaster]:
    with RunningMaster(tmp_path_factory.mktemp("jobs"), JOB, platform="spec") as master:
        wait_until(lambda: len(programs(master)) == 3, what="all programs to run")
        yield master


def programs(master: RunningMaster) -> list[int]:
    return [node.pid for node in master.status().nodes if node.pid]


def see(monitor: LocalMonitor) -> Observation:
    return asyncio.run(monitor.observe())


def by_name(seen: Observation) -> dict[str, ObservedNode]:
    return {node.name: node for node in seen.nodes}


def test_the_nodes_of_a_real_job_are_seen_with_what_they_ask_for_and_use(running: RunningMaster) -> None:
    monitor = LocalMonitor(running.job_dir.path.parent)
    see(monitor)
    seen = wait_until(
        lambda: found if _is_busy(found := by_name(see(monitor))) else None, what="use to be seen", every=0.2
    )
    assert seen.keys() == {"worker-0", "worker-1", "ps-0"}
    worker = seen["worker-0"]
    assert (worker.namespace, worker.job, worker.role, worker.phase) == ("local", "digits", "worker", "Running")
    assert worker.machine == socket.gethostname()
    assert (worker.asked.cpu, worker.asked.memory_mb) == (0.5, 512.0)
    assert seen["ps-0"].asked.memory_mb == 0.0
    assert seen["ps-0"].role == "ps"


def _is_busy(nodes: dict[str, ObservedNode]) -> bool:
    return all(nodes[name].used.cpu > 0 and nodes[name].used.memory_mb > 200 for name in ("worker-0", "worker-1"))


def test_what_nodes_ask_for_is_not_free_on_their_machine(running: RunningMaster) -> None:
    [machine] = see(LocalMonitor(running.job_dir.path.parent)).machines
    assert machine.is_ready
    assert machine.size.cpu == os.cpu_count()
    assert machine.free.cpu <= machine.size.cpu - 2 * 0.5
    assert machine.free.memory_mb <= machine.size.memory_mb - 2 * 512
    assert 0 < machine.used.memory_mb < machine.size.memory_mb


def test_gpus_are_told_of(tmp_path: Path) -> None:
    [machine] = see(LocalMonitor(tmp_path, lambda: (Gpu("0"), Gpu("1")))).machines
    assert (machine.size.gpu, machine.free.gpu) == (2, 2)


def test_a_job_that_has_ended_and_a_record_whose_number_another_process_has_are_not_seen(tmp_path: Path) -> None:
    job = JobDir(tmp_path / "old")
    job.create()
    asked = {"cpu": 1, "memory_mb": 1, "gpu": 0}
    for name, pid in (("worker-0", os.getpid()), ("worker-1", 1 << 30)):
        (job.nodes / name).mkdir()
        write_json(job.nodes / name / "agent.json", {"pid": pid, "resources": asked})
    (job.nodes / "worker-2").mkdir()
    (job.nodes / "worker-2" / "agent.json").write_text('{"pid": "a"}')
    assert see(LocalMonitor(tmp_path)).nodes == ()


def test_a_node_is_not_seen_any_more_when_its_job_is_over(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(3600)"]
    spec = {"components": {"need_task_manager": False}, "roles": {"worker": {"command": command}}}
    with RunningMaster(tmp_path, spec, platform="spec") as master:
        monitor = LocalMonitor(tmp_path)
        wait_until(lambda: by_name(see(monitor)).keys() == {"worker-0"})
        record = read_json(master.job_dir.nodes / "worker-0" / "agent.json")
        assert record is not None
        master.stop_job()
        assert see(monitor).nodes == ()


def test_a_machine_without_jobs_is_seen(tmp_path: Path) -> None:
    seen = see(LocalMonitor(tmp_path / "missing"))
    assert seen.nodes == ()
    assert json.loads(json.dumps(seen.to_json()))["machines"][0]["name"] == socket.gethostname()
