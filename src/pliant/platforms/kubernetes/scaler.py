"""The master's requests for Pods, as plans in its outbox. The operator makes ScalePlans of them and executes them, in the order of
their numbers.

A plan is written once: what a plan asks for already, or what is there, is not asked for again, however often the master
repeats it. A removal is repeated only with a shorter grace. What the cluster does not know is reported as gone at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from pliant.core.errors import PliantError
from pliant.platforms.base import NodeEvent, NodeLaunch, NodeRemoval, Refusal, ScalePlan, Scaler
from pliant.platforms.kubernetes.exits import pod_state
from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.outbox import OutboxWriter, as_plan
from pliant.platforms.kubernetes.plans import PlanRequest, PodToCreate, PodToRemove
from pliant.platforms.kubernetes.timestamps import rfc3339
from pliant.platforms.kubernetes.view import View
from pliant.spec import ResourcesSpec

KEPT_PODS = 50  # ended Pods that are kept for their logs
MAX_REASON = 1000  # characters
LARGE_PLAN = 20  # nodes: a larger one is removed from the outbox once it is finished, a smaller one with the next plan


class PodScaler(Scaler):
    def __init__(
        self,
        outbox: OutboxWriter,
        job: str,
        view: View,
        tell: Callable[[NodeEvent], None],
        now: Callable[[], float],
    ) -> None:
        self._outbox = outbox
        self._job = job
        self._view = view
        self._tell = tell
        self._now = now
        self._asked: dict[str, float] = {}  # removals that a plan asks for: node -> grace
        self._writing = asyncio.Lock()
        self.last_plan: Object | None = None

    async def scale(self, plan: ScalePlan) -> list[Refusal]:
        async with self._writing:
            create = [self._entry(launch) for launch in plan.launch if self._is_new(launch)]
            remove = [PodToRemove(node=r.node, grace=max(0.0, r.grace)) for r in plan.remove if self._must_go(r)]
            if create or remove:
                await self._write(create, [*remove, *self._too_old()], plan.reason)
        return []

    async def sweep(self, node: str, reason: str) -> None:
        """Remove a Pod that takes up room although its node has ended."""
        await self.scale(ScalePlan(remove=(NodeRemoval(node, 0.0),), reason=reason))

    async def finished(self, plan: Object) -> None:
        """A plan was executed, or has failed."""
        entries = [*(plan["spec"].get("create") or ()), *(plan["spec"].get("remove") or ())]
        if len(entries) <= LARGE_PLAN:
            return
        async with self._writing, contextlib.AsyncExitStack() as stack:
            stack.enter_context(contextlib.suppress(PliantError))  # then they go with the next plan
            if done := self._view.finished_in_outbox(self._job):
                await self._outbox.remove_plans(done)
                self._outbox_without(done)

    def forget(self, node: str) -> None:
        """It is gone: a repeated removal reports that again."""
        self._asked.pop(node, None)

    # --- inside

    def _is_new(self, launch: NodeLaunch) -> bool:
        pod = self._view.pods.get(launch.node)
        if pod is not None:
            state = pod_state(pod, now=self._now())
            if not state.event.alive:  # a name is used once
                self._tell(state.event)
            return False
        return not self._view.is_there(launch.node)

    def _must_go(self, removal: NodeRemoval) -> bool:
        pod = self._view.pods.get(removal.node)
        if pod is None and not self._view.is_there(removal.node):
            self._tell(NodeEvent(removal.node, False, message="it has no Pod"))
            return False
        if pod is not None:
            state = pod_state(pod, now=self._now())
            if not state.event.alive and not state.left_behind:
                self._tell(state.event)  # its Pod is over; it stays for its log
                return False
        asked = self._asked.get(removal.node)
        if asked is not None and removal.grace >= asked:
            return False
        self._asked[removal.node] = removal.grace
        return True

    def _too_old(self) -> list[PodToRemove]:
        ended = [node for node in self._view.ended_pods() if node not in self._asked]
        old = ended[: max(0, len(ended) - KEPT_PODS)]
        self._asked |= dict.fromkeys(old, 0.0)
        return [PodToRemove(node=node, grace=0.0) for node in old]

    def _entry(self, launch: NodeLaunch) -> PodToCreate:
        asked = launch.resources
        return PodToCreate(
            node=launch.node,
            role=launch.role,
            resources=ResourcesSpec(cpu=asked.cpu, memory=asked.memory_mb, gpu=asked.gpu),
            high_priority=launch.high_priority,
            avoid_hosts=launch.avoid_hosts,
        )

    async def _write(self, create: list[PodToCreate], remove: list[PodToRemove], reason: str) -> None:
        if self._view.outbox is None:
            self._view.outbox_seen(await self._outbox.read())
        sequence, done = self._view.sequence + 1, self._view.finished_in_outbox(self._job)
        request = PlanRequest(reason=reason[:MAX_REASON], create=tuple(create), remove=tuple(remove))
        await self._outbox.write_plan(sequence, request, done=done)
        self._outbox_without(done)
        self._view.outbox = {*(self._view.outbox or ()), sequence}
        plan = as_plan(self._job, sequence, request.to_json())
        plan["metadata"]["creationTimestamp"] = rfc3339(self._now())  # until the operator has recorded it
        self._view.plan_seen(plan)
        self.last_plan = plan

    def _outbox_without(self, done: set[int]) -> None:
        self._view.outbox = (self._view.outbox or set()) - done
