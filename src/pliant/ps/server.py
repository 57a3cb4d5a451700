"""The data plane of one parameter server: one thread per connection, requests in order, kept buffers.

A connection first proves that it knows the job's secret, in both directions (``wire``); before that nothing is allocated
by what it says. After that a bad frame closes the connection, and a request that cannot be served is answered with its error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pliant.ps.pieces import Push
from pliant.ps.store import ParameterStore
from pliant.rpc.tls import TlsFiles


class PsServer:
    """Serves a store. ``staged`` is called with each new push and its encoded frame before the answer: a log keeps it."""

    def __init__(
        self,
        store: ParameterStore,
        token: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: TlsFiles | None = None,
        standalone: bool = False,
        staged: Callable[[Push, bytes, memoryview], None] | None = None,
    ) -> None:
        """``standalone``: accept definitions, imports and ``apply_now`` over the wire (no master gives orders)."""
        raise NotImplementedError

    @property
    def port(self) -> int:
        raise NotImplementedError

    def start(self) -> None:
        """Listen and serve in threads of the server's own."""
        raise NotImplementedError

    def stop(self) -> None:
        """Close every connection; returns when the threads have ended."""
        raise NotImplementedError

    def stats(self) -> dict[str, Any]:
        """Bytes in and out, requests by kind, connections, requests in work; the store's under ``store``."""
        raise NotImplementedError
