"""Hands what a program reports to a callback (a tracker's), in a thread of its own: a training step never waits for it.

A callback that is slower than the loop loses the oldest reports, and one that raises is logged and gets the next one: a tracker
that is away is no reason to stop training.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping

log = logging.getLogger(__name__)

MAX_WAITING = 1000  # reports
CLOSE_TIMEOUT_S = 15.0

ReportCallback = Callable[[int, Mapping[str, float]], None]  # of a step and its metrics


class ReportListener:
    def __init__(self, callback: ReportCallback, when: Callable[[], bool]) -> None:
        self._callback = callback
        self._when = when
        self._waiting: deque[tuple[int, Mapping[str, float]]] = deque(maxlen=MAX_WAITING)
        self._changed = threading.Condition()
        self._closing = False
        self._has_failed = False
        self._thread = threading.Thread(target=self._work, name="pliant-report-listener", daemon=True)
        self._thread.start()

    def put(self, step: int, metrics: Mapping[str, float]) -> None:
        if metrics and self._when():
            with self._changed:
                self._waiting.append((step, metrics))
                self._changed.notify()

    def close(self) -> None:
        """Hand over what waits, for a limited time."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(CLOSE_TIMEOUT_S)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    break
                step, metrics = self._waiting.popleft()
            self._call(lambda step=step, metrics=metrics: self._callback(step, metrics))  # type: ignore[misc]
        if (close := getattr(self._callback, "close", None)) is not None:
            self._call(close)

    def _call(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001  # the user's own, or a library's: whatever it raises, training goes on
            if not self._has_failed:
                log.warning("reports are not passed on to %s: %s", type(self._callback).__name__, error)
            self._has_failed = True
        else:
            self._has_failed = False
