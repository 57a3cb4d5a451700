"""Sends what a monitor sees to the Brain, again and again, with the cluster's token.

A Brain that is away, or a platform that cannot be seen, is one outage: it is logged when it begins and when it ends, and tried
again with back-off. Each try after a failure dials anew, since another Brain may be the active one behind the same address. What
does not pass by itself (a wrong token, a missing right) ends the loop: whoever started the monitor starts it again, with what is
then in its folder. An observation is never sent late: what could not be sent is forgotten.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from pliant.core.errors import RetryableError
from pliant.core.nodes.fault_policy import Backoff
from pliant.monitors.base import DEFAULT_INTERVAL_S, ClusterMonitor, Observation, ObservedMachine, ObservedNode
from pliant.rpc import brain_pb2 as bp
from pliant.rpc.brain.access import BrainAccess
from pliant.rpc.brain.channel import AsyncBrainClient
from pliant.rpc.brain.identity import PROTOCOL, check_name

log = logging.getLogger(__name__)

MAX_PAUSE_S = 30.0  # between two tries


class ObservationReporter:
    def __init__(
        self,
        monitor: ClusterMonitor,
        access: BrainAccess,
        *,
        cluster: str = "",
        interval: float = DEFAULT_INTERVAL_S,
        on_sent: Callable[[Observation], object] = lambda _: None,
    ) -> None:
        """``cluster``: its name; empty: that of the platform. ``interval``: seconds from one observation to the next."""
        self._monitor, self._access = monitor, access
        self._cluster = check_name(cluster or monitor.platform, "cluster")
        self._interval = interval
        self._on_sent = on_sent
        self._backoff = Backoff(interval, 2.0, max(interval, MAX_PAUSE_S))
        self._failures = 0  # in a row
        self._client: AsyncBrainClient | None = None

    async def run(self) -> None:
        """Until it is cancelled. Raises what does not pass by itself."""
        try:
            while True:
                await asyncio.sleep(await self._round())
        finally:
            await self.close()

    async def report(self) -> Observation:
        """Observe and send, once."""
        observation = await self._monitor.observe()
        if self._client is None:
            self._client = AsyncBrainClient(self._access)
        request = observe_request(observation, self._cluster, self._monitor.title, time.time())
        await self._client.call(self._client.stubs.clusters.Observe, request)
        self._on_sent(observation)
        return observation

    async def close(self) -> None:
        await self._hang_up()
        await self._monitor.close()

    async def _round(self) -> float:
        """Returns the seconds until the next one."""
        began = time.monotonic()
        try:
            await self.report()
        except RetryableError as error:
            if not self._failures:
                log.warning("cannot report to the Brain at %s, will keep trying: %s", self._access.address, error)
            self._failures += 1
            await self._hang_up()
            return self._backoff.delay(self._failures - 1)
        if self._failures:
            log.info("reporting again, after %d failed tries", self._failures)
            self._failures = 0
        return max(0.0, self._interval - (time.monotonic() - began))

    async def _hang_up(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()


def observe_request(observation: Observation, cluster: str, title: str, now: float) -> bp.ObserveRequest:
    return bp.ObserveRequest(
        protocol=PROTOCOL,
        cluster=cluster,
        monitor=title,
        time=now,
        machines=[_machine_message(machine) for machine in observation.machines],
        nodes=[_node_message(node) for node in observation.nodes],
    )


def _machine_message(machine: ObservedMachine) -> bp.Machine:
    size, free, used = machine.size, machine.free, machine.used
    return bp.Machine(
        name=machine.name,
        cpu=size.cpu,
        memory_mb=size.memory_mb,
        gpu=size.gpu,
        free_cpu=free.cpu,
        free_memory_mb=free.memory_mb,
        free_gpu=free.gpu,
        used_cpu=used.cpu,
        used_memory_mb=used.memory_mb,
        is_ready=machine.is_ready,
    )


def _node_message(node: ObservedNode) -> bp.ObservedNode:
    return bp.ObservedNode(
        namespace=node.namespace,
        job=node.job,
        name=node.name,
        role=node.role,
        phase=node.phase,
        machine=node.machine,
        cpu=node.asked.cpu,
        memory_mb=node.asked.memory_mb,
        gpu=node.asked.gpu,
        used_cpu=node.used.cpu,
        used_memory_mb=node.used.memory_mb,
    )
