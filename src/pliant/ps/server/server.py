"""The data plane of one parameter server: one thread per connection, requests in order, kept buffers.

A connection first proves that it knows the job's secret, in both directions (``sockets``); before that nothing is allocated
for it, and the number of such connections is limited. After that an invalid frame closes the connection, and a request that
cannot be served is answered with its error. ``requests`` carries requests out.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

from pliant.core.errors import PliantError
from pliant.ps.payloads import Push
from pliant.ps.server.requests import Requests
from pliant.ps.store.store import ParameterStore
from pliant.ps.wire.frames import Limits
from pliant.ps.wire.sockets import FrameSocket, tls_context
from pliant.rpc.tls import TlsFiles

log = logging.getLogger(__name__)
PROOF_TIMEOUT_S = 10.0  # for a connection to authenticate itself
MAX_STRANGERS = 64


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
        stage: Callable[[Push, bytes, memoryview], None] | None = None,
        limits: Limits | None = None,
    ) -> None:
        """``standalone``: accept definitions and ``apply_now`` over the wire (no master gives orders). ``stage``: puts a push
        into the store and keeps it otherwise too, both or neither; then ``staged`` is not called."""
        self._token = token
        self._limits = limits or Limits()
        self._context = tls_context(tls, server=True) if tls else None
        self._requests = Requests(store, self._limits, standalone, staged, self.stats, stage)
        self._store = store
        self._listener = socket.create_server((host, port), backlog=128)
        self._lock = threading.Lock()
        self._open: dict[threading.Thread, FrameSocket | socket.socket] = {}
        self._strangers = 0
        self._refused = 0
        self._gone_in = 0
        self._gone_out = 0
        self._stopping = False
        self._acceptor = threading.Thread(target=self._accept, name="ps-accept", daemon=True)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def start(self) -> None:
        """Listen and serve in threads of the server's own."""
        self._acceptor.start()

    def stop(self) -> None:
        """Close every connection; returns when the threads have ended."""
        with self._lock:
            self._stopping = True
            open_ones = dict(self._open)
        with contextlib.suppress(OSError):  # not listening any more
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes up accept
        self._listener.close()
        for sock in open_ones.values():
            _close(sock)
        if self._acceptor.ident is not None:
            self._acceptor.join()
        for thread in open_ones:
            thread.join()

    def stats(self) -> dict[str, Any]:
        """Bytes in and out, requests by kind, connections, requests in work; the store's under ``store``."""
        with self._lock:
            peers = [sock for sock in self._open.values() if isinstance(sock, FrameSocket)]
            counts = {
                "connections": len(self._open),
                "refused": self._refused,
                "bytes_in": self._gone_in + sum(peer.bytes_in for peer in peers),
                "bytes_out": self._gone_out + sum(peer.bytes_out for peer in peers),
            }
        return {**counts, **self._requests.stats(), "store": self._store.stats()}

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                if self._stopping:
                    return
                log.warning("the parameter server temporarily cannot accept connections", exc_info=True)
                threading.Event().wait(0.1)  # out of file descriptors, mostly
                continue
            thread = threading.Thread(target=self._serve, args=(sock,), name="ps-connection", daemon=True)
            with self._lock:
                if self._stopping or self._strangers >= MAX_STRANGERS:
                    self._refused += 1
                    sock.close()
                    continue
                self._strangers += 1
                self._open[thread] = sock
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        """A connection from its beginning to its end; whatever happens, the server keeps running."""
        thread = threading.current_thread()
        _work_in_batches()
        peer: FrameSocket | None = None
        try:
            try:
                peer = self._prove(thread, sock)
            finally:
                with self._lock:
                    self._strangers -= 1
            peer.set_timeout(None)
            self._requests.serve(peer)
        except (PliantError, OSError, ssl.SSLError) as error:
            if peer is None:
                with self._lock:
                    self._refused += 1
            log.debug("a connection ended: %s", error)
        except Exception:
            log.exception("a connection ended with an internal error")
        finally:
            with self._lock:
                self._open.pop(thread, None)
                if peer is not None:
                    self._gone_in += peer.bytes_in
                    self._gone_out += peer.bytes_out
            _close(peer or sock)

    def _prove(self, thread: threading.Thread, sock: socket.socket) -> FrameSocket:
        sock.settimeout(PROOF_TIMEOUT_S)
        if self._context is not None:
            sock = self._context.wrap_socket(sock, server_side=True)
        peer = FrameSocket(sock, self._limits, PROOF_TIMEOUT_S)
        with self._lock:
            self._open[thread] = peer
            if self._stopping:
                raise OSError("the server is stopping")
        peer.admit(self._token)
        return peer


def _work_in_batches() -> None:
    """This thread interrupts nobody when a request comes, but waits for its turn: to be interrupted in the middle of an update, or
    of a gradient on the same machine, costs all more than the turn does."""
    if hasattr(os, "SCHED_BATCH"):
        with contextlib.suppress(OSError):  # a system that forbids it
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _close(sock: FrameSocket | socket.socket) -> None:
    with contextlib.suppress(OSError):  # gone already
        if isinstance(sock, socket.socket):
            sock.shutdown(socket.SHUT_RDWR)
    sock.close()
