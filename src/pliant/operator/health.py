"""The operator's HTTP port: ``/healthz`` and ``/readyz`` for probes, ``/metrics`` for Prometheus."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping

MAX_REQUEST_BYTES = 8192
REQUEST_TIMEOUT_S = 5.0

Page = Callable[[], tuple[int, str]]  # the status and the text


async def serve(port: int, pages: Mapping[str, Page]) -> asyncio.Server:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                request = await reader.readuntil(b"\r\n\r\n")
                path = request.split(b" ", 2)[1].split(b"?", 1)[0].decode("ascii", "replace")
                page = pages.get(path)
                status, text = page() if page else (404, "known: " + ", ".join(pages))
                body = text.encode()
                head = f"HTTP/1.1 {status} {'OK' if status == 200 else 'Not OK'}\r\nContent-Type: text/plain; charset=utf-8\r\n"
                writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
                await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, "0.0.0.0", port, limit=MAX_REQUEST_BYTES)
