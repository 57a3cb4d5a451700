"""Reports to the master that this server makes progress while it executes a long order, and stops when it does not.

A server asks for orders every second, but the same thread restores, applies, copies and moves, each of which may take minutes. So
another thread observes it: it makes progress if it used the CPU since the last check, however little, or waits for a disk. A thread
that waits for a lock that nobody will release does neither; and if the whole interpreter hangs, nobody reports. Then the master
has the server killed (``core/nodes/stall_detector.py``).

A thread that polls (for the file of another server, for room on a disk, for the master) uses the CPU with each attempt, so it
counts as making progress.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pliant.core.errors import PliantError

log = logging.getLogger(__name__)

REPORT_INTERVAL_S = 5.0  # less than a tenth of what the master waits


class LivenessReporter:
    """Observes the thread that creates it, for as long as ``with`` lasts."""

    def __init__(self, report: Callable[[], object], *, every: float = REPORT_INTERVAL_S) -> None:
        self._report = report
        self._every = every
        self._over = threading.Event()
        me = threading.current_thread()
        assert me.ident is not None
        self._clock = time.pthread_getcpuclockid(me.ident)
        self._stat = Path(f"/proc/self/task/{me.native_id}/stat")
        self._used = 0
        self._at_disk = 0
        self._thread = threading.Thread(target=self._run, name="ps-liveness", daemon=True)

    def __enter__(self) -> LivenessReporter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(timeout=1)

    @contextmanager
    def at_disk(self) -> Iterator[None]:
        """Reads or writes files: some file systems do not show in the state of a thread that it waits for them."""
        self._at_disk += 1
        try:
            yield
        finally:
            self._at_disk -= 1

    def made_progress(self) -> bool:
        """Whether it did since the last check."""
        used, before = time.clock_gettime_ns(self._clock), self._used
        self._used = used
        return used > before or self._at_disk > 0 or self._waits_for_a_device()

    def _waits_for_a_device(self) -> bool:
        try:
            return self._stat.read_text().rpartition(")")[2].split()[0] == "D"
        except OSError:
            return False

    def _run(self) -> None:
        progressed = True
        while True:
            if self.made_progress():
                progressed = True
                try:
                    self._report()
                except (
                    PliantError,
                    ValueError,
                ) as error:  # the other thread hears the same; or gRPC: the channel is closed
                    log.debug("the liveness report failed: %s", error)
            elif progressed:
                progressed = False
                log.warning("this server has made no progress for %.0f s", self._every)
            if self._over.wait(self._every):
                return
