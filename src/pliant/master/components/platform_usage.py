"""Takes what the platform itself measures of nodes into the statistics; what an agent reports goes before it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from pliant.core.clock import Clock
from pliant.core.nodes.book import NodeBook
from pliant.core.planning.samples import NodeUsage
from pliant.master.components.base import BackgroundComponent
from pliant.master.components.stats import MemoryStats
from pliant.platforms.base import Measured


class PlatformUsage(BackgroundComponent):
    name = "platform-usage"
    title = "collector of the platform's measurements"

    def __init__(
        self, stats: MemoryStats, nodes: NodeBook, clock: Clock, usage: AsyncIterator[Sequence[Measured]]
    ) -> None:
        super().__init__()
        self._stats = stats
        self._nodes = nodes
        self._clock = clock
        self._usage = usage

    async def start(self) -> None:
        self.run_beside(self._collect())

    async def _collect(self) -> None:
        """For as long as the platform measures."""
        async for readings in self._usage:
            now = self._clock.now()
            known = {node.name for node in self._nodes.nodes()}
            for each in readings:
                if each.node in known:
                    self._stats.collect_measured_usage(each.node, NodeUsage(now, each.cpu, each.memory_mb))
