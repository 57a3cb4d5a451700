"""How a grant bounds a job: what algorithms may propose, and what a plan may ask for.

A grant names a configuration; the job may have any other one that takes no more in total. Algorithms see the total, and for each
role the number of nodes, as bounds; what is checked before a plan is made is the total. A job is never held below its own minimum
by a grant: to take that, too, the Brain suspends it as a whole (``limit`` None).
"""

from __future__ import annotations

from dataclasses import replace

from pliant.core.planning.cluster.offer import Grant
from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape

_ROUNDING = 1e-6


def within_grant(bounds: Bounds, grant: Grant | None) -> Bounds:
    if grant is None or grant.is_unlimited or grant.limit is None:
        return bounds
    limit = grant.limit
    server = bounds.server
    if server is not None and limit.server is not None:
        server = _within(server, limit.server)
    return replace(
        bounds,
        worker=_within(bounds.worker, limit.worker),
        server=server,
        max_cpu=min(bounds.max_cpu or limit.cpu, limit.cpu),
        max_memory_mb=_tighter(bounds.max_memory_mb, memory_of(limit)),
    )


def excess(configuration: Configuration, grant: Grant | None) -> str:
    """Of what the configuration takes more than is granted, for people; empty: of nothing."""
    if grant is None or grant.is_unlimited:
        return ""
    if grant.limit is None:
        return "nothing is granted to this job now"
    limit = grant.limit
    if configuration.nodes > limit.nodes:
        return f"{configuration.nodes} nodes, and {limit.nodes} are granted"
    if configuration.cpu > limit.cpu + _ROUNDING:
        return f"{configuration.cpu:g} CPU, and {limit.cpu:g} are granted"
    granted_mb = memory_of(limit)
    if granted_mb and memory_of(configuration) > granted_mb:
        return f"{memory_of(configuration)} MB, and {granted_mb} MB are granted"
    return ""


def memory_of(configuration: Configuration) -> int:
    """MB of all nodes; 0 if some have no limit."""
    shapes = [shape for shape in (configuration.worker, configuration.server) if shape is not None]
    return sum(s.replicas * s.memory_mb for s in shapes) if all(s.memory_mb or not s.replicas for s in shapes) else 0


def _within(bounds: RoleBounds, limit: Shape) -> RoleBounds:
    return replace(bounds, max_replicas=max(bounds.min_replicas, min(bounds.max_replicas, limit.replicas)))


def _tighter(one: int, other: int) -> int:
    """Zero is no limit."""
    return min(one or other, other or one)
