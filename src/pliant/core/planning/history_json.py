"""A ``JobHistory`` as JSON values and back: what masters report to the Brain, what it stores and hands to algorithms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pliant.core.decoding import decode, plain
from pliant.core.errors import CorruptData
from pliant.core.planning.history import JobHistory


def history_to_json(history: JobHistory) -> dict[str, Any]:
    found: dict[str, Any] = plain(history)
    return found


def history_from_json(value: Mapping[str, Any]) -> JobHistory:
    """Raises ``CorruptData`` for anything that no job can have. Fields that are missing have their default."""
    history = decode(JobHistory, value, "history")
    for role, bounds in (("worker", history.bounds.worker), ("server", history.bounds.server)):
        if bounds is not None and bounds.unit < 1:
            raise CorruptData(f"history.bounds.{role}.unit is {bounds.unit}, expected at least 1")
    return history
