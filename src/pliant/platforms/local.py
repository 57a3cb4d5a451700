"""The embedded default: nodes are processes on this machine.

A node is its agent's process. The agent holds a lock on ``nodes/NAME/agent.lock`` from before it is started (the
descriptor is opened here and handed down), so who is alive is known for certain, also to a master that did not start
it, and a node is never started twice. Agents are not bound to the master's life: it may be killed at any time.

There is room as long as what nodes ask for fits the capacity (the machine's, or the spec's). Of CPUs all nodes together may ask
for any number, unless the spec says otherwise, but one node for not more than the machine has. Limits are real where the
system allows it: the agent puts its program into a cgroup. A node that asks for GPUs is given some that no other node has, by
``CUDA_VISIBLE_DEVICES`` (``platforms/gpus.py``); one that asks for none sees those that this process sees.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from pliant.core.errors import PliantError, RetryableError
from pliant.core.nodes.capacity import Capacity, Machine
from pliant.core.nodes.environment import LimitMode, NodeEnvironment, without_node_variables
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.planning.history import Room
from pliant.core.plurals import counted
from pliant.core.resources import Resources
from pliant.files.atomic import read_json, write_json
from pliant.files.locks import FileLock
from pliant.files.private import inherited_umask
from pliant.platforms.base import (
    JobContext,
    NodeEvent,
    NodeLaunch,
    NodeResize,
    NodeWatcher,
    Platform,
    Refusal,
    ScalePlan,
    Scaler,
)
from pliant.platforms.cgroup import CgroupLimit, cgroup_job
from pliant.platforms.gpus import VISIBLE, Gpu, GpuGrant, GpuPool, shared_locks, usable_gpus
from pliant.platforms.own_machine import available_mb, memory_mb
from pliant.platforms.processes import find_marked, kill_marked, send, when_gone
from pliant.platforms.traits import PlatformTraits

log = logging.getLogger(__name__)

FORCE_AFTER_S = 2.0  # beyond the grace, for an agent that is frozen itself


@dataclass(slots=True)
class _Agent:
    node: str
    pid: int
    resources: Resources
    popen: subprocess.Popen[bytes] | None  # None: started by an earlier master
    gpus: tuple[str, ...] = ()  # their names
    asked_at: float | None = None  # when it was sent SIGTERM

    def record(self) -> dict[str, Any]:
        """What a master that did not start it reads."""
        return {"pid": self.pid, "resources": self.resources.to_json(), "gpus": list(self.gpus)}


class LocalPlatform(Platform):
    name = "local"
    traits = PlatformTraits(is_single_machine=True, can_resize=True)

    def __init__(
        self, gpus: Callable[[], Sequence[Gpu]] = usable_gpus, gpu_locks: Callable[[], Path | None] = shared_locks
    ) -> None:
        """``gpus``: those that nodes can be given; ``gpu_locks``: the folder by which jobs know of each other's."""
        self._host: _Host | None = None
        self._find_gpus = gpus
        self._gpu_locks = gpu_locks

    def open(self, context: JobContext) -> tuple[Scaler, NodeWatcher]:
        gpus = self._find_gpus()
        self._host = _Host(context, GpuPool(gpus, self._gpu_locks() if gpus else None))
        return LocalScaler(self._host), LocalWatcher(self._host)

    async def capacity(self) -> Capacity | None:
        return Capacity((self._host.machine,)) if self._host is not None else None

    async def free_room(self) -> Room | None:
        return self._host.room() if self._host is not None else None

    async def close(self) -> None:
        if self._host is not None:
            await self._host.close()


class LocalScaler(Scaler):
    def __init__(self, host: _Host) -> None:
        self._host = host

    async def scale(self, plan: ScalePlan) -> list[Refusal]:
        for removal in plan.remove:
            self._host.remove(removal.node, removal.grace)
        refused = [self._host.resize(resize) for resize in plan.resize]
        refused += [self._host.launch(launch) for launch in plan.launch]
        return [refusal for refusal in refused if refusal is not None]

    def check_resize(self, wanted: Sequence[NodeResize]) -> list[Refusal]:
        return self._host.check_resize(wanted)


class LocalWatcher(NodeWatcher):
    def __init__(self, host: _Host) -> None:
        self._host = host

    async def list(self) -> list[NodeEvent]:
        return await self._host.find()

    async def watch(self) -> AsyncIterator[NodeEvent]:
        while True:
            yield await self._host.events.get()


