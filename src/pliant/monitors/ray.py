"""A Ray cluster: its machines with what Ray has given away of them, and Pliant's actors among its actors.

Which cluster is as Ray finds it: the variable ``RAY_ADDRESS``, else the one that runs on this machine. Reads only. Ray does
not measure what actors use; agents report that to their masters.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pliant.monitors.base import Amounts, ClusterMonitor, Observation, ObservedMachine, ObservedNode
from pliant.platforms.ray.addresses import AUTO
from pliant.platforms.ray.link import BridgeLink
from pliant.platforms.ray.names import MASTER, actor_name
from pliant.rpc.brain.identity import RAY_NAMESPACE

RUNNING, PENDING = "Running", "Pending"  # as the Brain counts nodes; Ray has three words for what waits to start
Resources = Mapping[str, Any]


class RayMonitor(ClusterMonitor):
    platform = "ray"

    def __init__(self, address: str = AUTO) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="pliant-ray-monitor-")
        self._link = BridgeLink(address, "", Path(self._folder.name), {})

    async def observe(self) -> Observation:
        """Raises ``RayUnavailable``, which is retryable."""
        return observation_of(await self._link.call("machines"), await self._link.call("actors"))

    async def close(self) -> None:
        await self._link.close()
        self._folder.cleanup()


def observation_of(machines: Sequence[Resources], actors: Sequence[Resources]) -> Observation:
    """As ``platforms/ray/cluster.py`` lists them."""
    return Observation(
        tuple(
            ObservedMachine(machine["host"], _amounts(machine["total"]), _amounts(machine["free"]))
            for machine in machines
        ),
        tuple(
            ObservedNode(
                RAY_NAMESPACE,
                actor["job"],
                actor_name(actor["job"], actor["node"]),
                MASTER if actor["node"] == MASTER else str(actor["node"]).rpartition("-")[0],
                RUNNING if actor["phase"] == "ALIVE" else PENDING,
                actor["machine"],
                _amounts(actor["asked"]),
            )
            for actor in actors
        ),
    )


def _amounts(resources: Resources) -> Amounts:
    return Amounts(float(resources["cpu"]), float(resources["memory_mb"]), int(resources["gpu"]))
