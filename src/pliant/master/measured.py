"""What the platform measures of nodes by itself, taken into the statistics; an agent's own word goes before it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from pliant.master.components import Components
from pliant.master.stats import NodeUsage
from pliant.platforms.base import Measured


async def take_measurements(parts: Components, usage: AsyncIterator[Sequence[Measured]]) -> None:
    """For as long as the platform measures."""
    async for readings in usage:
        now = parts.clock.now()
        known = {node.name for node in parts.nodes.book.nodes()} if parts.nodes is not None else set()
        for each in readings:
            if each.node in known:
                parts.stats.collect_measured_usage(each.node, NodeUsage(now, each.cpu, each.memory_mb))
