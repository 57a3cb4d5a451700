"""All jobs of a dashboard as a list, and the machines that they run on.

Jobs that have ended are read once. Of running ones a quick view is taken each time, a few at a time; a master that does not
answer at once keeps its row of before.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pliant.core.errors import NotFound, PliantError
from pliant.dashboard.documents.cluster import cluster_document
from pliant.dashboard.documents.history import EventHistory
from pliant.dashboard.documents.jobs import MAX_ROWS, job_row, jobs_document
from pliant.dashboard.threads import DaemonThreads
from pliant.dashboard.watching.job_source import JobSource
from pliant.dashboard.watching.subject import Problem, Subject
from pliant.handles.job_handle import JobHandle, JobView
from pliant.monitors.base import ClusterMonitor, Observation

INTERVAL_S = 2.0
MAX_EVENTS = 2000  # that are read of a job each time, for the reasons of its restarts
CLOSE_TIMEOUT_S = 0.3
TOPICS = ("jobs", "cluster")


@dataclass
class _Known:
    """What is kept of a job from one look to the next."""

    handle: JobHandle
    history: EventHistory = field(default_factory=EventHistory)
    view: JobView | None = None
    row: dict[str, Any] | None = None
    is_final: bool = False  # it has ended and all of its events are read


class JobsSubject(Subject):
    def __init__(self, threads: DaemonThreads, source: JobSource) -> None:
        super().__init__(threads, INTERVAL_S)
        self._source = source
        self._known: dict[str, _Known] = {}
        self._machines = _Machines(source)

    def poll(self, topics: frozenset[str]) -> Iterator[tuple[str, Mapping[str, Any] | Problem]]:
        handles = self._source.handles()
        shown = dict(list(handles.items())[-MAX_ROWS:])
        self._known = {
            job_id: known
            for job_id, handle in shown.items()
            if (known := self._known.get(job_id)) is not None and known.handle is handle
        }
        for job_id, handle in shown.items():
            self._known.setdefault(job_id, _Known(handle))
        open_jobs = [(job_id, known) for job_id, known in self._known.items() if not self._is_settled(known)]
        if len(open_jobs) > 1:
            with ThreadPoolExecutor(min(8, len(open_jobs)), thread_name_prefix="rows") as pool:
                list(pool.map(lambda pair: self._look(*pair), open_jobs))
        else:
            for job_id, known in open_jobs:
                self._look(job_id, known)
        now = time.time()
        if "jobs" in topics:
            rows = {job_id: known.row for job_id, known in self._known.items() if known.row is not None}
            yield "jobs", jobs_document(rows, now, len(handles) - len(shown))
        if "cluster" in topics:
            views = [(job_id, known.view) for job_id, known in self._known.items() if known.view is not None]
            observation, note = self._machines.observe()
            yield "cluster", cluster_document(self._source.platform, observation, views, now, note)

    def _is_settled(self, known: _Known) -> bool:
        if not known.is_final:
            return False
        try:
            known.is_final = known.handle.is_over()  # it may have been resumed
        except PliantError:
            return True
        return known.is_final

    def _look(self, job_id: str, known: _Known) -> None:
        try:
            known.view = known.handle.peek()
            is_read = self._read_events(known)
        except NotFound:
            return  # removed just now
        except PliantError as error:
            if known.row is not None:
                known.row = {**known.row, "note": error.message}
            else:
                known.row = _unreadable(job_id, known.handle, error)
            return
        restarts = known.history.restarts if known.history.last else None
        known.row = job_row(job_id, known.view, restarts, known.handle.created_at())
        known.is_final = known.view.is_over and is_read

    def _read_events(self, known: _Known) -> bool:
        """True: there are no more now. Of a cluster's jobs none are read: each would be a call to its master."""
        if known.handle.platform == "kubernetes":
            return True
        found = known.handle.events(known.history.last, MAX_EVENTS)
        known.history.add(found)
        return len(found) < MAX_EVENTS

    async def close(self) -> None:
        await super().close()
        with contextlib.suppress(TimeoutError, PliantError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._threads.run(self._machines.close)


class _Machines:
    """The platform's monitor, which is asynchronous and remembers what it saw, on a loop of its own."""

    def __init__(self, source: JobSource) -> None:
        self._source = source
        self._monitor: ClusterMonitor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def observe(self) -> tuple[Observation | None, str]:
        with self._lock:
            try:
                if self._loop is None:
                    self._loop = asyncio.new_event_loop()
                if self._monitor is None:
                    self._monitor = self._loop.run_until_complete(self._make())
                return self._loop.run_until_complete(self._monitor.observe()), ""
            except PliantError as error:
                return None, error.message
            except (ImportError, OSError) as error:
                return None, f"the machines cannot be observed: {error}"

    async def _make(self) -> ClusterMonitor:
        return self._source.make_monitor()

    def close(self) -> None:
        with self._lock:
            if self._loop is None:
                return
            if self._monitor is not None:
                self._loop.run_until_complete(self._monitor.close())
            self._loop.close()


def _unreadable(job_id: str, handle: JobHandle, error: PliantError) -> dict[str, Any]:
    return {
        "id": job_id,
        "name": handle.name,
        "platform": handle.platform,
        "phase": "Unknown",
        "reason": "",
        "message": error.message,
        "note": error.message,
        "over": False,
        "created_at": handle.created_at(),
        "progress": {},
        "restarts": {"programs": 0, "nodes": 0, "reasons": {}},
        "warnings": [],
    }
