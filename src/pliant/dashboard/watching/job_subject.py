"""One job as it is followed: its view, its events, and the documents made of them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pliant.core.errors import NotAvailable, NotFound, PliantError
from pliant.core.planning.reports import JobExplanation, JobPlans
from pliant.core.series.job_series import JobSeries
from pliant.core.shards.shard_map import ShardMap
from pliant.dashboard.documents.data import data_document
from pliant.dashboard.documents.decisions import decisions_document
from pliant.dashboard.documents.history import EventHistory
from pliant.dashboard.documents.job import job_document
from pliant.dashboard.documents.logs import lines_json
from pliant.dashboard.documents.nodes import NodesDocument
from pliant.dashboard.documents.series import series_document
from pliant.dashboard.documents.servers import ServersDocument
from pliant.dashboard.threads import DaemonThreads
from pliant.dashboard.watching.subject import Problem, Subject
from pliant.handles.job_handle import JobHandle, JobView
from pliant.handles.log_pages import LogPage

T = TypeVar("T")

DOCUMENTS = ("job", "nodes", "data", "servers", "decisions", "series")
EVENTS, SERIES = "events", "series"
LOG = "log:"  # a topic per node: log:worker-0
MAX_EVENTS = 2000  # of one call and of one message
KEPT_EVENTS = 4000  # the newest, for those who have all before
KEPT_LINES = 4000  # of a node
OVER_INTERVAL_S = 5.0  # of a job that has ended, which may be resumed
MANY_NODES, MANY_NODES_INTERVAL_S = 200, 2.0
EXPLAIN_INTERVAL_S = 10.0  # fits are computed
DECISIONS_INTERVAL_S = 3.0
SERIES_INTERVAL_S = 2.0
NO_VIEW = "the job cannot be read"


@dataclass
class LogTail:
    """What a node wrote since somebody looks: pages, each of which begins where the one before ended."""

    end: str  # cursor
    pages: deque[tuple[str, str, list[dict[str, Any]]]] = field(default_factory=deque)  # begin, end, lines
    lines: int = 0

    def add(self, page: LogPage) -> None:
        if not page.lines:
            return
        self.pages.append((self.end, page.after, lines_json(page.lines)))
        self.lines += len(page.lines)
        self.end = page.after
        while self.lines > KEPT_LINES and len(self.pages) > 1:
            self.lines -= len(self.pages.popleft()[2])

    def after(self, cursor: str) -> tuple[list[dict[str, Any]], str] | None:
        """The lines after a cursor, and where they end; None: it is not one of these pages."""
        if cursor == self.end:
            return [], cursor
        for number, (begin, _, _) in enumerate(self.pages):
            if begin == cursor:
                found = [line for _, _, lines in list(self.pages)[number:] for line in lines]
                return found, self.end
        return None


class JobSubject(Subject):
    sent_otherwise = frozenset({SERIES})

    def __init__(self, threads: DaemonThreads, job_id: str, handle: JobHandle) -> None:
        super().__init__(threads, max(1.0, handle.refresh_interval_s))
        self.id = job_id
        self.handle = handle
        self.history = EventHistory()
        self.tails: dict[str, LogTail] = {}
        self.events: deque[dict[str, Any]] = deque(maxlen=KEPT_EVENTS)
        self._lock = threading.Lock()  # of the handle: one call to the master at a time
        self._view: JobView | None = None
        self._created_at = 0.0
        self._nodes, self._servers = NodesDocument(), ServersDocument()
        self._is_static: set[str] = set()  # topics of an ended job that are made
        self._explained_at = self._decided_at = self._drawn_at = float("-inf")
        self.series: JobSeries | None = None
        self._maps: tuple[ShardMap, ...] | None = None
        self._plans: JobPlans | None = None
        self._explanation: JobExplanation | None = None
        self._decisions_note = ""

    def interval_s(self) -> float:
        view = self._view
        if any(topic.startswith(LOG) for topic in self._viewers):
            return min(self._interval_s, 1.0)
        if view is not None and view.is_over:
            return OVER_INTERVAL_S
        if view is not None and len(view.status.nodes) > MANY_NODES:
            return max(self._interval_s, MANY_NODES_INTERVAL_S)
        return self._interval_s

    async def call(self, function: Callable[[JobHandle], T], *, exclusive: bool = False) -> T:
        """Ask the handle something, in a thread. ``exclusive``: it calls the master."""

        def work() -> T:
            with self._lock if exclusive else contextlib.nullcontext():
                return function(self.handle)

        return await self._threads.run(work)

    def poll(self, topics: frozenset[str]) -> Iterator[tuple[str, Mapping[str, Any] | Problem]]:
        self._check_is_same()
        self.tails = {
            node: tail
            for node, tail in self.tails.items()
            if (topic := f"{LOG}{node}") in topics or topic in self._viewers
        }
        if topics != {EVENTS}:
            self._look()
        self._read_events()
        for topic in topics:
            if topic.startswith(LOG):
                yield topic, self._read_log(topic.removeprefix(LOG))
            elif topic != EVENTS and (document := self._make(topic)) is not None:
                yield topic, document

    def _check_is_same(self) -> None:
        """Another job may have got its name (`pliant run --overwrite`), with events of its own."""
        created_at = self.handle.created_at()
        if created_at and self._created_at and created_at != self._created_at:
            raise NotFound(f"job {self.id} was replaced by another of this name", hint="reload the page")
        self._created_at = created_at or self._created_at

    def _look(self) -> None:
        before = self._view
        if before is not None and before.is_over and self.handle.is_over():
            return
        with self._lock:
            view = self.handle.view(retry_timeout=0)
        if not view.is_over or (before is not None and not before.is_over):
            self._is_static.clear()
            self._decided_at = self._explained_at = float("-inf") if view.is_over else self._explained_at
        self._view = view

    def _make(self, topic: str) -> Mapping[str, Any] | Problem | None:
        """None: it is as before."""
        view = self._view
        assert view is not None
        if topic in self._is_static and topic in self.documents:
            return self.documents[topic].value
        if view.is_over:
            self._is_static.add(topic)
        match topic:
            case "job":
                return job_document(self.id, view, self.history.restarts, self.handle.created_at())
            case "nodes":
                return self._nodes.make(view.status, self.history, is_over=view.is_over)
            case "servers":
                return self._servers.make(view.status, self.history)
            case "data":
                return self._data(view)
            case "decisions":
                return self._decisions(view)
            case "series":
                return self._series(view)
        return Problem(f"unknown topic {topic!r}", kind=NotFound)

    def _data(self, view: JobView) -> Mapping[str, Any]:
        if self._maps is None or _has_answers(view):
            try:
                with self._lock:
                    self._maps = self.handle.shard_maps()
            except NotAvailable as error:
                return data_document(view.status, None, error.message)
        return data_document(view.status, self._maps, view.note)

    def _series(self, view: JobView) -> Mapping[str, Any]:
        now = time.monotonic()
        if self.series is None or view.is_over or (now > self._drawn_at + SERIES_INTERVAL_S and _has_answers(view)):
            self._drawn_at = now
            with self._lock:
                self.series = self.handle.series()
        return series_document(self.series)

    def _decisions(self, view: JobView) -> Mapping[str, Any]:
        now = time.monotonic()
        if now > self._decided_at + DECISIONS_INTERVAL_S and (self._plans is None or _has_answers(view)):
            self._decided_at, self._decisions_note = now, ""
            try:
                with self._lock:
                    self._plans = self.handle.plans()
                    if now > self._explained_at + EXPLAIN_INTERVAL_S:
                        self._explained_at = now
                        self._explanation = self.handle.explain()
            except NotFound:
                raise
            except PliantError as error:
                self._decisions_note = error.message
        return decisions_document(self._plans, self._explanation, self.history, self._decisions_note)

    def _read_events(self) -> None:
        while True:
            found = self.handle.events(self.history.last, MAX_EVENTS)
            self.history.add(found)
            self.events.extend(record.to_json() for record in found)
            if len(found) < MAX_EVENTS:
                return

    def events_after(self, number: int) -> list[dict[str, Any]] | None:
        """Those that are kept; None: some of those after this number are not."""
        if number >= self.history.last:
            return []
        if not self.events or number < self.events[0]["number"] - 1:
            return None
        return [event for event in self.events if event["number"] > number][:MAX_EVENTS]

    def _read_log(self, node: str) -> Mapping[str, Any] | Problem:
        """The document of a log topic is where its tail ends: whoever sees it change takes the new lines."""
        tail = self.tails.get(node)
        try:
            if tail is None:
                tail = self.tails[node] = LogTail(self.handle.log_page(node, lines=1).after)
            for _ in range(5):  # a program that floods does not hold up the others
                page = self.handle.log_page(node, after=tail.end or "0", lines=2000)
                tail.add(page)
                if page.at_end:
                    break
        except NotFound as error:
            return Problem(error.message, error.hint, NotFound)
        return {"end": tail.end}


def _has_answers(view: JobView) -> bool:
    """While a master is away, asking it more takes long, and what it said last is shown with a note."""
    return view.master_alive or view.is_over
