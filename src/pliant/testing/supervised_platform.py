"""A small platform with real nodes: agents as child processes of a supervisor in this process's memory.

It is the shortest complete example of a platform (``docs/platforms.md`` walks through it): a supervisor that outlives the
masters which open it, a ``Scaler`` and a ``NodeWatcher`` on top, and an entry point. Unlike ``FakePlatform`` it runs programs;
unlike ``local`` it needs no files of its own and forgets its nodes when this process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

from pliant.core.nodes.capacity import Capacity, Machine
from pliant.core.nodes.environment import LimitMode, without_node_variables
from pliant.core.nodes.fault_policy import ExitReason
from pliant.files.atomic import read_json
from pliant.platforms.base import (
    JobContext,
    NodeEvent,
    NodeLaunch,
    NodeRemoval,
    NodeWatcher,
    Platform,
    Refusal,
    ScalePlan,
    Scaler,
)
from pliant.platforms.traits import PlatformTraits
from pliant.testing.waiting import MAX_WAIT_S


@dataclass(slots=True)
class _Node:
    process: subprocess.Popen[bytes]
    cpu: float
    last_words: Path
    end: NodeEvent | None = None  # None: it runs
    kill_timer: threading.Timer | None = None


class Supervisor:
    """All nodes of one job. Its methods may be called from any thread."""

    def __init__(self, cpu: float = float("inf")) -> None:
        self._cpu = cpu
        self._nodes: dict[str, _Node] = {}
        self._watchers: list[SupervisedWatcher] = []
        self._changed = threading.Condition()

    @property
    def max_cpu(self) -> float | None:
        return self._cpu if math.isfinite(self._cpu) else None

    def launch(self, launch: NodeLaunch, context: JobContext) -> Refusal | None:
        with self._changed:
            if (known := self._nodes.get(launch.node)) is not None:  # a name is used once
                if known.end is not None:
                    self._publish(known.end)
                return None
            free = self._cpu - sum(node.cpu for node in self._nodes.values() if node.end is None)
            if launch.resources.cpu > free:
                message = f"{launch.resources.cpu:g} CPUs requested, {free:g} available"
                return Refusal(launch.node, message, unschedulable=True)
            last_words = context.job_dir / f"{launch.node}.exit.json"
            try:
                process = _start_agent(launch, context, last_words)
            except OSError as error:
                return Refusal(launch.node, f"cannot start its agent: {error}", unschedulable=False)
            self._nodes[launch.node] = node = _Node(process, launch.resources.cpu, last_words)
        threading.Thread(target=self._wait, args=(launch.node, node), name=f"wait-{launch.node}", daemon=True).start()
        return None

    def remove(self, removal: NodeRemoval) -> None:
        """Terminate, and kill after the grace period. May be repeated until the node is gone."""
        with self._changed:
            node = self._nodes.get(removal.node)
            if node is None:
                self._publish(NodeEvent(removal.node, False, ExitReason.KILLED, "no such node"))
            elif node.end is not None:
                self._publish(node.end)
            elif removal.grace <= 0:
                node.process.kill()
            elif node.kill_timer is None:
                node.process.terminate()
                node.kill_timer = threading.Timer(removal.grace, node.process.kill)
                node.kill_timer.daemon = True
                node.kill_timer.start()

    def list(self) -> list[NodeEvent]:
        with self._changed:
            return [node.end or NodeEvent(name, True) for name, node in self._nodes.items()]

    def subscribe(self, watcher: SupervisedWatcher) -> None:
        with self._changed:
            self._watchers.append(watcher)

    def unsubscribe(self, watcher: SupervisedWatcher) -> None:
        with self._changed:
            self._watchers.remove(watcher)

    def kill_node(self, name: str, timeout: float = MAX_WAIT_S) -> None:
        """``kill -9`` of a node's agent; returns when its end is known."""
        self._nodes[name].process.kill()
        with self._changed:
            assert self._changed.wait_for(lambda: self._nodes[name].end is not None, timeout), f"{name} did not end"

    def close(self) -> None:
        """Kill everything that is left."""
        with self._changed:
            running = [name for name, node in self._nodes.items() if node.end is None]
        for name in running:
            self.kill_node(name)

    def _wait(self, name: str, node: _Node) -> None:
        code = node.process.wait()
        with self._changed:
            if node.kill_timer is not None:
                node.kill_timer.cancel()
            node.end = _end_of(name, code, node.last_words)
            self._publish(node.end)
            self._changed.notify_all()

    def _publish(self, event: NodeEvent) -> None:
        for watcher in self._watchers:
            watcher.publish(event)


