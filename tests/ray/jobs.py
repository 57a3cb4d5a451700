"""Jobs of the other tests, on Ray: the same programs and faults, with nodes that get their variables from the job's spec."""

from __future__ import annotations

import os
import zlib
from typing import Any

import psutil
import yaml

from pliant.core.status import JobStatus, NodeStatus
from pliant.testing.jobs import LocalJob

LONG_S = 400.0  # seconds that a failure takes


def move_to_ray(job: LocalJob, address: str, *, cpu: float = 0.0) -> None:
    """Before it is started."""
    spec: dict[str, Any] = yaml.safe_load(job.yaml.read_text())
    job.name = spec["name"] = unique_name(job)
    given = {name: value for name, value in job._env.items() if os.environ.get(name) != value and name != "PLIANT_HOME"}
    worker = spec["roles"]["worker"]
    worker["env"] = {**given, **worker.get("env", {})}
    if cpu:
        worker["resources"] = {"cpu": cpu}
    spec["platform"] = {"kind": "ray", "ray": {"address": address}}
    spec["fault"] = {
        "heartbeat_timeout": 60,
        **spec.get("fault", {}),
    }  # seconds; Ray tells of deaths, a starved agent lives
    job.yaml.write_text(yaml.safe_dump(spec))


def unique_name(job: LocalJob) -> str:
    """All tests share a cluster, on which no two jobs have the same name."""
    return f"{job.name}-{zlib.crc32(str(job.folder).encode()):08x}"


def wait_until_all_work(job: LocalJob, workers: int) -> None:
    """Until this many workers have done something. Ray starts an interpreter with its client for the master and for each node."""
    what = f"{workers} workers that work"
    job.wait_for(
        lambda s: sum(n.state == "Running" and n.pid > 0 and n.records > 0 for n in s.nodes) == workers, what, LONG_S
    )


def wait_until_runs(job: LocalJob, node: str) -> NodeStatus:
    def running(status: JobStatus) -> NodeStatus | None:
        return next((n for n in status.nodes if n.name == node and n.state == "Running" and n.pid), None)

    return job.wait_for(running, f"the program of {node}", LONG_S)


def actor_of(pid: int) -> psutil.Process:
    """The actor's process that a process descends from."""
    return next(parent for parent in psutil.Process(pid).parents() if parent.cmdline()[0].startswith("ray::"))


def raylet_of(pid: int) -> psutil.Process:
    return next(parent for parent in psutil.Process(pid).parents() if parent.name() == "raylet")
