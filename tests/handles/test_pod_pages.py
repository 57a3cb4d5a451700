"""Pages of what a Pod wrote: the end at first, then what is new, by the time stamps of lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, cast

import pytest

from pliant.core.errors import InvalidRequest, NotFound
from pliant.handles.kubernetes.pod_pages import read_pod_page, search_pods
from pliant.handles.kubernetes.session import Session
from pliant.platforms.kubernetes.names import CONTAINER, NODE_LABEL


@dataclass
class Listing:
    items: list[dict[str, Any]]


class FakeApi:
    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    async def list(self, kind: Any, namespace: str, *, labels: str) -> Listing:
        state = {"name": CONTAINER, "state": {"running": {}}}
        metadata = {"name": "job-worker-0", "creationTimestamp": "x", "labels": {NODE_LABEL: "worker-0"}}
        return Listing([{"metadata": metadata, "status": {"containerStatuses": [state]}}])

    async def logs(self, pod: str, namespace: str, *, tail: int | None, since: str, **_: Any) -> AsyncIterator[str]:
        found = [line for line in self.lines if not since or line >= since[:19]]  # whole seconds, as the server does
        for line in found[-tail:] if tail else found:
            yield line


class FakeSession:
    namespace = "team"

    def __init__(self, *lines: str) -> None:
        self.api = FakeApi([f"2026-01-01T00:00:{number:02}.5Z {text}" for number, text in enumerate(lines)])


def session(*lines: str) -> Session:
    return cast(Session, FakeSession(*lines))


def test_a_page_is_the_end_and_the_next_is_what_came_after_it() -> None:
    found = session("a", "b", "c")
    page = asyncio.run(read_pod_page(found, "job", "worker-0", after="", lines=2))
    assert [line.text for line in page.lines] == ["b", "c"]
    assert page.note
    cast(Any, found).api.lines.append("2026-01-01T00:00:03.5Z d")
    page = asyncio.run(read_pod_page(found, "job", "worker-0", after=page.after, lines=2))
    assert [line.text for line in page.lines] == ["d"]
    assert asyncio.run(read_pod_page(found, "job", "worker-0", after=page.after, lines=2)).lines == ()


def test_a_pod_that_has_written_nothing_is_followed_from_its_first_line() -> None:
    found = session()
    page = asyncio.run(read_pod_page(found, "job", "worker-0", after="0", lines=10))
    assert (page.lines, page.after) == ((), "")
    cast(Any, found).api.lines.append("2026-01-01T00:00:03.5Z first")
    page = asyncio.run(read_pod_page(found, "job", "worker-0", after="0", lines=10))
    assert [line.text for line in page.lines] == ["first"]


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(NotFound):
        asyncio.run(read_pod_page(session(), "job", "worker-9", after="", lines=1))
    with pytest.raises(InvalidRequest):
        asyncio.run(read_pod_page(session(), "job", "worker-0", after="../x", lines=1))


def test_a_search_reads_the_last_lines() -> None:
    found = asyncio.run(search_pods(session("An ERROR", "fine"), "job", "error", node=""))
    assert [match.line.text for match in found.matches] == ["An ERROR"]
    assert found.is_complete
