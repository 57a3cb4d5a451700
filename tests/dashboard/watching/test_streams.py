"""What a tab gets: everything once and in order, also after a lost connection; and what following costs."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from tests.dashboard.asgi import Browser
from tests.dashboard.fakes import FakeJob, FakeSource

from pliant.core.errors import MasterUnavailable, NotFound
from pliant.core.events import EventRecord, NodeRunning
from pliant.core.job import Phase
from pliant.core.status import JobStatus
from pliant.core.summary import JobSummary
from pliant.dashboard.documents.patch import apply_patch
from pliant.dashboard.event_stream import MAX_STREAMS_OF_SESSION, EventStream
from pliant.dashboard.state import DashboardState, Options
from pliant.dashboard.threads import DaemonThreads, TooBusy
from pliant.dashboard.watching.job_subject import KEPT_EVENTS, JobSubject, LogTail
from pliant.dashboard.watching.stream import JobStream, Position, follow
from pliant.handles.log_pages import LogLine, LogPage
from pliant.testing.waiting import MAX_WAIT_S


def events(first: int, last: int) -> list[EventRecord]:
    return [EventRecord(n, float(n), NodeRunning(node="worker-0", host="")) for n in range(first, last + 1)]


class Tab:
    """Reads a stream as the front end does."""

    def __init__(self) -> None:
        self.documents: dict[str, dict[str, Any]] = {}
        self.events: list[int] = []
        self.lines: list[str] = []
        self.problems: list[str] = []
        self.kinds: list[str] = []
        self.last_id = ""

    def take(self, text: bytes) -> None:
        fields = dict(line.split(": ", 1) for line in text.decode().strip().split("\n"))
        kind, data = fields["event"], json.loads(fields["data"])
        self.kinds.append(kind)
        self.last_id = fields.get("id", self.last_id)
        match kind:
            case "doc":
                self.documents[data["topic"]] = data["doc"]
            case "patch":
                self.documents[data["topic"]] = apply_patch(self.documents[data["topic"]], data["patch"])
            case "events":
                self.events += [event["number"] for event in data["events"]]
            case "log":
                self.lines += [line["text"] for line in data["lines"]]
            case "problem":
                self.problems.append(data["error"])

    async def read(self, messages: AsyncIterator[bytes], until: Any) -> None:
        async with asyncio.timeout(MAX_WAIT_S):
            async for text in messages:
                self.take(text)
                if until():
                    return


def subject_of(job: FakeJob) -> JobSubject:
    subject = JobSubject(DaemonThreads(2), job.name, job)
    subject._interval_s = 0.02
    return subject


def test_a_tab_has_what_the_document_is_after_every_change() -> None:
    async def run() -> None:
        job, tab = FakeJob(), Tab()
        subject = subject_of(job)
        with subject.viewed({"job"}):
            messages = follow([JobStream(subject, frozenset({"job"}), "")], Position())
            await tab.read(messages, lambda: "job" in tab.documents)
            for step in range(1, 6):
                job.status = replace(job.status, reason=f"step {step}", records_per_second=float(step))
                reason = job.status.reason
                await tab.read(messages, lambda reason=reason: tab.documents["job"]["reason"] == reason)
        assert tab.kinds.count("doc") == 1
        assert tab.documents["job"]["records_per_second"] == 5.0

    asyncio.run(run())


def test_events_come_once_and_in_order_after_a_lost_connection() -> None:
    async def run() -> None:
        job, tab = FakeJob(), Tab()
        subject = subject_of(job)
        job.recorded = events(1, 10)
        with subject.viewed({"events"}):
            await tab.read(
                follow([JobStream(subject, frozenset({"events"}), "")], Position()), lambda: len(tab.events) == 10
            )
            job.recorded += events(11, 30)
            position = Position.parse(tab.last_id)
            assert position is not None
            await tab.read(
                follow([JobStream(subject, frozenset({"events"}), "")], position), lambda: tab.events[-1] == 30
            )
        assert tab.events == list(range(1, 31))

    asyncio.run(run())


def test_ten_thousand_events_come_whole_although_fewer_are_kept() -> None:
    async def run() -> None:
        job, tab = FakeJob(), Tab()
        job.recorded = events(1, 10_000)
        subject = subject_of(job)
        with subject.viewed({"events"}):
            messages = follow([JobStream(subject, frozenset({"events"}), "")], Position())
            await tab.read(messages, lambda: len(tab.events) >= 10_000)
        assert tab.events == list(range(1, 10_001))
        assert len(subject.events) == KEPT_EVENTS

    asyncio.run(run())


def test_lines_continue_where_the_connection_was_lost() -> None:
    class Writing(FakeJob):
        written = 3

        def log_page(self, node: str, *, after: str = "", before: str = "", lines: int = 500) -> LogPage:
            end = int(before) if before else self.written
            begin = int(after) if after else max(0, end - lines)
            found = tuple(LogLine(str(n), f"line {n}") for n in range(begin, end))
            return LogPage(node, found, str(begin), str(end), begin == 0, True)

    async def run() -> None:
        job, tab = Writing(), Tab()
        subject = subject_of(job)

        def stream() -> JobStream:
            return JobStream(subject, frozenset(), "worker-0")

        with subject.viewed(stream().topics):
            await tab.read(follow([stream()], Position()), lambda: len(tab.lines) == 3)
            job.written = 8
            position = Position.parse(tab.last_id)
            assert position is not None
            messages = follow([stream()], position)
            await tab.read(messages, lambda: len(tab.lines) == 8)
            job.written = 12
            await tab.read(messages, lambda: len(tab.lines) == 12)
        assert tab.lines == [f"line {n}" for n in range(12)]

    asyncio.run(run())


def test_a_tail_forgets_old_pages_and_says_so() -> None:
    tail = LogTail("0")
    for page in range(20):
        lines = tuple(LogLine(str(n), "x") for n in range(page * 1000, page * 1000 + 1000))
        tail.add(LogPage("n", lines, "", str((page + 1) * 1000)))
    assert tail.lines <= 5000
    assert tail.after("0") is None
    assert tail.after("19000") is not None
    assert tail.after("20000") == ([], "20000")


def test_a_job_that_cannot_be_read_is_a_problem_that_passes() -> None:
    async def run() -> None:
        job, tab = FakeJob(), Tab()
        job.error = MasterUnavailable("away")
        subject = subject_of(job)
        with subject.viewed({"job"}):
            messages = follow([JobStream(subject, frozenset({"job"}), "")], Position())
            await tab.read(messages, lambda: tab.problems == ["away"])
            job.error = None
            await tab.read(messages, lambda: "job" in tab.documents)

    asyncio.run(run())


def test_a_job_that_is_removed_is_gone() -> None:
    async def run() -> None:
        job, tab = FakeJob(), Tab()
        subject = subject_of(job)
        with subject.viewed({"job"}):
            messages = follow([JobStream(subject, frozenset({"job"}), "")], Position())
            await tab.read(messages, lambda: "job" in tab.documents)
            job.error = NotFound("removed")
            await tab.read(messages, lambda: False)  # ends by itself
        assert tab.kinds[-1] == "gone"

    asyncio.run(run())


def test_many_tabs_have_one_poller_and_no_tab_has_none() -> None:
    async def run() -> None:
        job = FakeJob()
        subject = subject_of(job)
        tabs = [Tab() for _ in range(20)]
        with subject.viewed({"job"}):
            for tab in tabs:
                stream = JobStream(subject, frozenset({"job"}), "")
                await tab.read(follow([stream], Position()), lambda tab=tab: "job" in tab.documents)
            assert subject._poller is not None
            poller = subject._poller
            with subject.viewed({"job"}):
                assert subject._poller is poller
            assert subject.polls == job.views
        async with asyncio.timeout(MAX_WAIT_S):
            await poller
        views = job.views
        await asyncio.sleep(0)
        assert job.views == views

    asyncio.run(run())


def test_a_job_that_has_ended_is_not_read_again() -> None:
    async def run() -> None:
        job = FakeJob()
        job.ended = JobSummary(JobStatus("mine", Phase.SUCCEEDED, ended_at=3.0))
        subject = subject_of(job)
        for _ in range(3):
            subject.documents.get("job")
            await subject._poll(frozenset({"job", "data"}))
        assert job.views == 1
        assert subject.documents["job"].version == 1

    asyncio.run(run())


def test_streams_of_a_session_are_bounded() -> None:
    async def run() -> None:
        page = Browser(FakeSource(FakeJob()))
        session = page.state.sessions.find(page.cookie)
        assert session is not None
        session.streams = MAX_STREAMS_OF_SESSION
        assert (await page.get("/api/stream?job=mine")).status == 429

    asyncio.run(run())


def test_a_stream_ends_when_the_server_does_and_says_so() -> None:
    async def run() -> None:
        state = DashboardState(FakeSource(FakeJob()), Options())
        session = state.sessions.find(state.sessions.sign_in(state.sessions.link_token) or "")
        assert session is not None
        subject = await state.job("mine")
        bodies: list[bytes] = []

        async def receive() -> Any:
            await asyncio.Event().wait()

        async def send(message: Any) -> None:
            bodies.append(message.get("body", b""))
            if b"event: doc" in bodies[-1]:
                state.stop()

        stream = JobStream(subject, frozenset({"job"}), "")
        response = EventStream(state, session, lambda: follow([stream], Position()), [subject.viewed(stream.topics)])
        async with asyncio.timeout(MAX_WAIT_S):
            await response({"type": "http"}, receive, send)
        assert bodies[-1].startswith(b"event: bye")
        assert (state.streams, session.streams, subject.is_viewed) == (0, 0, False)

    asyncio.run(run())


def test_a_tab_that_takes_nothing_is_cut_off_and_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pliant.dashboard.event_stream.SEND_TIMEOUT_S", 0.2)

    async def run() -> None:
        job = FakeJob()
        state = DashboardState(FakeSource(job), Options())
        session = state.sessions.find(state.sessions.sign_in(state.sessions.link_token) or "")
        assert session is not None
        subject = await state.job("mine")

        async def receive() -> Any:
            await asyncio.Event().wait()

        async def stuck(message: Any) -> None:
            if message.get("body", b"").startswith(b"id"):
                await asyncio.Event().wait()

        stream = JobStream(subject, frozenset({"job"}), "")
        response = EventStream(state, session, lambda: follow([stream], Position()), [subject.viewed(stream.topics)])
        blocked = asyncio.create_task(response({"type": "http"}, receive, stuck))
        tab = Tab()
        with subject.viewed({"job"}):
            await tab.read(
                follow([JobStream(subject, frozenset({"job"}), "")], Position()), lambda: "job" in tab.documents
            )
        async with asyncio.timeout(MAX_WAIT_S):
            await asyncio.gather(blocked, return_exceptions=True)
        assert (state.streams, subject.is_viewed) == (0, False)

    asyncio.run(run())


def test_a_frozen_master_does_not_hold_up_other_requests() -> None:
    async def run() -> None:
        frozen, other = FakeJob("frozen"), FakeJob("other")
        frozen.blocked = threading.Event()
        page = Browser(FakeSource(frozen, other))
        stuck = asyncio.create_task(page.get("/api/jobs/frozen"))
        try:
            assert (await page.get("/api/jobs/other")).status == 200
            assert (await page.get("/api/jobs/frozen/spec")).status == 200
        finally:
            frozen.blocked.set()
        assert (await stuck).status in (200, 503)

    asyncio.run(run())


def test_work_does_not_pile_up() -> None:
    async def run() -> None:
        threads = DaemonThreads(1)
        gate = threading.Event()
        waiting = [asyncio.ensure_future(threads.run(gate.wait)) for _ in range(600)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        refused = [task for task in waiting if task.done() and isinstance(task.exception(), TooBusy)]
        gate.set()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert refused

    asyncio.run(run())


@pytest.mark.parametrize("text", ["", "1", "x;y", "-1;", "1;" + "z" * 100, "9" * 30 + ";", "١;"])
def test_a_senseless_position_is_no_position(text: str) -> None:
    assert Position.parse(text) is None


@pytest.mark.parametrize(
    "query",
    [
        "",
        "job=mine&topics=secrets",
        "job=mine&events_after=-1",
        "job=mine&events_after=x",
        "job=mine&log=" + "n" * 999,
        "job=mine&log_after=0%0A%0Aevent:%20gone",
    ],
)
def test_a_senseless_stream_is_refused(query: str) -> None:
    async def run() -> int:
        return (await Browser(FakeSource(FakeJob())).get(f"/api/stream?{query}")).status

    assert asyncio.run(run()) == 400


def test_control_asks_the_handle() -> None:
    async def run() -> None:
        job = FakeJob()
        page = Browser(FakeSource(job), allow_control=True)
        assert (await page.post("/api/jobs/mine/scale", {"replicas": 4})).json() == {"before": 1, "now": 4}
        assert (await page.post("/api/jobs/mine/stop", {"now": True})).status == 202
        senseless: list[Any] = [
            {"replicas": -1},
            {"replicas": True},
            {"replicas": "3"},
            {"role": "", "replicas": 1},
            {},
            [],
        ]
        for body in senseless:
            assert (await page.post("/api/jobs/mine/scale", body)).status == 400
        assert [name for name, _ in job.calls] == ["scale", "stop"]
        assert "ada" in job.calls[0][1][1]

    asyncio.run(run())


def test_a_job_that_was_replaced_by_another_of_its_name_is_gone() -> None:
    """Its events would be mixed with those of the other one."""

    async def run() -> None:
        job, tab = FakeJob(), Tab()
        job.recorded = events(1, 10)
        subject = subject_of(job)
        with subject.viewed({"job", "events"}):
            messages = follow([JobStream(subject, frozenset({"job", "events"}), "")], Position())
            await tab.read(messages, lambda: len(tab.events) == 10)
            job.created_at = lambda: 2.0  # type: ignore[method-assign]
            await tab.read(messages, lambda: "gone" in tab.kinds)
        assert subject.gone is not None
        assert "replaced" in subject.gone.error

    asyncio.run(run())


def test_output_that_nobody_looks_at_any_more_is_not_kept() -> None:
    """A tab that looks through a thousand nodes would fill the memory."""

    async def run() -> None:
        job = FakeJob()
        job.lines = {name: LogPage(name, (LogLine("0", "text"),), after="5") for name in ("worker-0", "worker-1")}
        subject = subject_of(job)
        for node in job.lines:
            tab = Tab()
            with subject.viewed({f"log:{node}"}):
                messages = follow([JobStream(subject, frozenset(), node)], Position())
                await tab.read(messages, lambda tab=tab: tab.lines)
                while list(subject.tails) != [node]:
                    await asyncio.sleep(0.01)

    asyncio.run(run())
