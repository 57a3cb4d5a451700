"""Discrete events on a virtual clock. Nothing happens between two events, so a day costs what its events cost."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class Event:
    """Something that will happen, unless it is canceled."""

    __slots__ = ("action", "time")

    def __init__(self, time: float, action: Callable[[float], None]) -> None:
        self.time = time
        self.action: Callable[[float], None] | None = action

    def cancel(self) -> None:
        self.action = None


class EventQueue:
    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self.handled = 0
        self._heap: list[tuple[float, int, Event]] = []
        self._numbers = itertools.count()  # events of one moment happen in the order in which they were planned

    def at(self, time: float, action: Callable[[float], None]) -> Event:
        event = Event(max(time, self.now), action)
        heapq.heappush(self._heap, (event.time, next(self._numbers), event))
        return event

    def after(self, seconds: float, action: Callable[[float], None]) -> Event:
        return self.at(self.now + seconds, action)

    def run(self, until: float, is_over: Callable[[], bool] = lambda: False) -> None:
        """Handle events up to this time, or until there is nothing more to do."""
        while self._heap and self._heap[0][0] <= until and not is_over():
            self.now, _, event = heapq.heappop(self._heap)
            if (action := event.action) is not None:
                event.action = None
                self.handled += 1
                action(self.now)
