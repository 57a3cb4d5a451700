"""Metrics as users give them, checked where they are given: a mistake there is an error at the line that has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pliant.core.errors import InvalidRequest
from pliant.core.progress import MAX_METRICS

MAX_NAME = 200  # characters


def metric_values(given: Mapping[str, Any]) -> dict[str, float]:
    """By name. A number that is not finite is none: the metric is shown without a value."""
    if len(given) > MAX_METRICS:
        raise InvalidRequest(f"{len(given)} metrics in one report; the maximum is {MAX_METRICS}")
    return {_name(name): _number(name, value) for name, value in given.items()}


def _name(name: object) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise InvalidRequest(
            f"{name!r:.60} cannot be the name of a metric", hint=f"use printable text of at most {MAX_NAME} characters"
        )
    return name


def _number(name: str, value: Any) -> float:
    """Also of a tensor or an array with one element."""
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        pass
    raise InvalidRequest(
        f"metric {name!r} is {type(value).__name__} {value!r:.60}, which is not a number",
        hint="report numbers: of a tensor with one element, it is taken by itself",
    )
