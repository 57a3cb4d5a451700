"""Reports to the master how far this program is, in a thread of its own: a training step never waits for it.

Only the newest state counts, so at most one report waits while another is on its way, and they follow each other at
``REPORT_INTERVAL_S`` at the earliest. A master that is away gets the newest one when it is back. Closing waits, for a limited
time, until the last one was answered: that is how the last step of a training surely becomes known.

Records are added up over the run of the program, with how many of them the master has answered for, so that a report which
arrives twice, or at a new master, counts once.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from dataclasses import replace
from itertools import islice

from pliant.core.errors import PliantError, RetryableError
from pliant.core.progress import MAX_METRICS, TrainingProgress
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import MasterClient

log = logging.getLogger(__name__)

REPORT_INTERVAL_S = 0.2
RETRY_INTERVAL_S = 0.5
CALL_TIMEOUT_S = 5.0
CLOSE_TIMEOUT_S = 15.0  # for a master that is being restarted; less where a node gives up on its master earlier


class ProgressReporter:
    def __init__(self, master: MasterClient, node: str, *, close_timeout: float = CLOSE_TIMEOUT_S) -> None:
        self._master = master
        self._node = node
        self._close_timeout = min(close_timeout, CLOSE_TIMEOUT_S)
        self._run = uuid.uuid4().hex[:16]
        self._changed = threading.Condition()
        self._waiting: TrainingProgress | None = None  # not sent yet
        self._records = 0  # of this run
        self._acknowledged = 0
        self._closing = False
        self._gives_up_at = float("inf")  # monotonic
        self._thread: threading.Thread | None = None

    def put(self, progress: TrainingProgress, records: int = 0) -> None:
        """The newest state; ``records`` that this worker has trained on since the one before."""
        with self._changed:
            if self._closing:
                return
            if self._waiting is not None:
                progress = _with_metrics_of(self._waiting, progress)
            self._waiting = progress
            self._records += records
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="pliant-progress", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self, *, timeout: float | None = None) -> None:
        """Send what waits, and stop."""
        timeout = self._close_timeout if timeout is None else timeout
        with self._changed:
            self._closing = True
            self._gives_up_at = time.monotonic() + timeout
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout + CALL_TIMEOUT_S)

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            pause = REPORT_INTERVAL_S if self._send(*taken) else RETRY_INTERVAL_S
            with self._changed:
                if not self._closing:
                    self._changed.wait_for(lambda: self._closing, pause)
                elif self._waiting is not None:
                    if time.monotonic() > self._gives_up_at:
                        return
                    self._changed.wait(min(pause, 0.1))

    def _take(self) -> tuple[TrainingProgress, int] | None:
        """The next report, once there is one; None: there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting is not None or self._closing)
            progress, self._waiting = self._waiting, None
            return (progress, self._records) if progress is not None else None

    def _send(self, progress: TrainingProgress, records: int) -> bool:
        request = pb.ReportStepRequest(
            node=self._node,
            step=progress.step,
            total_steps=progress.total_steps,
            epoch=progress.epoch,
            records_done=progress.records_done,
            records_total=progress.records_total,
            metrics={name: value for name, value in progress.metrics.items() if value is not None},
            run=self._run,
            records=records,
            acknowledged=self._acknowledged,
        )
        try:
            self._master.call(self._master.stubs.stats.ReportStep, request, timeout=CALL_TIMEOUT_S)
        except RetryableError:
            with self._changed:
                newer = self._waiting
                self._waiting = progress if newer is None else _with_metrics_of(progress, newer)
            return False
        except (PliantError, ValueError) as error:  # refused, or gRPC's channel was closed: the next one may be better
            log.warning("progress could not be reported: %s", error)
            return True
        self._acknowledged = records
        return True


def _with_metrics_of(older: TrainingProgress, newer: TrainingProgress) -> TrainingProgress:
    """As one report, which has room for ``MAX_METRICS`` names."""
    room = max(0, MAX_METRICS - len(newer.metrics))
    kept = islice(((name, value) for name, value in older.metrics.items() if name not in newer.metrics), room)
    return replace(newer, metrics={**dict(kept), **newer.metrics})
