"""Whether a job of a folder is still supervised, for those who wait for its end and do not supervise it themselves."""

from __future__ import annotations

import time

from pliant.core.errors import JobFailed
from pliant.handles.local import INTERRUPTED, LocalJob

REVIVAL_TIMEOUT_S = 10.0  # without launcher and master: an agent may be starting them again


class Supervision:
    def __init__(self, handle: LocalJob) -> None:
        self._handle = handle
        self._last_seen = time.monotonic()

    def running(self) -> bool:
        """Whether it is not over. Raises ``JobFailed`` for one that nobody will continue."""
        if self._handle.is_over():
            return False
        if self._handle.launcher_lives() or self._handle.master_lives():
            self._last_seen = time.monotonic()
        elif time.monotonic() > self._last_seen + REVIVAL_TIMEOUT_S:
            raise JobFailed(
                f"job {self._handle.name} cannot be followed: {INTERRUPTED}",
                hint=f"`pliant resume {self._handle.argument}` continues it",
            )
        return True
