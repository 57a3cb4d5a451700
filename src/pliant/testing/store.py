"""A journal that can be cut off at an instant, as by ``kill -9`` of the master."""

from __future__ import annotations

import threading
from pathlib import Path

from pliant.master.journal.store import Batch, JournalStore, Recovered, SqliteStore


class PerishableStore(JournalStore):
    """The real store in a file. After ``die`` nothing more reaches it, so nothing more is answered."""

    def __init__(self, path: Path, *, sync: str = "normal") -> None:
        self._inner = SqliteStore(path, sync=sync)
        self._lock = threading.Lock()
        self._failure: Exception | None = None
        self.commits = 0

    def die(self, failure: Exception | None = None) -> None:
        """From now on every commit fails; what was committed before stays."""
        with self._lock:
            self._failure = failure or OSError("the master was killed")

    def load(self) -> Recovered:
        return self._inner.load()

    def commit(self, batch: Batch) -> None:
        with self._lock:
            if self._failure is not None:
                raise self._failure
            self._inner.commit(batch)
            self.commits += 1

    def close(self) -> None:
        self._inner.close()
