"""Work of several threads, one after the other, without waiting for the next thread to wake up.

Who comes while another is at it leaves its work in line and waits. Who is at it does what is in line, too, up to ``MOST``, and
hands over to the next in line, so that nobody is kept from its own affairs for long.

What always holds: work is done in the order in which it came into the line, each once, never two at a time; its result or its
error goes to whoever brought it; as long as there is a line, one of those in it is at it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

MOST = 8  # that one thread does before it hands over

T = TypeVar("T")
R = TypeVar("R")


class Turn(Generic[T, R]):
    """One piece of work in line."""

    def __init__(self, work: T) -> None:
        self.work = work
        self.result: R | None = None
        self.error: BaseException | None = None
        self.leads = False
        self.wake = threading.Lock()  # released when it is done, or leads
        self.wake.acquire()


class Turns(Generic[T, R]):
    def __init__(self, do: Callable[[T], R]) -> None:
        self._do = do
        self._lock = threading.Lock()
        self._line: deque[Turn[T, R]] = deque()
        self._busy = False

    def enter(self, make: Callable[[], T]) -> Turn[T, R]:
        """Take a place in line; ``make`` makes the work, in the order of the places. ``finish`` must follow."""
        with self._lock:
            turn: Turn[T, R] = Turn(make())
            self._line.append(turn)
            if not self._busy:
                self._busy = turn.leads = True
        return turn

    def finish(self, turn: Turn[T, R]) -> R:
        """Until it is done."""
        if not turn.leads:
            turn.wake.acquire()
        if turn.leads:
            self._lead()
        if turn.error is not None:
            raise turn.error
        assert turn.result is not None
        return turn.result

    def _lead(self) -> None:
        for _ in range(MOST):
            turn = self._line[0]
            try:
                turn.result = self._do(turn.work)
            except BaseException as error:  # noqa: BLE001  # it belongs to whoever brought the work
                turn.error = error
            with self._lock:
                self._line.popleft()
                self._busy = more = bool(self._line)
            if not turn.leads:
                turn.wake.release()
            if not more:
                return
        following = self._line[0]
        following.leads = True
        following.wake.release()
