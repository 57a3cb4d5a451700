"""This machine, and the nodes of jobs that run on it.

Jobs are those under ``PLIANT_HOME``, as ``pliant jobs`` lists them. A node is its agent's process with all below it: by its record
in the job's folder, if job and node in the environment of that process are the same. No lock of an agent is touched: asking for
one would be in the way of a master that starts that node. Masters are not told of: they ask for nothing here.

Only Pliant's nodes ask for anything here; of all other programs, and of nodes without limits, what they use counts as asked for.
CPU is measured between two observations, so of what was not there at the one before only memory is known.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from pliant.agent.usage import UsageSampler
from pliant.core.errors import PliantError
from pliant.core.nodes.environment import NodeEnvironment
from pliant.core.resources import Resources
from pliant.files.atomic import read_json
from pliant.files.home import pliant_home
from pliant.master.job_dir import JobDir
from pliant.monitors.base import Amounts, ClusterMonitor, Observation, ObservedMachine, ObservedNode
from pliant.platforms.cgroup import CgroupLimit, CgroupReading, cgroup_job
from pliant.platforms.gpus import Gpu, usable_gpus
from pliant.platforms.own_machine import available_mb, memory_mb
from pliant.rpc.brain.identity import LOCAL_NAMESPACE

RUNNING = "Running"


@dataclass(frozen=True, slots=True)
class _LivingNode:
    """By its record, and checked: the process is what the record says."""

    job_dir: Path
    job: str
    name: str
    role: str
    pid: int
    asked: Amounts

    @property
    def key(self) -> tuple[Path, str, int]:
        return self.job_dir, self.name, self.pid


class LocalMonitor(ClusterMonitor):
    platform = "local"

    def __init__(self, home: Path | None = None, gpus: Callable[[], Sequence[Gpu]] = usable_gpus) -> None:
        """``home``: the folder of jobs."""
        self._home = home or pliant_home() / "jobs"
        self._gpus = len(gpus())
        self._samplers: dict[tuple[Path, str, int], UsageSampler] = {}
        self._now = time.monotonic()  # one moment for all nodes of an observation
        self._cpu = _MachineCpu()

    async def observe(self) -> Observation:
        return await asyncio.to_thread(self._observe)

    def _observe(self) -> Observation:
        self._now = time.monotonic()
        host = socket.gethostname()
        found = list(living_nodes(self._home))
        nodes = tuple(
            ObservedNode(LOCAL_NAMESPACE, node.job, node.name, node.role, RUNNING, host, node.asked, self._use_of(node))
            for node in found
        )
        there = {node.key for node in found}
        self._samplers = {key: sampler for key, sampler in self._samplers.items() if key in there}
        return Observation((self._machine(host, nodes),), nodes)

    def _machine(self, host: str, nodes: tuple[ObservedNode, ...]) -> ObservedMachine:
        size = Amounts(self._cpu.cores, float(memory_mb()), self._gpus)
        used = Amounts(self._cpu.used(), max(0.0, size.memory_mb - available_mb()))
        ours = sum((node.used for node in nodes), Amounts())
        asked = sum((_asked_or_used(node) for node in nodes), Amounts())
        return ObservedMachine(host, size, free=size.without(asked + used.without(ours)), used=used)

    def _use_of(self, node: _LivingNode) -> Amounts:
        if node.key not in self._samplers:
            group = partial(_read_group, cgroup_job(node.job, node.job_dir), node.name)
            self._samplers[node.key] = UsageSampler(node.pid, group, clock=lambda: self._now)
        usage = self._samplers[node.key].sample()
        return Amounts(usage.cpu, usage.memory_mb)


class _MachineCpu:
    """Cores that all programs of the machine use. (psutil's own measure is kept apart for each thread.)"""

    def __init__(self) -> None:
        self.cores = float(os.cpu_count() or 1)
        self._busy, self._total = self._read()

    def used(self) -> float:
        """Since the call before."""
        busy, total = self._read()
        share = (busy - self._busy) / (total - self._total) if total > self._total else 0.0
        self._busy, self._total = busy, total
        return min(1.0, max(0.0, share)) * self.cores

    @staticmethod
    def _read() -> tuple[float, float]:
        times = psutil.cpu_times()
        total = (
            sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        )  # in user and nice already
        return total - times.idle - getattr(times, "iowait", 0.0), total


def living_nodes(home: Path) -> Iterator[_LivingNode]:
    """Of all jobs that have not ended."""
    for folder in sorted(home.iterdir()) if home.is_dir() else ():
        job = JobDir(folder)
        if job.summary_file.exists():
            continue
        for record in sorted(job.nodes.glob("*/agent.json")):
            with contextlib.suppress(OSError, KeyError, ValueError, psutil.Error, PliantError):
                if (node := _living_node(job.path, record)) is not None:
                    yield node


def _living_node(job_dir: Path, record_file: Path) -> _LivingNode | None:
    """None: it has ended. Of a record that is damaged, or not ours to read, an error."""
    record, name = read_json(record_file), record_file.parent.name
    if record is None:
        return None
    pid = int(record["pid"])
    environment = NodeEnvironment.from_env(psutil.Process(pid).environ())
    if environment.node != name or environment.job_dir is None or not environment.job_dir.samefile(job_dir):
        return None  # the number was given to another process
    asked = Amounts.of(Resources.from_json(record["resources"]))  # as it is since the last resize
    return _LivingNode(environment.job_dir, environment.job, name, environment.role, pid, asked)


def _read_group(job: str, node: str) -> CgroupReading | None:
    """Of the node's program; None: it has no group, or not any more."""
    try:
        group = CgroupLimit.find(job, node)
        return group.read() if group is not None else None
    except OSError:
        return None


def _asked_or_used(node: ObservedNode) -> Amounts:
    asked, used = node.asked, node.used
    return Amounts(asked.cpu or used.cpu, asked.memory_mb or used.memory_mb, asked.gpu)
