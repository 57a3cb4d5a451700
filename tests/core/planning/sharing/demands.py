"""Demands of jobs for tests of sharing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.sharing.demand import Amount, Demand, Option, Quota


def of(workers: int, cpu: float = 1.0, memory_mb: int = 0) -> Configuration:
    return Configuration(Shape(workers, cpu, memory_mb))


def quota(cpu: float = 0.0, memory_mb: float = 0.0, nodes: float = 0.0) -> Quota:
    return Quota("team", Amount(cpu, memory_mb, 0, nodes))


def demand(
    job: str,
    *,
    least: int = 1,
    most: int = 8,
    has: int | None = None,
    rate: Callable[[int], float] = float,
    arrived: float = 0.0,
    priority: int = 0,
    **others: Any,
) -> Demand:
    """Of workers with one core each; ``rate``: of so many workers."""
    counts = range(least, most + 1)
    current = of(has) if has is not None else None
    options = tuple(Option(of(count), rate(count)) for count in counts)
    return Demand(job, priority, arrived, of(least), options, current, **others)
