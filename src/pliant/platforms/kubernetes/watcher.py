"""What happens to a job's Pods, as events of nodes: a list, then a watch that misses nothing (``api.follow``).

Plans of the master are watched as well: a node whose Pod the cluster does not accept has no Pod that could tell. Some
states mean more after a while (an image that still cannot be fetched); they are looked at again then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from pliant.core.nodes.fault_policy import ExitReason
from pliant.platforms.base import NodeEvent, NodeWatcher
from pliant.platforms.kubernetes import names
from pliant.platforms.kubernetes.api import Follower, KubeApi
from pliant.platforms.kubernetes.exits import PodState, pod_state
from pliant.platforms.kubernetes.kinds import PODS, SCALE_PLANS, Object
from pliant.platforms.kubernetes.outbox import OutboxWriter
from pliant.platforms.kubernetes.view import View, is_open

log = logging.getLogger(__name__)

MAX_WATCH_LAG_S = 5.0  # seconds that a watch may lag behind another


class PodWatcher(NodeWatcher):
    def __init__(
        self, api: KubeApi, outbox: OutboxWriter, job: str, namespace: str, view: View, now: Callable[[], float]
    ) -> None:
        self._api = api
        self._outbox = outbox
        self._job = job
        self._namespace = namespace
        self._pods_of_nodes = f"{names.job_selector(job)},{names.NODE_LABEL}"
        self._plans_of_master = f"{names.job_selector(job)},{names.MADE_BY_LABEL}={names.MADE_BY_MASTER}"
        self._view = view
        self._now = now
        self._events: asyncio.Queue[NodeEvent | None] = asyncio.Queue()  # None: a task ended
        self._pods, self._plans = Follower(), Follower()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.on_left_behind: Callable[[str, str], Awaitable[None]] | None = None  # node, why
        self.on_gone: Callable[[str], None] = lambda node: None
        self.on_plan_finished: Callable[[Object], Awaitable[None]] | None = None

    async def list(self) -> list[NodeEvent]:
        self._view.outbox_seen(await self._outbox.read())
        plans = await self._api.list(SCALE_PLANS, self._namespace, labels=self._plans_of_master)
        pods = await self._api.list(PODS, self._namespace, labels=self._pods_of_nodes)
        for change in self._plans.listed(plans):
            self._view.plan_seen(change.object, gone=change.gone)
        for change in self._pods.listed(pods):
            self._view.pod_seen(change.object, now=self._now(), gone=change.gone)
        states = self._view.nodes(now=self._now())
        for state in states:
            self._look_again(state)
        self._begin()
        return [state.event for state in states]

    async def watch(self) -> AsyncIterator[NodeEvent]:
        self._begin()
        while True:
            event = await self._events.get()
            if event is None:
                for task in self._tasks:
                    if task.done():
                        task.result()  # raises what ended it
                continue
            yield event

    def tell(self, event: NodeEvent) -> None:
        self._events.put_nowait(event)

    async def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- inside

    def _begin(self) -> None:
        if not self._tasks:
            self._run(self._follow_pods())
            self._run(self._follow_plans())

    def _run(self, work: Awaitable[None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(lambda _: self._events.put_nowait(None))
        return task

    async def _follow_pods(self) -> None:
        changes = self._api.follow(PODS, self._namespace, labels=self._pods_of_nodes, follower=self._pods)
        async for change in changes:
            self._pod_changed(change.object, change.gone)

    async def _follow_plans(self) -> None:
        changes = self._api.follow(SCALE_PLANS, self._namespace, labels=self._plans_of_master, follower=self._plans)
        async for change in changes:
            for event in self._view.plan_seen(change.object, gone=change.gone):
                self.tell(event)
            if self.on_plan_finished is not None and not change.gone and not is_open(change.object):
                await self.on_plan_finished(change.object)
            for node in self._view.unseen(change.object):
                task = self._run(self._find(node))
                task.add_done_callback(self._tasks.discard)

    async def _find(self, node: str) -> None:
        """A Pod that was made, and that the watch has not reported: late, or gone before it was observed."""
        await asyncio.sleep(MAX_WATCH_LAG_S)
        if node in self._view.seen:
            return
        pod = await self._api.find(PODS, names.pod_name(self._job, node), self._namespace)
        if pod is None and node not in self._view.seen:
            self._view.seen.add(node)
            self.on_gone(node)
            self.tell(NodeEvent(node, False, ExitReason.PREEMPTED, "its Pod was deleted right after creation"))

    def _pod_changed(self, pod: Object, gone: bool) -> None:
        state = self._view.pod_seen(pod, now=self._now(), gone=gone)
        if state is None:
            return
        if gone:
            self.on_gone(state.event.node)
        self.tell(state.event)
        self._look_again(state)

    def _look_again(self, state: PodState) -> None:
        node = state.event.node
        if timer := self._timers.pop(node, None):
            timer.cancel()
        if state.again_in is not None:
            loop = asyncio.get_running_loop()
            self._timers[node] = loop.call_later(state.again_in + 0.1, self._second_look, node)
        if state.left_behind and self.on_left_behind is not None:
            task = self._run(self.on_left_behind(node, f"{node} ended: {state.event.message}"))
            task.add_done_callback(self._tasks.discard)

    def _second_look(self, node: str) -> None:
        self._timers.pop(node, None)
        pod = self._view.pods.get(node)
        if pod is not None:
            state = pod_state(pod, now=self._now())
            self.tell(state.event)
            self._look_again(state)
