"""The interval of checkpoints as people write it."""

from __future__ import annotations

import re

from pliant.core.errors import InvalidRequest

UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)")
_TIME = re.compile(rf"(?:{_PART.pattern})+")
_STEPS = re.compile(r"(\d+) ?steps?")
MAX_STEPS = 1 << 62
MAX_SECONDS = 1e9


def interval(text: str, option: str = "--checkpoint-every") -> dict[str, float]:
    """``every_steps`` and ``every_seconds`` of the spec, from such as ``10m`` or ``100steps``."""
    given = text.strip().lower()
    steps, seconds = 0, 0.0
    if found := _STEPS.fullmatch(given):
        steps = int(found[1])
    elif _TIME.fullmatch(given):
        seconds = sum(float(number) * UNITS_S[unit] for number, unit in _PART.findall(given))
    if not 0 < steps <= MAX_STEPS and not 0 < seconds <= MAX_SECONDS:
        hint = "for example: 90s, 10m, 1h30m, or 100steps"
        raise InvalidRequest(f"{option} {text!r} is neither a time nor a number of steps", hint=hint)
    return {"every_steps": steps, "every_seconds": seconds}