class _Host:
    """The nodes of one job on this machine."""

    def __init__(self, context: JobContext, gpus: GpuPool) -> None:
        self._context = context
        self._gpus = gpus
        self._nodes_dir = context.job_dir / "nodes"
        self._agents: dict[str, _Agent] = {}
        self._watching: set[asyncio.Task[None]] = set()
        self.events: asyncio.Queue[NodeEvent] = asyncio.Queue()
        options = context.options.get("local", {})
        self._options: Mapping[str, Any] = options if isinstance(options, Mapping) else {}
        self._capacity = self._find_capacity()
        self.machine = self._find_machine()

    def launch(self, launch: NodeLaunch) -> Refusal | None:
        if launch.node in self._agents:
            return None
        if problem := self._no_room(launch.resources):
            return Refusal(launch.node, problem, unschedulable=True)
        folder = self._nodes_dir / launch.node
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / "agent.lock")
        if not lock.try_acquire():
            return Refusal(launch.node, "processes of an earlier master are still running", unschedulable=True)
        if (folder / "agent.json").exists():  # it was there, and ended: a name is used once
            lock.release()
            self.events.put_nowait(self._end_of(launch.node, None))
            return None
        grant = self._gpus.take(launch.resources.gpu, self._gpus_in_use())
        if isinstance(grant, str):
            lock.release()
            return Refusal(launch.node, grant, unschedulable=True)
        try:
            popen = self._spawn(launch, folder, lock.fd, grant)
        except OSError as error:
            return Refusal(launch.node, f"cannot start its agent: {error}", unschedulable=False)
        finally:
            lock.release()  # this copy; the agent has its own
            grant.release()
        agent = _Agent(launch.node, popen.pid, launch.resources, popen, grant.names)
        write_json(folder / "agent.json", agent.record())
        self._follow(agent)
        return None

    def resize(self, wanted: NodeResize) -> Refusal | None:
        """The record is written before the group is looked for: an agent that makes its group now reads it after that."""
        if refused := self.check_resize([wanted]):
            return refused[0]
        agent, resources = self._agents[wanted.node], wanted.resources
        record = {**agent.record(), "resources": resources.to_json()}
        write_json(self._nodes_dir / wanted.node / "agent.json", record)
        try:
            if (group := self._group_of(wanted.node)) is not None:
                group.resize(memory_mb=resources.memory_mb, cpu=resources.cpu)
        except PliantError as error:
            write_json(self._nodes_dir / wanted.node / "agent.json", agent.record())
            return Refusal(wanted.node, error.message, unschedulable=True)
        agent.resources = resources
        return None

    def check_resize(self, wanted: Sequence[NodeResize]) -> list[Refusal]:
        """Of all together: there must be room for them, and for what each program holds already."""
        after = {name: agent.resources for name, agent in self._agents.items()}
        after |= {resize.node: resize.resources for resize in wanted}
        refused = []
        for resize in wanted:
            others = [resources for name, resources in after.items() if name != resize.node]
            agent, asked = self._agents.get(resize.node), resize.resources
            problem = "it does not exist" if agent is None else self._no_room(asked, others)
            if agent is not None and not problem and asked.gpu != agent.resources.gpu:
                problem = f"{counted(asked.gpu, 'GPU')} requested; the GPUs of a running program cannot be changed"
            if agent is not None and not problem and 0 < asked.memory_mb < (held := self._held_mb(agent)):
                problem = f"{asked.memory_mb} MB requested, but its program uses {held} MB"
            if problem:
                refused.append(Refusal(resize.node, problem, unschedulable=True))
        return refused

    def remove(self, node: str, grace: float) -> None:
        """Ask, then force. Called again and again until the node is gone."""
        agent = self._agents.get(node)
        if agent is None:
            self._gone_without_trace(node)
            return
        now = time.monotonic()
        if grace <= 0 or (agent.asked_at is not None and now > agent.asked_at + grace + FORCE_AFTER_S):
            self._signal(agent, signal.SIGKILL)
        elif agent.asked_at is None:
            agent.asked_at = now
            self._signal(agent, signal.SIGTERM)

    async def find(self) -> list[NodeEvent]:
        """Every node that ever had a folder: alive if its lock is held."""
        found = []
        for folder in sorted(self._nodes_dir.glob("*/")):
            node = folder.name
            if node not in self._agents and FileLock(folder / "agent.lock").is_held():
                record = await self._record_of(folder)
                if record is not None:
                    resources, gpus = Resources.from_json(record["resources"]), tuple(record.get("gpus", ()))
                    self._follow(_Agent(node, record["pid"], resources, None, gpus))
            if node in self._agents:
                found.append(NodeEvent(node, True))
                continue
            await asyncio.to_thread(self._sweep, node)
            if (folder / "agent.json").exists():  # else an earlier master died before it started anything
                found.append(self._end_of(node, None))
        return found

    def room(self) -> Room:
        """The cores that nothing runs on, and the memory that nobody uses, both no more than the spec leaves to the job."""
        have, cores = self._capacity, float(os.cpu_count() or 1)
        idle = psutil.cpu_times_percent().idle / 100 * cores  # since the last question
        asked = [agent.resources for agent in self._agents.values()]
        free_cpu = min(idle, have.cpu - sum(each.cpu for each in asked))
        free_mb = min(available_mb(), have.memory_mb - sum(each.memory_mb for each in asked))
        return Room(max(0.0, free_cpu), max(0.0, free_mb), self.machine.cpu or 0.0, float(self.machine.memory_mb or 0))

    async def close(self) -> None:
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)

    # --- inside

    def _gpus_in_use(self) -> set[str]:
        return {name for agent in self._agents.values() for name in agent.gpus}

    def _spawn(self, launch: NodeLaunch, folder: Path, lock_fd: int, grant: GpuGrant) -> subprocess.Popen[bytes]:
        context = self._context
        environment = replace(
            launch.environment,
            job=context.job,
            job_dir=context.job_dir,
            node=launch.node,
            role=launch.role,
            master_addr=context.master_addr,
            token_file=context.token_file,
            tls_dir=context.tls_dir,
            is_supervised=NodeEnvironment.from_env(os.environ).is_supervised,
            node_dir=folder,
            log_file=context.job_dir / "logs" / f"{launch.node}.log",
            memory_mb=launch.resources.memory_mb,
            cpu=launch.resources.cpu,
            gpus=grant.names,
            limits=LimitMode(self._options.get("limits", LimitMode.AUTO)),
        )
        variables = {**without_node_variables({**os.environ, **launch.env}), **environment.to_env()}
        if grant.names:
            variables[VISIBLE] = ",".join(grant.names)
            if VISIBLE not in os.environ:  # then the numbers are ours, and in this order
                variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        with (context.job_dir / "logs" / "agents.log").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "pliant.agent", "--", *launch.command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**variables, "PYTHONUNBUFFERED": "1"},
                cwd=launch.working_dir or None,
                start_new_session=True,
                pass_fds=(lock_fd, *grant.descriptors),
                umask=inherited_umask(),
            )

    def _follow(self, agent: _Agent) -> None:
        self._agents[agent.node] = agent
        task = asyncio.get_running_loop().create_task(self._until_gone(agent))
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)

    async def _until_gone(self, agent: _Agent) -> None:
        await when_gone(agent.pid)
        code = agent.popen.wait() if agent.popen is not None else None
        await asyncio.to_thread(self._sweep, agent.node)
        self._agents.pop(agent.node, None)
        self.events.put_nowait(self._end_of(agent.node, code))

    def _end_of(self, node: str, code: int | None) -> NodeEvent:
        """What its agent wrote as its last act, else how the process ended."""
        record = read_json(self._nodes_dir / node / "exit.json")
        if record is not None:
            return NodeEvent(node, False, ExitReason(record["exit_reason"]), record["message"])
        if code == -signal.SIGTERM:
            return NodeEvent(node, False, ExitReason.PREEMPTED, "preempted before its agent was ready")
        if code is not None and code < 0:
            return NodeEvent(node, False, ExitReason.KILLED, f"its agent was killed by {signal.Signals(-code).name}")
        if code is not None:
            return NodeEvent(
                node, False, ExitReason.UNKNOWN, f"its agent ended with exit code {code}; check agents.log"
            )
        return NodeEvent(node, False, ExitReason.KILLED, "its agent no longer exists")

    def _sweep(self, node: str) -> None:
        """What a killed agent leaves behind: processes of its program that escaped the kernel's notice, the cgroup."""
        kill_marked(NodeEnvironment.marks(job_dir=self._context.job_dir, node=node))
        if (group := self._group_of(node)) is not None:
            try:
                group.remove()
            except (RetryableError, OSError) as error:  # the node's end is reported all the same
                log.warning("cannot remove the cgroup of %s: %s", node, error)

    def _group_of(self, node: str) -> CgroupLimit | None:
        return CgroupLimit.find(cgroup_job(self._context.job, self._context.job_dir), node)

    def _held_mb(self, agent: _Agent) -> int:
        """Memory of its program: of its cgroup, else of what its agent started."""
        if (group := self._group_of(agent.node)) is not None:
            return group.read().memory_bytes >> 20
        held = 0
        with contextlib.suppress(psutil.Error):
            for process in psutil.Process(agent.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    held += process.memory_info().rss
        return held >> 20

    def _gone_without_trace(self, node: str) -> None:
        folder = self._nodes_dir / node
        if not folder.exists() or not FileLock(folder / "agent.lock").is_held():
            self.events.put_nowait(NodeEvent(node, False, ExitReason.KILLED, "it was removed"))

    async def _record_of(self, folder: Path) -> dict[str, Any] | None:
        """The agent's record; a master that died between starting it and writing this left none, the agent writes it."""
        for _ in range(100):
            if (record := read_json(folder / "agent.json")) is not None:
                return record
            await asyncio.sleep(0.05)
        return None

    def _find_capacity(self) -> Resources:
        wanted = self._options.get("capacity") or {}
        cpu = float(wanted.get("cpu") or 0) or float("inf")  # more programs than cores only run slower
        memory = int(wanted.get("memory") or 0) or memory_mb()
        return Resources(cpu, memory, len(self._gpus))

    def _find_machine(self) -> Machine:
        """What one node can have: of CPUs, unless the spec says otherwise, not more than there are."""
        have = self._capacity
        cpu = have.cpu if math.isfinite(have.cpu) else float(os.cpu_count() or 1)
        return Machine(cpu, have.memory_mb, have.gpu)

    def _no_room(self, asked: Resources, others: Sequence[Resources] | None = None) -> str:
        """``others``: what the other nodes have; None: as it is now."""
        others = [agent.resources for agent in self._agents.values()] if others is None else others
        used_cpu = sum(other.cpu for other in others)
        used_memory = sum(other.memory_mb for other in others)
        have = self._capacity
        if used_memory + asked.memory_mb > have.memory_mb:
            return f"{asked.memory_mb} MB requested; {have.memory_mb - used_memory} of {have.memory_mb} MB available"
        if used_cpu + asked.cpu > have.cpu:
            return f"{asked.cpu:g} CPUs requested; {have.cpu - used_cpu:g} of {have.cpu:g} available"
        if (most := self.machine.cpu) is not None and asked.cpu > most:
            return f"{asked.cpu:g} CPUs requested; the machine has {most:g}"
        return ""

    @staticmethod
    def _signal(agent: _Agent, number: int) -> None:
        if agent.popen is not None and agent.popen.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(agent.pid, number)


def revive(job_dir: Path) -> subprocess.Popen[bytes] | None:
    """Start a supervisor if nobody keeps the job's master alive any more. It exits if another agent was faster.

    For an agent that cannot reach its master. The supervisor is no part of the agent's node, so it gets no marks of it.
    """
    if not NodeEnvironment.from_env(os.environ).is_supervised:
        return None
    if (job_dir / "summary.json").exists() or not (job_dir / "job.yaml").exists():
        return None
    if FileLock(job_dir / "launcher.lock").is_held():
        return None
    log.warning("neither launcher nor master is running; starting a supervisor")
    with (job_dir / "logs" / "master.log").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "pliant.master.supervisor", "--job-dir", str(job_dir)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={k: v for k, v in os.environ.items() if not k.startswith("PLIANT_") or k == "PLIANT_HOME"},
            cwd="/",
            start_new_session=True,
        )


def sweep_job(job_dir: Path) -> None:
    """End whatever runs for a job that has no master and will have none."""
    marks = NodeEnvironment.marks(job_dir=job_dir)
    left = find_marked(marks)
    nodes = set()
    for process in left:
        with contextlib.suppress(psutil.Error, PliantError):
            environment = NodeEnvironment.from_env(process.environ())
            if environment.node:
                nodes.add((environment.job, environment.node))
    kill_marked(marks)
    for job, node in nodes:
        try:
            if (group := CgroupLimit.find(cgroup_job(job, job_dir), node)) is not None:
                group.remove()
        except (RetryableError, OSError) as error:
            log.warning("cannot remove the cgroup of %s: %s", node, error)


def ask_agents_to_end(job_dir: Path) -> list[psutil.Process]:
    """Send SIGTERM to the agents of a job, which pass it on to their programs; returns all processes of the job."""
    left = find_marked(NodeEnvironment.marks(job_dir=job_dir))
    for process in left:
        with contextlib.suppress(psutil.Error, PliantError):
            if NodeEnvironment.from_env(process.environ()).incarnation is None:  # a program has one
                send(process, signal.SIGTERM)
    return left
