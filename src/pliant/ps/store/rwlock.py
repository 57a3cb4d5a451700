"""A read-write lock: many readers or one writer; a waiting writer has priority over readers that come later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager


class _Held(AbstractContextManager[None]):
    """``enter`` before, ``leave`` after; a plain object, because every request passes through one."""

    def __init__(self, enter: Callable[[], None], leave: Callable[[], None]) -> None:
        self._enter = enter
        self._leave = leave

    def __enter__(self) -> None:
        self._enter()

    def __exit__(self, *_: object) -> None:
        self._leave()


class ReadWriteLock:
    """``with guard.reading:`` and ``with guard.writing:``; neither may be entered twice by one thread."""

    def __init__(self) -> None:
        self._free = threading.Condition(threading.Lock())
        self._readers = 0
        self._writing = False
        self._writers_waiting = 0
        self.reading = _Held(self._begin_to_read, self._end_reading)
        self.writing = _Held(self._begin_to_write, self._end_writing)

    def _begin_to_read(self) -> None:
        with self._free:
            while self._writing or self._writers_waiting:
                self._free.wait()
            self._readers += 1

    def _end_reading(self) -> None:
        with self._free:
            self._readers -= 1
            if not self._readers and self._writers_waiting:
                self._free.notify_all()

    def _begin_to_write(self) -> None:
        with self._free:
            self._writers_waiting += 1
            try:
                while self._writing or self._readers:
                    self._free.wait()
            except BaseException:  # Ctrl-C: readers need not wait for this one any more
                self._free.notify_all()
                raise
            finally:
                self._writers_waiting -= 1
            self._writing = True

    def _end_writing(self) -> None:
        with self._free:
            self._writing = False
            self._free.notify_all()
