"""The two sides that ``operator_scale`` plays: masters, by the real code of a master's platform, and a kubelet that only tells.

A ``Master`` has what a master in its Pod has of Kubernetes: the scaler that writes ScalePlans, the watcher of its Pods and
plans, the control channel with its change requests, and a report of its state when that changed. It trains nothing. Each has a
client of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

from tests.kubernetes.fake_kubelet import running

from pliant.core.errors import NotFound
from pliant.core.job import Phase
from pliant.core.resources import Resources
from pliant.core.status import JobStatus, RoleStatus
from pliant.master.components.status_reporter import REPORT_INTERVAL_S
from pliant.platforms.base import JobContext, NodeLaunch, NodeRemoval, ScalePlan
from pliant.platforms.kubernetes.api import KubeApi, WatchEvent
from pliant.platforms.kubernetes.kinds import PODS, Kind, Object
from pliant.platforms.kubernetes.names import ROLE_LABEL
from pliant.platforms.kubernetes.platform import KubernetesPlatform

WATCH_SECONDS = 20  # in earnest some minutes
AT_ONCE = 32  # requests of a bare client, and of the kubelet
WORKERS = f"{ROLE_LABEL}=worker"


class RenewingApi(KubeApi):
    """Ends its watches early, so that a short bench sees many of them end and go on."""

    watch_seconds = WATCH_SECONDS

    def watch(self, kind: Kind, namespace: str = "", **options: Any) -> AsyncIterator[WatchEvent]:
        return super().watch(kind, namespace, **{**options, "seconds": self.watch_seconds})


class Master:
    def __init__(self, kubeconfig: Path, job: str, namespace: str) -> None:
        self.job = job
        self.alive: set[str] = set()
        self.bound: set[str] = set()
        self._api = RenewingApi.load(kubeconfig)
        self._platform = KubernetesPlatform(self._api, namespace)
        nowhere = Path("/nonexistent")
        self._scaler, self._watcher = self._platform.open(JobContext(job, nowhere, "", nowhere))
        self._tasks: list[asyncio.Task[None]] = []
        self._changed = asyncio.Condition()

    async def start(self) -> None:
        for event in await self._watcher.list():
            self._see(event.node, event.alive, event.host)
        self._tasks = [asyncio.create_task(work) for work in (self._watch(), self._change_requests(), self._reports())]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._platform.close()
        await self._api.close()

    # --- what it does

    async def launch(self, nodes: list[str]) -> None:
        asked = Resources(cpu=0.1, memory_mb=64)
        launches = tuple(NodeLaunch(node, "worker", asked, ()) for node in nodes)
        await self._scaler.scale(ScalePlan(launch=launches, reason="the bench says so"))

    async def remove(self, nodes: list[str]) -> None:
        removals = tuple(NodeRemoval(node, 1.0) for node in nodes)
        await self._scaler.scale(ScalePlan(remove=removals, reason="the bench says so"))

    async def until(self, happened: Callable[[Master], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: happened(self))

    # --- what it sees and tells

    def _see(self, node: str, alive: bool, host: str) -> None:
        (self.alive.add if alive else self.alive.discard)(node)
        (self.bound.add if alive and host else self.bound.discard)(node)

    async def _watch(self) -> None:
        async for event in self._watcher.watch():
            self._see(event.node, event.alive, event.host)
            async with self._changed:
                self._changed.notify_all()

    async def _change_requests(self) -> None:
        channel = self._platform.control_channel()
        assert channel is not None
        async for request in channel.requests():
            await channel.answer(request, "")

    async def _reports(self) -> None:
        """As ``pliant.master.components.status_reporter``: when it changed, and not more often than the master does."""
        channel, sent = self._platform.control_channel(), None
        assert channel is not None
        while True:
            ready, there = len(self.bound), len(self.alive)
            worker = RoleStatus("worker", min=1, max=there, wanted=there, ready=ready, pending=there - ready)
            report = JobStatus(self.job, Phase.RUNNING, roles=(worker,))
            if report != sent:
                await channel.report(report)
                sent = report
            await asyncio.sleep(REPORT_INTERVAL_S)


class Kubelet:
    """For Pods in crowds: says of bound ones that they run, and removes those that are asked to go."""

    def __init__(self, api: KubeApi, namespace: str) -> None:
        self.stamped = 0  # Pods that were asked to go
        self._api, self._namespace = api, namespace
        self._addresses = itertools.count(1)
        self._turn = asyncio.Semaphore(AT_ONCE)
        self.running: set[str] = set()  # uids of Pods that run
        self._told: set[str] = set()
        self._ending: set[str] = set()
        self._work: set[asyncio.Task[None]] = set()
        self._runs = False
        self._known: dict[str, Object] = {}
        self._task = asyncio.create_task(self._follow())

    def start(self) -> None:
        """From now on bound Pods run; until then they wait, as on a machine that is busy."""
        self._runs = True
        for pod in list(self._known.values()):
            self._look(pod)

    async def stop(self) -> None:
        for task in (self._task, *self._work):
            task.cancel()
        await asyncio.gather(self._task, *self._work, return_exceptions=True)

    async def _follow(self) -> None:
        async for change in self._api.follow(PODS, self._namespace, labels=WORKERS):
            uid = change.object["metadata"]["uid"]
            if change.gone:
                self._known.pop(uid, None)
                self.running.discard(uid)
                self._asked_to_go(uid)  # at the latest now: a watch that broke off may have missed it
                continue
            self._known[uid] = change.object
            if (change.object.get("status") or {}).get("phase") == "Running":
                self.running.add(uid)
            self._look(change.object)

    def _look(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if pod["metadata"].get("deletionTimestamp"):
            if self._asked_to_go(uid):
                self._do(self._remove(pod))
        elif self._runs and pod["spec"].get("nodeName") and uid not in self._told:
            self._told.add(uid)
            self._do(self._run(pod))

    def _asked_to_go(self, uid: str) -> bool:
        """Whether this is the first time that it is seen."""
        if uid in self._ending:
            return False
        self._ending.add(uid)
        self.stamped += 1
        return True

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _run(self, pod: Object) -> None:
        patch = {"status": running(pod, next(self._addresses))}
        async with self._turn:
            with contextlib.suppress(NotFound):
                await self._api.patch(PODS, pod["metadata"]["name"], patch, self._namespace, subresource="status")

    async def _remove(self, pod: Object) -> None:
        async with self._turn:
            await self._api.delete(PODS, pod["metadata"]["name"], self._namespace, grace=0.0)
