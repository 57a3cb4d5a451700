"""The parameter servers of a job: partitions and load of each, and what moved."""

from __future__ import annotations

from typing import Any

from pliant.core.status import JobStatus, SeatStatus
from pliant.core.status_json import part_to_json
from pliant.dashboard.documents.history import EventHistory

MAX_MOVES = 200


class ServersDocument:
    """Remembers the last look, since rates are differences."""

    def __init__(self) -> None:
        self._before: JobStatus | None = None
        self._rates: dict[str, dict[str, float]] = {}

    def make(self, status: JobStatus, history: EventHistory) -> dict[str, Any]:
        if self._before is None or status.time > self._before.time:
            self._rates = _rates(self._before, status) if self._before is not None else {}
            self._before = status
        found = part_to_json(status.parameters) if status.parameters is not None else None
        if found is not None:
            found["seats"] = {str(seat["seat"]): seat for seat in found["seats"]}
            found["rates"] = self._rates
        return {"parameters": found, "moves": list(history.moves)[-MAX_MOVES:]}


def _rates(before: JobStatus, now: JobStatus) -> dict[str, dict[str, float]]:
    """Per second, of the seats that the same node holds as before."""
    seconds = now.time - before.time
    known = {(seat.seat, seat.node): seat for seat in before.seats}
    return {
        str(seat.seat): _rate(known[seat.seat, seat.node], seat, seconds)
        for seat in now.seats
        if (seat.seat, seat.node) in known
    }


def _rate(before: SeatStatus, now: SeatStatus, seconds: float) -> dict[str, float]:
    def per_second(name: str) -> float:
        grown = float(getattr(now.stats, name) - getattr(before.stats, name))
        return round(max(0.0, grown) / seconds, 3)  # one that was started again counts from 0

    return {
        "requests": per_second("requests"),
        "bytes_in": per_second("bytes_in"),
        "bytes_out": per_second("bytes_out"),
        "cpu": per_second("cpu_seconds"),
    }
