"""A ``JobHistory`` as JSON values and back: what masters report to the Brain, what it stores and hands to algorithms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pliant.core.decoding import decode, plain
from pliant.core.errors import CorruptData
from pliant.core.planning.configuration import Configuration
from pliant.core.planning.history import JobHistory

MAX_CPU = 1e6  # cores of a node
MAX_MEMORY_MB = 1 << 40  # of a node
MAX_REPLICAS = 100_000  # of a role: sizes up to twice that are enumerated


def check_size(configuration: Configuration) -> None:
    """Of one that some job can have. Raises ``CorruptData``."""
    shapes = [shape for shape in (configuration.worker, configuration.server) if shape is not None]
    replicas = max(shape.replicas for shape in shapes)
    if replicas > MAX_REPLICAS:
        raise CorruptData(f"{replicas:,} replicas, expected at most {MAX_REPLICAS:,}")
    for shape in shapes:
        if min(shape.replicas, shape.cpu, shape.memory_mb, shape.gpu) < 0:
            raise CorruptData(f"{shape} is less than nothing")
        if shape.cpu > MAX_CPU or max(shape.memory_mb, shape.gpu) > MAX_MEMORY_MB:
            raise CorruptData(f"{shape} is larger than any machine")


def history_to_json(history: JobHistory) -> dict[str, Any]:
    found: dict[str, Any] = plain(history)
    return found


def history_from_json(value: Mapping[str, Any]) -> JobHistory:
    """Raises ``CorruptData`` for anything that no job can have. Fields that are missing have their default."""
    history = decode(JobHistory, value, "history")
    for role, bounds in (("worker", history.bounds.worker), ("server", history.bounds.server)):
        if bounds is not None and bounds.unit < 1:
            raise CorruptData(f"history.bounds.{role}.unit is {bounds.unit}, expected at least 1")
        if bounds is not None and bounds.min_replicas > MAX_REPLICAS:
            raise CorruptData(f"{bounds.min_replicas:,} replicas, expected at most {MAX_REPLICAS:,}")
        if bounds is not None and min(bounds.min_cpu, bounds.max_cpu) < 0:
            raise CorruptData(f"history.bounds.{role} has less CPU than nothing")
    for configuration in (history.configuration, *(period.configuration for period in history.periods)):
        check_size(configuration)
    return history
