"""Jobs of the other tests, on Ray: the same programs and faults, with nodes that get their variables from the job's spec."""

from __future__ import annotations

import os
from typing import Any

import psutil
import yaml

from pliant.testing.jobs import LocalJob


def move_to_ray(job: LocalJob, address: str, *, cpu: float = 0.0) -> None:
    """Before it is started."""
    spec: dict[str, Any] = yaml.safe_load(job.yaml.read_text())
    given = {name: value for name, value in job._env.items() if os.environ.get(name) != value and name != "PLIANT_HOME"}
    worker = spec["roles"]["worker"]
    worker["env"] = {**given, **worker.get("env", {})}
    if cpu:
        worker["resources"] = {"cpu": cpu}
    spec["platform"] = {"kind": "ray", "ray": {"address": address}}
    job.yaml.write_text(yaml.safe_dump(spec))


def actor_of(pid: int) -> psutil.Process:
    """The actor's process that a process descends from."""
    return next(parent for parent in psutil.Process(pid).parents() if parent.cmdline()[0].startswith("ray::"))


def raylet_of(pid: int) -> psutil.Process:
    return next(parent for parent in psutil.Process(pid).parents() if parent.name() == "raylet")
