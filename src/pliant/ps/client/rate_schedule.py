"""Reports the learning rates of future updates to the master, which puts those of an update into its order.

Neighbours: ``client`` (the caller), ``core/parameters/schedule.py`` (what the master does with them).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pliant.ps.client.routing import Conversation
from pliant.rpc import pliant_pb2 as pb

Rates = Callable[[int], float | Sequence[float]]
"""By how much the rates of an update, counted from 0, are multiplied: one factor for all, or one for each ``rate_group``."""

UPDATES_AHEAD = 256  # reported at once; again when half of them are done


class ScheduleReporter:
    def __init__(self, conversation: Conversation, rates: Rates) -> None:
        self._conversation = conversation
        self._rates = rates

    def is_due(self, scheduled: int, iteration: int) -> bool:
        """Whether the master, which knows the rates before update ``scheduled``, should know more at this iteration."""
        return 0 < scheduled < iteration + UPDATES_AHEAD // 2

    def report(self, first: int) -> None:
        """Until the master knows those of the next update: others may have reported them, or updates went on meanwhile."""
        method = self._conversation.master.stubs.parameters.Schedule
        while True:
            rates = [self._rates(update) for update in range(first, first + UPDATES_AHEAD)]
            rows = [[float(row)] if isinstance(row, int | float) else [float(f) for f in row] for row in rates]
            factors = [factor for row in rows for factor in row]
            request = pb.ScheduleRequest(first=first, groups=len(rows[0]), factors=factors)
            reply: pb.ScheduleReply = self._conversation.call_with_retry(method, request)
            if reply.scheduled > reply.iteration:
                return
            first = max(reply.scheduled, reply.iteration)
