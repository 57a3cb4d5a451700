"""The learning rates of the updates to come, as factors of the rates that tables and variables were defined with.

A schedule is a function that only workers have (it is the user's code). They tell the master its values ahead of time, a few
hundred updates at once, and the master puts the factors of an update into its order: so an update has the rate of its number,
whoever contributed to it, and executing the order again gives the same again.

``factors`` holds one row per update from ``first`` on; a row has one factor per group of parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pliant.core.errors import Conflict, InvalidRequest

MOST_ROWS = 4096  # in one call
MOST_GROUPS = 1000


@dataclass(frozen=True, slots=True)
class RateSchedule:
    first: int = 0
    factors: tuple[tuple[float, ...], ...] = ()

    @property
    def until(self) -> int:
        """The first update whose factors are not known."""
        return self.first + len(self.factors)

    def at(self, update: int) -> tuple[float, ...] | None:
        """Of this update, counted from 0; None: not known."""
        return self.factors[update - self.first] if self.first <= update < self.until else None

    def extended(self, first: int, factors: Sequence[Sequence[float]], *, now_at: int) -> RateSchedule:
        """With these rows where they are new, and without what is past. What was told first counts."""
        rows = _checked(factors)
        if first < 0 or first > max(self.until, now_at):
            raise InvalidRequest(
                f"a schedule from update {first} on; those from {max(self.until, now_at)} on are missing"
            )
        if self.factors and len(rows[0]) != len(self.factors[0]):
            raise Conflict(f"a schedule of {len(rows[0])} groups; the one that is known has {len(self.factors[0])}")
        kept = self.factors[max(0, now_at - self.first) :]
        begin = max(now_at, self.first) if kept else max(now_at, first)
        return RateSchedule(begin, kept + rows[max(0, begin + len(kept) - first) :])

    def to_json(self) -> dict[str, Any]:
        return {"first": self.first, "factors": [list(row) for row in self.factors]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RateSchedule:
        return cls(int(value["first"]), tuple(tuple(float(f) for f in row) for row in value["factors"]))


def _checked(factors: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    if not 1 <= len(factors) <= MOST_ROWS or not 1 <= len(factors[0]) <= MOST_GROUPS:
        raise InvalidRequest(f"a schedule needs 1 to {MOST_ROWS} updates, and 1 to {MOST_GROUPS} groups")
    if any(len(row) != len(factors[0]) for row in factors):
        raise InvalidRequest("a schedule has as many factors for each update as it has groups")
    for row in factors:
        for factor in row:
            if not (math.isfinite(factor) and factor >= 0):
                raise InvalidRequest(
                    f"a learning rate is scaled by a finite number that is not negative, not by {factor}"
                )
    return tuple(tuple(float(factor) for factor in row) for row in factors)
