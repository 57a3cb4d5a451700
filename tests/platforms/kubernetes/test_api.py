"""The client against a server that answers what a test says: what is tried again, what is not, and what errors tell."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from pliant.core.errors import InvalidRequest, NotFound
from pliant.platforms.kubernetes.api import KubeApi
from pliant.platforms.kubernetes.errors import AlreadyExists, ApiUnavailable, Forbidden, Gone, NotSignedIn, Outdated
from pliant.platforms.kubernetes.kinds import PODS, SCALE_PLANS

Answer = tuple[int, dict[str, object], str]  # code, body, more header lines


def talk(answers: list[Answer], use: Callable[[KubeApi], Awaitable[None]]) -> list[str]:
    """Gives the requests that the server got; the last answer is repeated."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = [line.split(":")[1] for line in head.splitlines() if line.lower().startswith("content-length:")]
        await reader.readexactly(int(length[0]) if length else 0)
        code, body, headers = answers[min(len(asked), len(answers) - 1)]
        asked.append(head.split("\r\n", 1)[0].rpartition(" ")[0])
        text = json.dumps(body).encode()
        writer.write(f"HTTP/1.1 {code} x\r\n{headers}Content-Length: {len(text)}\r\nConnection: close\r\n\r\n".encode())
        writer.write(text)
        await writer.drain()
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, KubeApi(f"http://127.0.0.1:{port}", context=None, auth=None, namespace="default") as api:
            await use(api)

    asyncio.run(scenario())
    return asked


def test_a_call_is_tried_again_while_the_server_is_busy() -> None:
    async def use(api: KubeApi) -> None:
        assert (await api.get(PODS, "a", "n"))["kind"] == "Pod"
        assert api.calls["get pods"] == 3

    busy: Answer = (503, {"message": "later"}, "")
    slow_down: Answer = (429, {"message": "too many"}, "Retry-After: 0\r\n")
    assert len(talk([busy, slow_down, (200, {"kind": "Pod"}, "")], use)) == 3


def test_what_may_have_been_made_under_any_name_is_not_made_twice() -> None:
    async def use(api: KubeApi) -> None:
        with pytest.raises(ApiUnavailable):
            await api.create(PODS, {"metadata": {"generateName": "a-"}}, "n")

    assert len(talk([(500, {"message": "lost"}, "")], use)) == 1


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", InvalidRequest),
        (401, "Unauthorized", NotSignedIn),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Outdated),
        (410, "Expired", Gone),
        (422, "Invalid", InvalidRequest),
    ],
)
def test_a_refusal_has_a_type_and_says_what_was_tried(code: int, reason: str, kind: type[Exception]) -> None:
    async def use(api: KubeApi) -> None:
        with pytest.raises(kind, match=r"cannot patch scaleplans.pliant.dev/status in team: as it was said"):
            await api.patch(SCALE_PLANS, "a", {}, "team", subresource="status")

    assert len(talk([(code, {"reason": reason, "message": "as it was said"}, "")], use)) == 1


def test_deleting_what_is_not_there_is_no_error() -> None:
    async def use(api: KubeApi) -> None:
        assert await api.delete(PODS, "a", "n", grace=0) is False

    talk([(404, {"reason": "NotFound", "message": "gone"}, "")], use)


def test_a_list_is_read_page_by_page() -> None:
    async def use(api: KubeApi) -> None:
        listing = await api.list(PODS, "n", labels="a=b")
        assert ([item["n"] for item in listing.items], listing.resource_version) == ([1, 2], "8")

    pages: list[Answer] = [
        (200, {"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [{"n": 1}]}, ""),
        (200, {"metadata": {"resourceVersion": "8"}, "items": [{"n": 2}]}, ""),
    ]
    first, second = talk(pages, use)
    assert "labelSelector=a%3Db" in first
    assert "continue=more" in second
