"""What one tab gets: whole documents at first, then differences, events and lines of output, each once and in order.

A stream remembers what it sent, and looks at its subject's newest version when there is room to send: a slow tab skips
versions, and nothing is queued for it. Its position is the number of the last event and the cursor of the last line, the id
of every message, so a tab that lost its connection continues where it was.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from pliant.core.errors import PliantError
from pliant.core.series.job_series import JobSeries
from pliant.dashboard.documents.logs import lines_json
from pliant.dashboard.documents.patch import merge_patch
from pliant.dashboard.documents.series import newest_time
from pliant.dashboard.watching.job_subject import EVENTS, LOG, MAX_EVENTS, SERIES, JobSubject
from pliant.dashboard.watching.subject import Document, Subject
from pliant.dashboard.wire import message, to_bytes

BEAT_S = 5.0
FIRST_LINES = 500
MAX_LINES = 2000  # of a message
WHOLE_AGAIN_S = 300.0  # the curves


@dataclass(frozen=True, slots=True)
class Position:
    """What was sent: events up to this number, output up to this cursor (None: none yet)."""

    event: int = 0
    cursor: str | None = None

    def __str__(self) -> str:
        return f"{self.event};{self.cursor or ''}"

    @classmethod
    def parse(cls, text: str) -> Position | None:
        number, separator, cursor = text.partition(";")
        if not separator or not number.isascii() or not number.isdecimal() or len(number) > 18 or len(cursor) > 64:
            return None
        return cls(int(number), cursor or None)


class DocumentStream:
    """Of the documents of one subject."""

    def __init__(self, subject: Subject, topics: frozenset[str]) -> None:
        self._subject = subject
        self._topics = topics
        self._sent: dict[str, Document] = {}
        self._problems: dict[str, str] = {}

    @property
    def subject(self) -> Subject:
        return self._subject

    @property
    def topics(self) -> frozenset[str]:
        return self._topics

    async def news(self, position: Position) -> AsyncIterator[tuple[bytes, Position]]:
        """Messages that were not sent yet, each with the position after it."""
        for topic in sorted(self._topics):
            problem = self._subject.problems.get(topic)
            if problem is not None:
                if self._problems.get(topic) != problem.error:
                    self._problems[topic] = problem.error
                    data = to_bytes({"topic": topic, "error": problem.error, "hint": problem.hint})
                    yield message("problem", data, str(position)), position
                continue
            document = self._subject.documents.get(topic)
            if document is None or topic.startswith(LOG) or topic == EVENTS:
                continue
            if topic in self._sent and topic in self._subject.sent_otherwise:
                continue
            sent = self._sent.get(topic)
            if sent is document and topic not in self._problems:
                continue
            self._problems.pop(topic, None)  # a patch, if only an empty one, tells that it is over
            self._sent[topic] = document
            yield _document_message(topic, sent, document, position), position


class JobStream(DocumentStream):
    """And of a job's events, and of the output of one node."""

    def __init__(self, subject: JobSubject, topics: frozenset[str], node: str) -> None:
        wanted = topics | ({f"{LOG}{node}"} if node else frozenset())
        super().__init__(subject, wanted)
        self._job = subject
        self._node = node
        self._has_events = EVENTS in topics
        self._drawn: JobSeries | None = None  # the curves that the tab has
        self._drawn_at = time.monotonic()

    async def news(self, position: Position) -> AsyncIterator[tuple[bytes, Position]]:
        at = position
        async for text, _ in super().news(position):
            yield text, position
        if (curves := self._curves(position)) is not None:
            yield curves, position
        if self._has_events:
            async for text, moved in self._events(at):
                at = moved
                yield text, at
        if self._node:
            async for text, moved in self._lines(at):
                yield text, moved

    def _curves(self, position: Position) -> bytes | None:
        """What curves have more than the tab knows. The whole again from time to time: old points become coarser."""
        series, document = self._job.series, self._job.documents.get(SERIES)
        if series is None or document is None or SERIES not in self._sent or document is self._sent[SERIES]:
            self._drawn = self._drawn or (series if SERIES in self._sent else None)
            return None
        drawn, self._drawn, self._sent[SERIES] = self._drawn, series, document
        if drawn is None or time.monotonic() > self._drawn_at + WHOLE_AGAIN_S:
            self._drawn_at = time.monotonic()
            return message("doc", b'{"topic":"series","doc":' + document.as_bytes + b"}", str(position))
        begin = newest_time(drawn)
        return message("series", to_bytes({"since": begin, "series": series.since(begin).to_json()}), str(position))

    async def _events(self, position: Position) -> AsyncIterator[tuple[bytes, Position]]:
        while position.event < self._job.history.last:
            found = self._job.events_after(position.event)
            if found is None:
                after = position.event
                records = await self._job.call(lambda handle, after=after: handle.events(after, MAX_EVENTS))  # type: ignore[misc]
                found = [record.to_json() for record in records]
            if not found:
                return
            position = Position(found[-1]["number"], position.cursor)
            yield message("events", to_bytes({"events": found, "after": position.event}), str(position)), position

    async def _lines(self, position: Position) -> AsyncIterator[tuple[bytes, Position]]:
        tail = self._job.tails.get(self._node)
        if tail is None:
            return
        node = self._node
        if position.cursor is None:
            page = await self._job.call(lambda handle: handle.log_page(node, lines=FIRST_LINES))
            position = Position(position.event, page.after or "0")
            data = {"node": node, "lines": lines_json(page.lines), "after": position.cursor, "before": page.before}
            yield message("log", to_bytes({**data, "at_start": page.at_start, "first": True}), str(position)), position
        while True:
            found = tail.after(position.cursor or "0")
            if found is None:
                cursor = position.cursor or "0"
                page = await self._job.call(
                    lambda handle, cursor=cursor: handle.log_page(node, after=cursor, lines=MAX_LINES)  # type: ignore[misc]
                )
                found = lines_json(page.lines), page.after
            lines, end = found
            if not lines:
                return
            position = Position(position.event, end)
            for begin in range(0, len(lines), MAX_LINES):
                data = {"node": node, "lines": lines[begin : begin + MAX_LINES], "after": end}
                yield message("log", to_bytes(data), str(position) if begin + MAX_LINES >= len(lines) else ""), position


def _document_message(topic: str, sent: Document | None, document: Document, position: Position) -> bytes:
    name = to_bytes(topic)
    if sent is None:
        return message("doc", b'{"topic":' + name + b',"doc":' + document.as_bytes + b"}", str(position))
    is_next = document.version == sent.version + 1
    patch = document.patch if is_next else to_bytes(merge_patch(sent.value, document.value))
    return message("patch", b'{"topic":' + name + b',"patch":' + patch + b"}", str(position))


async def follow(streams: list[DocumentStream], position: Position) -> AsyncIterator[bytes]:
    """Everything that a tab gets, until one of its subjects is gone."""
    beat_at = 0.0
    while True:
        for stream in streams:
            try:
                async for text, moved in stream.news(position):
                    position = moved
                    yield text
            except PliantError as error:
                data = {"topic": LOG.rstrip(":"), "error": error.message, "hint": error.hint}
                yield message("problem", to_bytes(data), str(position))
            if (gone := stream.subject.gone) is not None:
                yield message("gone", to_bytes({"error": gone.error, "hint": gone.hint}))
                return
        now = time.monotonic()
        if now >= beat_at:
            beat_at = now + BEAT_S
            yield message("beat", to_bytes({"now": time.time()}))
        await streams[0].subject.change(max(0.05, beat_at - now))
