"""A small HTTP port for probes and Prometheus (``/healthz``, ``/readyz``, ``/metrics``), of the operator and of the Brain.

Connections are few and short: each has ``REQUEST_TIMEOUT_S``, and beyond ``MAX_CONNECTIONS`` they are closed at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

MAX_REQUEST_BYTES = 8192
REQUEST_TIMEOUT_S = 5.0
MAX_CONNECTIONS = 64  # at a time

Page = Callable[[], tuple[int, str]]  # the status and the text


async def serve(port: int, pages: Mapping[str, Page], host: str = "0.0.0.0") -> asyncio.Server:
    open_now = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now
        if open_now >= MAX_CONNECTIONS:
            writer.close()
            return
        open_now += 1
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                writer.write(_answer(await reader.readuntil(b"\r\n\r\n"), pages))
                await writer.drain()
        except (OSError, TimeoutError, ValueError, IndexError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a request that makes no sense, or never ends
        finally:
            open_now -= 1
            writer.close()

    return await asyncio.start_server(answer, host, port, limit=MAX_REQUEST_BYTES)


def _answer(request: bytes, pages: Mapping[str, Page]) -> bytes:
    path = request.split(b" ", 2)[1].split(b"?", 1)[0].decode("ascii", "replace")
    page = pages.get(path)
    status, text = page() if page else (404, "known: " + ", ".join(pages))
    body = text.encode()
    head = f"HTTP/1.1 {status} {'OK' if status == 200 else 'Not OK'}\r\nContent-Type: text/plain; charset=utf-8\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