class SupervisedScaler(Scaler):
    def __init__(self, supervisor: Supervisor, context: JobContext) -> None:
        self._supervisor = supervisor
        self._context = context

    async def scale(self, plan: ScalePlan) -> list[Refusal]:
        for removal in plan.remove:
            self._supervisor.remove(removal)
        refusals = [self._supervisor.launch(launch, self._context) for launch in plan.launch]
        return [refusal for refusal in refusals if refusal is not None]


class SupervisedWatcher(NodeWatcher):
    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[NodeEvent] = asyncio.Queue()

    def publish(self, event: NodeEvent) -> None:
        with contextlib.suppress(RuntimeError):  # the loop of a master that is gone
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def list(self) -> list[NodeEvent]:
        return self._supervisor.list()

    async def watch(self) -> AsyncIterator[NodeEvent]:
        while True:
            yield await self._events.get()


class SupervisedPlatform(Platform):
    """``platform: {kind: supervised, options: {cpu: 4}}``, where an entry point names this class."""

    name = "supervised"
    traits = PlatformTraits(is_single_machine=True)

    _supervisors: dict[Path, Supervisor] = {}  # noqa: RUF012  (by job: they outlive the masters that open them)

    def __init__(self) -> None:
        self._supervisor: Supervisor | None = None
        self._watcher: SupervisedWatcher | None = None

    @classmethod
    def supervisor_of(cls, job_dir: Path) -> Supervisor:
        return cls._supervisors[job_dir]

    def open(self, context: JobContext) -> tuple[Scaler, NodeWatcher]:
        options = context.options.get("options")
        cpu = float(options["cpu"]) if isinstance(options, dict) and "cpu" in options else float("inf")
        self._supervisor = self._supervisors.setdefault(context.job_dir, Supervisor(cpu))
        self._watcher = SupervisedWatcher(self._supervisor)
        self._supervisor.subscribe(self._watcher)
        return SupervisedScaler(self._supervisor, context), self._watcher

    async def capacity(self) -> Capacity | None:
        return Capacity((Machine(cpu=self._supervisor.max_cpu),)) if self._supervisor is not None else None

    async def close(self) -> None:
        if self._supervisor is not None and self._watcher is not None:
            self._supervisor.unsubscribe(self._watcher)


def _start_agent(launch: NodeLaunch, context: JobContext, last_words: Path) -> subprocess.Popen[bytes]:
    environment = replace(
        launch.environment,
        job=context.job,
        job_dir=context.job_dir,
        node=launch.node,
        role=launch.role,
        master_addr=context.master_addr,
        token_file=context.token_file,
        tls_dir=context.tls_dir,
        log_file=context.job_dir / f"{launch.node}.log",
        last_words=last_words,
        limits=LimitMode.OFF,
    )
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "pliant.agent", "--", *launch.command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**without_node_variables({**os.environ, **launch.env}), **environment.to_env()},
        cwd=launch.working_dir or None,
        start_new_session=True,
    )


def _end_of(node: str, code: int, last_words: Path) -> NodeEvent:
    """What the agent left as its last words; else how its process ended."""
    if (left := read_json(last_words)) is not None:
        return NodeEvent(node, False, ExitReason(left["exit_reason"]), left["message"])
    if code == -signal.SIGTERM:
        return NodeEvent(node, False, ExitReason.PREEMPTED, "its agent was terminated before it was ready")
    if code < 0:
        return NodeEvent(node, False, ExitReason.KILLED, f"its agent was killed by {signal.Signals(-code).name}")
    return NodeEvent(node, False, ExitReason.UNKNOWN, f"its agent ended with exit code {code}")
