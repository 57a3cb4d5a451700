"""The master's requests for Pods, written as ScalePlans. The operator executes them, in the order of their numbers.

A plan is written once: what a plan asks for already, or what is there, is not asked for again, however often the master
repeats it. A removal is repeated only with a shorter grace. What the cluster does not know is reported as gone at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pliant.platforms.base import NodeEvent, NodeLaunch, NodeRemoval, Refusal, ScalePlan, Scaler
from pliant.platforms.kubernetes import names
from pliant.platforms.kubernetes.api import KubeApi
from pliant.platforms.kubernetes.errors import AlreadyExists
from pliant.platforms.kubernetes.exits import pod_state
from pliant.platforms.kubernetes.kinds import ELASTIC_JOBS, SCALE_PLANS, Object
from pliant.platforms.kubernetes.plans import PodToCreate, PodToRemove, ScalePlanSpec
from pliant.platforms.kubernetes.view import View
from pliant.spec import KubernetesOptions, ResourcesSpec

KEPT_PODS = 50  # ended Pods that are kept for their logs
MAX_REASON = 1000  # characters


class PodScaler(Scaler):
    def __init__(
        self,
        api: KubeApi,
        job: str,
        namespace: str,
        options: KubernetesOptions,
        view: View,
        tell: Callable[[NodeEvent], None],
        now: Callable[[], float],
    ) -> None:
        self._api = api
        self._job = job
        self._namespace = namespace
        self._options = options
        self._view = view
        self._tell = tell
        self._now = now
        self._owner: Object | None = None
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
        high = self._options.high_priority_class if launch.high_priority else None
        return PodToCreate(
            node=launch.node,
            role=launch.role,
            resources=ResourcesSpec(cpu=asked.cpu, memory=asked.memory_mb, gpu=asked.gpu),
            priority_class=high,
            avoid_hosts=launch.avoid_hosts,
        )

    async def _write(self, create: list[PodToCreate], remove: list[PodToRemove], reason: str) -> None:
        owner = self._owner = self._owner or await self._api.get(ELASTIC_JOBS, self._job, self._namespace)
        while True:
            sequence = self._view.sequence + 1
            spec = ScalePlanSpec(
                job=self._job,
                sequence=sequence,
                reason=reason[:MAX_REASON],
                create=tuple(create),
                remove=tuple(remove),
            )
            labels = {**names.labels_of(self._job), names.MADE_BY_LABEL: names.MADE_BY_MASTER}
            body: dict[str, Any] = {
                "metadata": {
                    "name": names.plan_name(self._job, sequence),
                    "labels": labels,
                    "ownerReferences": [names.owner_reference(owner)],
                },
                "spec": spec.to_json(),
            }
            try:
                made = await self._api.create(SCALE_PLANS, body, self._namespace)
            except AlreadyExists:
                found = await self._api.find(SCALE_PLANS, names.plan_name(self._job, sequence), self._namespace)
                if found is None or found["spec"] != body["spec"]:  # of an earlier master: take the next number
                    self._view.sequence = sequence
                    continue
                made = found  # our own, whose answer was lost
            self._view.plan_seen(made)
            self.last_plan = made
            return
