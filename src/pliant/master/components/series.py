"""Records what the job's charts are drawn of: speed, workers and use of nodes once a second, metrics as programs report them.

Kept in memory (``core/series``), written to the job's folder every few seconds and at the end (``master/series_file.py``, and for
TensorBoard ``master/event_file.py``), and continued by the next master. What cannot be written is tried again: charts are no
reason to stop training.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Mapping
from pathlib import Path

from pliant.core.clock import Clock
from pliant.core.end_policy import SERVICE_ROLES
from pliant.core.errors import CorruptData
from pliant.core.job_state import JobState
from pliant.core.nodes.states import NodeState
from pliant.core.series.book import SeriesBook
from pliant.core.series.event_log import SPEED, EventLog
from pliant.core.series.job_series import EVALUATION, JobSeries
from pliant.master.components.base import BackgroundComponent
from pliant.master.components.signals import JobOver, Signal, StepReported
from pliant.master.components.stats import MemoryStats
from pliant.master.event_file import EventFile
from pliant.master.series_file import check_room, read_series, write_series

log = logging.getLogger(__name__)

SAMPLE_INTERVAL_S = 1.0
WRITE_INTERVAL_S = 5.0
MAX_WRITE_SHARE = 0.02  # of the time: a large file is written less often


class SeriesRecorder(BackgroundComponent):
    name = "series"
    title = "series recorder"

    def __init__(
        self, job: str, state: JobState, stats: MemoryStats, clock: Clock, *, path: Path, event_folder: Path
    ) -> None:
        """``path``: of the file; ``event_folder``: of TensorBoard's files."""
        super().__init__()
        self._job = job
        self._state = state
        self._stats = stats
        self._clock = clock
        self._path = path
        self._book = SeriesBook()
        self._events = EventLog(clock.now())
        self._event_file = EventFile(event_folder)
        self._sampled_at = -math.inf
        self._usage_times: dict[str, float] = {}  # of the newest sample of each node that is recorded
        self._evaluated: set[int] = set()  # versions whose metrics are recorded
        self._writing = asyncio.Lock()
        self._has_failed = False

    def series(self) -> JobSeries:
        return self._book.series(self._job, self._clock.now())

    # --- life

    def prepare(self) -> None:
        try:
            if (found := read_series(self._path)) is not None:
                self._book.restore(found)
        except CorruptData as error:
            log.warning("charts begin anew: %s", error)
        began = min((point.time for point in self._book.workers.points), default=self._clock.now())
        self._events = EventLog(began, step=self._stats.training.progress.step)
        training = self._state.training
        for version, result in (training.results if training is not None else {}).items():
            last = [self._book.last_step_of(EVALUATION + name) for name in result.metrics]
            if any(step is not None and step >= version for step in last):
                self._evaluated.add(version)

    async def start(self) -> None:
        self.run_beside(self._write_regularly())

    async def tick(self) -> None:
        if not self._state.job.over and self._clock.now() - self._sampled_at >= SAMPLE_INTERVAL_S:
            self._sample()

    def on_event(self, signal: Signal) -> None:
        match signal:
            case StepReported(metrics=metrics):
                self._add_metrics(self._stats.training.progress.step, metrics)
            case JobOver():
                self._sample()
                self._events.finish(self._clock.now())
            case _:
                return

    async def stop(self) -> None:
        await super().stop()
        self._events.finish(self._clock.now())
        await self.write(durable=True)
        self._event_file.close()

    # --- recording

    def _sample(self) -> None:
        now = self._sampled_at = self._clock.now()
        step = self._stats.training.progress.step
        book = self._book
        speed = {
            "records_per_second": (book.records_per_second, self._stats.records_per_second()),
            "steps_per_second": (book.steps_per_second, self._stats.training.steps_per_second(now)),
        }
        if (nodes := self._state.nodes) is not None:
            running = (node for node in nodes.nodes() if node.state is NodeState.RUNNING)
            speed["workers"] = (book.workers, float(sum(node.role not in SERVICE_ROLES for node in running)))
        for curve, value in speed.values():
            curve.add(now, step, value)
        self._events.add(now, step, {SPEED + name: value for name, (_, value) in speed.items()})
        usages = self._stats.report_resource_usage()
        for name, usage in usages.items():
            if usage.time > self._usage_times.get(name, -math.inf):
                limits = (usage.cpu_limit, usage.memory_limit_mb)
                book.add_usage(now, step, name, cpu=usage.cpu, memory_mb=usage.memory_mb, limits=limits)
        self._usage_times = {name: usage.time for name, usage in usages.items()}
        self._add_evaluations()

    def _add_metrics(self, step: int, metrics: Mapping[str, float | None]) -> None:
        now = self._clock.now()
        self._events.add(now, step, self._taken(now, step, metrics))

    def _taken(self, now: float, step: int, metrics: Mapping[str, float | None]) -> dict[str, float]:
        """Those that the book takes."""
        given = {name: value for name, value in metrics.items() if value is not None}
        return {name: value for name, value in given.items() if self._book.add_metric(now, step, name, value)}

    def _add_evaluations(self) -> None:
        results = self._state.training.results if self._state.training is not None else {}
        self._evaluated &= results.keys()
        for version, result in results.items():
            if version not in self._evaluated:
                self._evaluated.add(version)
                now = self._clock.now()
                metrics = {EVALUATION + name: value for name, value in result.metrics.items()}
                self._events.add_result(now, version, self._taken(now, version, metrics))

    # --- keeping

    async def _write_regularly(self) -> None:
        while True:
            began = time.monotonic()
            await self.write()
            took = time.monotonic() - began
            await asyncio.sleep(max(WRITE_INTERVAL_S, took / MAX_WRITE_SHARE))

    async def write(self, *, durable: bool = False) -> None:
        async with self._writing:
            now, series, records = self._clock.now(), self.series(), self._events.take()
            try:
                await asyncio.to_thread(check_room, self._path.parent)
                await asyncio.to_thread(self._event_file.append, now, records)
                await asyncio.to_thread(write_series, self._path, series, durable=durable)
                self._has_failed = False
            except OSError as error:
                if not self._has_failed and self._path.parent.exists():
                    log.warning("cannot write %s: %s; charts have a gap", self._path.parent, error)
                self._has_failed = True
