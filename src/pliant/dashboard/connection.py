"""A connection of the server that ends if it brings no request in time: else anybody could hold all of them open, who need not be
signed in to do so. uvicorn limits only how long one may idle after a response.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_TIMEOUT_S = 20.0  # from the connection, or from the response before
KEEP_ALIVE_S = 15  # without a byte of another request


class Connection(H11Protocol):
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._deadline: asyncio.TimerHandle = self.loop.call_later(REQUEST_TIMEOUT_S, self._too_late)

    def on_response_complete(self) -> None:
        self._deadline.cancel()
        self._deadline = self.loop.call_later(REQUEST_TIMEOUT_S, self._too_late)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        super().connection_lost(exc)

    def _too_late(self) -> None:
        if self.cycle is None or self.cycle.response_complete:  # else it is being answered, be it by a stream
            self.transport.abort()
