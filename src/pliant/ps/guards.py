"""Many read or one writes; a writer who waits goes before readers who come later."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ReadersWriter:
    """``with guard.read():`` and ``with guard.write():``; neither may be entered twice by one thread."""

    def __init__(self) -> None:
        self._free = threading.Condition(threading.Lock())
        self._readers = 0
        self._writing = False
        self._writers_waiting = 0

    @contextmanager
    def read(self) -> Iterator[None]:
        with self._free:
            while self._writing or self._writers_waiting:
                self._free.wait()
            self._readers += 1
        try:
            yield
        finally:
            with self._free:
                self._readers -= 1
                if not self._readers and self._writers_waiting:
                    self._free.notify_all()

    @contextmanager
    def write(self) -> Iterator[None]:
        with self._free:
            self._writers_waiting += 1
            try:
                while self._writing or self._readers:
                    self._free.wait()
            finally:
                self._writers_waiting -= 1
            self._writing = True
        try:
            yield
        finally:
            with self._free:
                self._writing = False
                self._free.notify_all()
