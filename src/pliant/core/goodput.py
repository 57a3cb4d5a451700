"""Goodput: the share of the time of wanted workers in which they ran."""

from __future__ import annotations

from collections.abc import Iterable

from pliant.core.status import RoleStatus


class GoodputMeter:
    """Adds up the time between two observations, at the counts of the second one."""

    def __init__(self) -> None:
        self._wanted_s = self._ready_s = 0.0  # seconds times workers
        self._observed_at: float | None = None

    def observe(self, now: float, roles: Iterable[RoleStatus], *, is_paused: bool) -> None:
        """``is_paused``: no worker is wanted since the last observation, as while the job is suspended."""
        before, self._observed_at = self._observed_at, now
        if before is None or is_paused:
            return
        for role in roles:
            wanted = max(0, role.wanted - role.succeeded)
            self._wanted_s += (now - before) * wanted
            self._ready_s += (now - before) * min(role.ready, wanted)

    @property
    def percent(self) -> float | None:
        """None: nothing was observed yet."""
        return round(100 * self._ready_s / self._wanted_s, 1) if self._wanted_s else None
