"""Something that is polled while somebody looks at it: documents by topic, each with its newest version.

Viewers say which topics they want; only those are made. Who is slow skips versions: nothing is queued for a viewer. A subject
that nobody looks at is not polled, and its documents are forgotten after ``KEPT_S``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pliant.core.errors import MasterUnavailable, NotFound, PliantError
from pliant.dashboard.documents.patch import merge_patch
from pliant.dashboard.threads import DaemonThreads
from pliant.dashboard.wire import to_bytes

log = logging.getLogger(__name__)

FRESH_S = 1.0  # a document that is not older is not made anew for a single request
PATIENCE_S = 5.0  # of a single request; then it gets the document that there is
KEPT_S = 30.0  # without a viewer
MAX_SHARE = 0.34  # of the time that a poller may spend polling


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a topic cannot be read now."""

    error: str
    hint: str = ""
    kind: type[Exception] = PliantError


class Document:
    """The newest version of a document. As bytes, and as a difference to the version before, it is made once."""

    __slots__ = ("_before", "_bytes", "_patch", "made_at", "value", "version")

    def __init__(self, version: int, value: Mapping[str, Any], before: Mapping[str, Any], made_at: float) -> None:
        self.version = version
        self.value = value
        self.made_at = made_at
        self._before: Mapping[str, Any] | None = before
        self._patch = b""
        self._bytes = b""

    @property
    def as_bytes(self) -> bytes:
        if not self._bytes:
            self._bytes = to_bytes(self.value)
        return self._bytes

    @property
    def patch(self) -> bytes:
        """From the version before."""
        if self._before is not None:
            self._patch = to_bytes(merge_patch(self._before, self.value))
            self._before = None
        return self._patch


class Subject(ABC):
    sent_otherwise: frozenset[str] = frozenset()  # topics whose differences are no patches

    def __init__(self, threads: DaemonThreads, interval_s: float) -> None:
        self._threads = threads
        self._interval_s = interval_s
        self._viewers: Counter[str] = Counter()
        self._poller: asyncio.Task[None] | None = None
        self._polling = asyncio.Lock()
        self._changed = asyncio.Event()
        self.documents: dict[str, Document] = {}
        self.problems: dict[str, Problem] = {}
        self.gone: Problem | None = None  # it does not exist any more
        self.polls = 0
        self._left_at = time.monotonic()

    @abstractmethod
    def poll(self, topics: frozenset[str]) -> Iterator[tuple[str, Mapping[str, Any] | Problem]]:
        """In a thread, one call at a time: make the documents of these topics. ``NotFound``: the subject is gone."""

    # --- viewers

    @contextlib.contextmanager
    def viewed(self, topics: Iterable[str]) -> Iterator[None]:
        wanted = list(topics)
        self._viewers.update(wanted)
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._keep_polling())
        try:
            yield
        finally:
            self._viewers.subtract(wanted)
            self._viewers = +self._viewers
            self._left_at = time.monotonic()

    @property
    def is_viewed(self) -> bool:
        return bool(self._viewers)

    @property
    def is_forgotten(self) -> bool:
        """Nobody has looked at it for a while."""
        return not self._viewers and time.monotonic() > self._left_at + KEPT_S

    async def document(self, topic: str) -> Document:
        """The document as it is now; raises what keeps it from being made."""
        self._left_at = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE_S), self._polling:
                found = self.documents.get(topic)
                if found is None or topic in self.problems or time.monotonic() > found.made_at + FRESH_S:
                    await self._poll(frozenset({topic}))
        except TimeoutError:
            if topic not in self.documents:
                raise MasterUnavailable("the job's master takes long to answer", hint="try again in a moment") from None
        if self.gone is not None:
            raise NotFound(self.gone.error, hint=self.gone.hint)
        if (problem := self.problems.get(topic)) is not None:
            raise _error_of(problem)
        return self.documents[topic]

    async def change(self, timeout: float) -> None:
        """Returns when a document or something else of it changed, or after this time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):  # wait_for of Python 3.11 may swallow a cancellation
                await self._changed.wait()

    # --- polling

    def interval_s(self) -> float:
        return self._interval_s

    async def _keep_polling(self) -> None:
        while self._viewers and self.gone is None:
            started = time.monotonic()
            try:
                async with self._polling:
                    await self._poll(frozenset(self._viewers))
            except Exception:  # a border: the next poll may succeed
                log.exception("polling failed")
            took = time.monotonic() - started
            await asyncio.sleep(max(self.interval_s() - took, took * (1 / MAX_SHARE - 1), 0.05))

    async def _poll(self, topics: frozenset[str]) -> None:
        self.polls += 1
        made: dict[str, Document | Problem] = {}

        def work() -> None:
            now = time.monotonic()
            for topic, found in self.poll(topics):
                made[topic] = found if isinstance(found, Problem) else self._next(topic, found, now)

        try:
            await self._threads.run(work)
        except NotFound as error:
            self.gone = Problem(error.message, error.hint, NotFound)
        except PliantError as error:
            problem = Problem(error.message, error.hint, type(error))
            made |= {topic: problem for topic in topics if topic not in made}
        for topic, found in made.items():
            if isinstance(found, Problem):
                self.problems[topic] = found
            else:
                self.problems.pop(topic, None)
                self.documents[topic] = found
        self.notify()

    def _next(self, topic: str, value: Mapping[str, Any], now: float) -> Document:
        before = self.documents.get(topic)
        if before is None:
            return Document(1, value, {}, now)
        if value == before.value:
            before.made_at = now
            return before
        document = Document(before.version + 1, value, before.value, now)
        if topic in self._viewers and topic not in self.sent_otherwise:
            _ = document.patch  # here rather than on the event loop
        return document

    def notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def close(self) -> None:
        if self._poller is not None:
            self._poller.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._poller


def _error_of(problem: Problem) -> Exception:
    kind = problem.kind if issubclass(problem.kind, PliantError) else PliantError
    return kind(problem.error, hint=problem.hint)
