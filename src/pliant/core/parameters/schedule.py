"""The learning rates of future updates, as factors of the rates that tables and variables were defined with.

A schedule is a function that only workers have (it is the user's code). They report its values to the master ahead of time, a
few hundred updates at once, and the master puts the factors of an update into its order: so an update has the learning rate of
its number, whoever contributed to it, and replaying the order has the same result.

``factors`` holds one row per update from ``first`` on; a row has one factor per group of parameters. ``ParameterBook``
(``core/parameters/book.py``) holds the schedule.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pliant.core.errors import Conflict, InvalidRequest

MAX_ROWS = 4096  # updates in one call
MAX_GROUPS = 1000


@dataclass(frozen=True, slots=True)
class RateSchedule:
    first: int = 0
    factors: tuple[tuple[float, ...], ...] = ()

    @property
    def until(self) -> int:
        """The first update whose factors are not known."""
        return self.first + len(self.factors)

    def at(self, update: int) -> tuple[float, ...] | None:
        """The factors of this update, counted from 0; None: not known."""
        return self.factors[update - self.first] if self.first <= update < self.until else None

    def extended(self, first: int, factors: Sequence[Sequence[float]], *, now_at: int) -> RateSchedule:
        """With the rows that are new, and without those of past updates. The first report of a row counts."""
        rows = _checked(factors)
        if first < 0 or first > max(self.until, now_at):
            raise InvalidRequest(
                f"a schedule starting at update {first} leaves a gap from update {max(self.until, now_at)}"
            )
        if self.factors and len(rows[0]) != len(self.factors[0]):
            raise Conflict(f"a schedule of {len(rows[0])} groups; the known one has {len(self.factors[0])}")
        kept = self.factors[max(0, now_at - self.first) :]
        begin = max(now_at, self.first) if kept else max(now_at, first)
        return RateSchedule(begin, kept + rows[max(0, begin + len(kept) - first) :])

    def to_json(self) -> dict[str, Any]:
        return {"first": self.first, "factors": [list(row) for row in self.factors]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RateSchedule:
        return cls(int(value["first"]), tuple(tuple(float(f) for f in row) for row in value["factors"]))


def _checked(factors: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    if not 1 <= len(factors) <= MAX_ROWS or not 1 <= len(factors[0]) <= MAX_GROUPS:
        raise InvalidRequest(f"a schedule needs 1 to {MAX_ROWS} updates, and 1 to {MAX_GROUPS} groups")
    if any(len(row) != len(factors[0]) for row in factors):
        raise InvalidRequest("a schedule needs the same number of factors, one per group, for each update")
    for row in factors:
        for factor in row:
            if not (math.isfinite(factor) and factor >= 0):
                raise InvalidRequest(f"a learning-rate factor must be finite and not negative, not {factor}")
    return tuple(tuple(float(factor) for factor in row) for row in factors)
