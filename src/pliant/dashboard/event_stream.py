"""A response that goes on: server-sent events, one stream per tab, in bounded number and with a limit on how long a tab may be
stuck."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, ExitStack

from starlette.types import Receive, Scope, Send

from pliant.dashboard.security.sessions import Session
from pliant.dashboard.state import DashboardState
from pliant.dashboard.threads import TooBusy
from pliant.dashboard.wire import message

MAX_STREAMS = 48
MAX_STREAMS_OF_SESSION = 12
SEND_TIMEOUT_S = 30.0  # for a tab that takes nothing
BYE_TIMEOUT_S = 0.3
RETRY_MS = 2000


class EventStream:
    """``viewing``: what is followed as long as the stream lasts."""

    def __init__(
        self,
        state: DashboardState,
        session: Session,
        messages: Callable[[], AsyncIterator[bytes]],
        viewing: list[AbstractContextManager[None]],
    ) -> None:
        if state.streams >= MAX_STREAMS:
            raise TooBusy(f"{MAX_STREAMS} tabs are open", hint="close some")
        if session.streams >= MAX_STREAMS_OF_SESSION:
            raise TooBusy(f"{MAX_STREAMS_OF_SESSION} tabs of this browser are open", hint="close some")
        self._state = state
        self._session = session
        self._messages = messages
        self._viewing = viewing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
        headers.append((b"x-accel-buffering", b"no"))
        self._state.streams += 1
        self._session.streams += 1
        try:
            with ExitStack() as stack:
                for view in self._viewing:
                    stack.enter_context(view)
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await self._run(receive, send)
        finally:
            self._state.streams -= 1
            self._session.streams -= 1

    async def _run(self, receive: Receive, send: Send) -> None:
        tasks = [
            asyncio.create_task(self._send_all(send)),
            asyncio.create_task(_until_disconnected(receive)),
            asyncio.create_task(self._state.stopping.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._state.stopping.is_set() and tasks[2].done():
            with contextlib.suppress(TimeoutError, OSError):
                async with asyncio.timeout(BYE_TIMEOUT_S):
                    await _send(send, message("bye", b"{}"), last=True)
        elif tasks[0].done() and not tasks[0].cancelled() and tasks[0].exception() is None:
            await _send(send, b"", last=True)

    async def _send_all(self, send: Send) -> None:
        await _send(send, f"retry: {RETRY_MS}\n\n".encode())
        async for text in self._messages():
            if self._state.stopping.is_set() or not self._state.sessions.is_signed_in(self._session):
                return
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await _send(send, text)


async def _send(send: Send, body: bytes, *, last: bool = False) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": not last})


async def _until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
