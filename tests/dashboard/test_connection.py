"""Connections of the server, over real sockets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from pliant.dashboard import connection
from pliant.testing.waiting import MAX_WAIT_S

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n"


async def answer(send: Any) -> None:
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.mark.parametrize("sent", [b"", REQUEST, REQUEST + b"\r\n", REQUEST + b"\r\n" + REQUEST])
def test_a_connection_without_a_whole_request_ends(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answer(send)

    assert asyncio.run(_talk(app, sent, monkeypatch)).endswith(b"ok" if REQUEST + b"\r\n" in sent else b"")


def test_a_request_that_takes_long_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(10 * connection.REQUEST_TIMEOUT_S)
        await answer(send)

    assert asyncio.run(_talk(app, REQUEST + b"\r\n", monkeypatch)).endswith(b"ok")


async def _talk(app: Any, sent: bytes, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """What comes until the server closes the connection."""
    monkeypatch.setattr(connection, "REQUEST_TIMEOUT_S", 0.05)
    config = uvicorn.Config(app, http=connection.Connection, log_config=None, timeout_keep_alive=3600, lifespan="off")
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: connection.Connection(config, state, {}), "127.0.0.1", 0
    )
    async with server, asyncio.timeout(MAX_WAIT_S):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(sent)
        found = b""
        try:
            while part := await reader.read(1000):
                found += part
        except ConnectionResetError:
            pass
        writer.close()
        return found
