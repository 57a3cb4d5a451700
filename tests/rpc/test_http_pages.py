"""The operator's HTTP port, which probes and Prometheus read."""

from __future__ import annotations

import asyncio

import pytest

from pliant.rpc.http_pages import serve
from pliant.testing.waiting import MAX_WAIT_S


def ask(request: bytes) -> tuple[str, str]:
    """The status line and the text of the answer; empty if there is none."""
    pages = {"/healthz": lambda: (200, "leading\n"), "/readyz": lambda: (503, "waiting\n")}

    async def talk() -> bytes:
        server = await serve(0, pages)
        async with server:
            port = server.sockets[0].getsockname()[1]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            writer.write_eof()
            answer = await reader.read()
            writer.close()
            return answer

    head, _, text = asyncio.run(asyncio.wait_for(talk(), MAX_WAIT_S)).decode().partition("\r\n\r\n")
    return head.partition("\r\n")[0], text


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/healthz", "HTTP/1.1 200 OK", "leading\n"),
        ("/healthz?verbose", "HTTP/1.1 200 OK", "leading\n"),
        ("/readyz", "HTTP/1.1 503 Not OK", "waiting\n"),
        ("/other", "HTTP/1.1 404 Not OK", "known: /healthz, /readyz"),
    ],
)
def test_a_page_is_answered_with_its_state(path: str, status: str, text: str) -> None:
    assert ask(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()) == (status, text)


@pytest.mark.parametrize("request_bytes", [b"", b"\r\n\r\n", b"GET", b"x" * 100_000 + b"\r\n\r\n"])
def test_what_is_no_request_gets_no_answer(request_bytes: bytes) -> None:
    assert ask(request_bytes) == ("", "")
