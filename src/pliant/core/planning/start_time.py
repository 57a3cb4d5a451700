"""How long a node takes from the decision to launch it until it works: what it costs to replace nodes one by one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from statistics import median

from pliant.core.nodes.states import Node
from pliant.core.planning.history import ChangeCosts

MAX_NODES = 32  # the last ones


def with_measured_start(costs: ChangeCosts, nodes: Iterable[Node]) -> ChangeCosts:
    """``nodes``: all that the job ever had, oldest first."""
    times = [node.started_at - node.relaunch_at for node in nodes if node.started_at is not None]
    if not times:
        return costs
    return replace(costs, start_s=max(0.0, median(times[-MAX_NODES:])))
