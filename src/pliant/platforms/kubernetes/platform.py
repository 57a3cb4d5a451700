"""The platform of the master's Pod: nodes are Pods of the same namespace, asked for by ScalePlans."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence

from pliant.core.nodes.capacity import Capacity
from pliant.platforms.base import ControlChannel, JobContext, Measured, NodeWatcher, Platform, Scaler
from pliant.platforms.kubernetes.api import KubeApi
from pliant.platforms.kubernetes.elastic_job import ElasticJobChannel
from pliant.platforms.kubernetes.elastic_job_status import machines_of
from pliant.platforms.kubernetes.errors import Forbidden
from pliant.platforms.kubernetes.kinds import ELASTIC_JOBS, NODES
from pliant.platforms.kubernetes.machines import capacity_of
from pliant.platforms.kubernetes.outbox import OutboxWriter
from pliant.platforms.kubernetes.scaler import PodScaler
from pliant.platforms.kubernetes.traits import TRAITS
from pliant.platforms.kubernetes.usage import measured
from pliant.platforms.kubernetes.view import View
from pliant.platforms.kubernetes.watcher import PodWatcher
from pliant.spec import KubernetesOptions

NAMESPACE = "PLIANT_NAMESPACE"  # in the environment; else the namespace of the service account or of the kubeconfig


class KubernetesPlatform(Platform):
    name = "kubernetes"
    traits = TRAITS

    def __init__(self, api: KubeApi | None = None, namespace: str = "") -> None:
        self._api = api
        self._own_api = api is None
        self._namespace = namespace
        self._watcher: PodWatcher | None = None
        self._channel: ElasticJobChannel | None = None
        self._usage: AsyncIterator[Sequence[Measured]] | None = None
        self._job, self._job_namespace = "", ""
        self._node_selector: Mapping[str, str] = {}
        self._may_list_machines = True

    def open(self, context: JobContext) -> tuple[Scaler, NodeWatcher]:
        api = self._api = self._api or KubeApi.load()
        namespace = self._namespace or os.environ.get(NAMESPACE) or api.namespace
        given = context.options.get("kubernetes", {})
        options = KubernetesOptions.model_validate(given if isinstance(given, Mapping) else {})
        self._job, self._job_namespace, self._node_selector = context.job, namespace, options.node_selector
        view = View()
        outbox = OutboxWriter(api, context.job, namespace)
        watcher = self._watcher = PodWatcher(api, outbox, context.job, namespace, view, time.time)
        scaler = PodScaler(outbox, context.job, view, watcher.tell, time.time)
        watcher.on_left_behind, watcher.on_gone = scaler.sweep, scaler.forget
        watcher.on_plan_finished = scaler.finished
        self._usage = measured(api, context.job, namespace)
        self._channel = ElasticJobChannel(api, outbox, context.job, namespace, lambda: scaler.last_plan)
        return scaler, watcher

    def control_channel(self) -> ControlChannel | None:
        return self._channel

    def usage(self) -> AsyncIterator[Sequence[Measured]] | None:
        return self._usage

    async def capacity(self) -> Capacity | None:
        """As the operator says; where there is none (yet), as the cluster does if we may ask it."""
        assert self._api is not None
        job = await self._api.find(ELASTIC_JOBS, self._job, self._job_namespace)
        found = machines_of(job) if job is not None else None
        if found is not None or not self._may_list_machines:
            return found
        try:
            listing = await self._api.list(NODES)
        except Forbidden:
            self._may_list_machines = False
            return None
        return capacity_of(listing.items, self._node_selector)

    async def close(self) -> None:
        if self._watcher is not None:
            await self._watcher.close()
        if self._api is not None and self._own_api:
            await self._api.close()
