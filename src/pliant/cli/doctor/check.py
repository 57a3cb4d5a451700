"""One finding of ``pliant doctor``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    name: str
    state: str  # ok, warning, broken, absent (an extra that is not installed)
    text: str
    hint: str = ""
