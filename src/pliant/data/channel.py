"""A bounded channel between two threads that can be closed from either side; a closed one wakes all that wait."""

from __future__ import annotations

from collections import deque
from threading import Condition
from typing import Generic, TypeVar

T = TypeVar("T")


class Closed(Exception):
    """The other side is gone, and nothing is left to take."""


class Empty(Exception):
    """Nothing came in time."""


class Channel(Generic[T]):
    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: deque[T] = deque()
        self._changed = Condition()
        self._closed = False

    def put(self, entry: T) -> None:
        """Waits for room. Raises ``Closed`` if the receiver is gone."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._entries) < self._capacity)
            if self._closed:
                raise Closed
            self._entries.append(entry)
            self._changed.notify_all()

    def get(self, timeout: float | None = None) -> T:
        """The oldest entry. Raises ``Empty`` after ``timeout`` seconds, ``Closed`` when there will be no more."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._closed or bool(self._entries), timeout):
                raise Empty
            if not self._entries:
                raise Closed
            self._changed.notify_all()
            return self._entries.popleft()

    def close(self) -> None:
        """No more entries come in; those that are there can still be taken."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
