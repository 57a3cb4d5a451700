"""Flat combining: work of several threads is done one at a time, without waiting for the next thread to wake up.

A thread that arrives while another one works queues its entry and waits. The one that works (the *combiner*) also does what is
queued, up to ``MAX_COMBINED`` entries, and then makes the next waiting thread the combiner, so that none is kept for long.

Invariants: entries are done in the order in which they were queued, each once, never two at a time; the result or the error of
an entry goes to the thread that queued it; as long as the queue is not empty, one of the threads in it is the combiner.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

MAX_COMBINED = 8  # entries that one thread does before the next becomes the combiner

T = TypeVar("T")
R = TypeVar("R")


class Entry(Generic[T, R]):
    """One piece of work in the queue."""

    def __init__(self, work: T) -> None:
        self.work = work
        self.result: R | None = None
        self.error: BaseException | None = None
        self.is_combiner = False
        self.wake = threading.Lock()  # released when it is done, or becomes the combiner
        self.wake.acquire()


class CombiningQueue(Generic[T, R]):
    def __init__(self, do: Callable[[T], R]) -> None:
        self._do = do
        self._lock = threading.Lock()
        self._queue: deque[Entry[T, R]] = deque()
        self._busy = False

    def enter(self, make: Callable[[], T]) -> Entry[T, R]:
        """Queue an entry; ``make`` creates its work, in the order of the queue. ``finish`` must follow."""
        with self._lock:
            entry: Entry[T, R] = Entry(make())
            self._queue.append(entry)
            if not self._busy:
                self._busy = entry.is_combiner = True
        return entry

    def finish(self, entry: Entry[T, R]) -> R:
        """Wait until it is done; returns its result."""
        if not entry.is_combiner:
            entry.wake.acquire()
        if entry.is_combiner:
            self._combine()
        if entry.error is not None:
            raise entry.error
        assert entry.result is not None
        return entry.result

    def _combine(self) -> None:
        for _ in range(MAX_COMBINED):
            entry = self._queue[0]
            try:
                entry.result = self._do(entry.work)
            except BaseException as error:  # noqa: BLE001  # it belongs to the thread that queued the work
                entry.error = error
            with self._lock:
                self._queue.popleft()
                self._busy = more = bool(self._queue)
            if not entry.is_combiner:
                entry.wake.release()
            if not more:
                return
        following = self._queue[0]
        following.is_combiner = True
        following.wake.release()
