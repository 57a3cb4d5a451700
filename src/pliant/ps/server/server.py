"""The data plane of one parameter server: one thread per connection, requests in order, kept buffers.

A connection first proves that it knows the job's secret, in both directions (``sockets``); before that nothing is allocated
for it. Until then it is a stranger: their number is limited, each has a deadline for the whole proof, and the oldest is evicted
for a new one, so whoever can prove itself gets in, however many others only connect. After that an invalid frame closes the
connection, and a request that cannot be served is answered with its error. ``requests`` carries requests out.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pliant.core.errors import PliantError, Unauthenticated
from pliant.ps.payloads import Push
from pliant.ps.server.requests import Requests
from pliant.ps.store.store import ParameterStore
from pliant.ps.wire.frames import Limits
from pliant.ps.wire.sockets import FrameSocket, tls_context
from pliant.rpc.tls import TlsFiles

log = logging.getLogger(__name__)
PROOF_TIMEOUT_S = 10.0  # for a connection to authenticate itself, from its beginning to its end
MAX_STRANGERS = 64
_EVICTION_TIMEOUT_S = 1.0  # that the acceptor waits for the thread of an evicted stranger


@dataclass
class _Stranger:
    """A connection that has not proved itself. Who removes it from the server's table decides what becomes of it."""

    sock: socket.socket
    deadline: float

    def interrupt(self) -> None:
        """Wakes up its thread, which closes it. Not SSLSocket's own ``shutdown``, which changes what that thread is using."""
        with contextlib.suppress(OSError):  # gone already
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)


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
        proof_timeout: float = PROOF_TIMEOUT_S,
    ) -> None:
        """``standalone``: accept definitions and ``apply_now`` over the wire (no master gives orders). ``stage``: puts a push
        into the store and keeps it otherwise too, both or neither; then ``staged`` is not called."""
        self._proof_timeout = proof_timeout
        self._token = token
        self._limits = limits or Limits()
        self._context = tls_context(tls, server=True) if tls else None
        self._requests = Requests(store, self._limits, standalone, staged, self.stats, stage)
        self._store = store
        self._listener = socket.create_server((host, port), backlog=128)
        self._listener.setblocking(False)
        self._lock = threading.Lock()
        self._strangers: dict[threading.Thread, _Stranger] = {}  # the oldest first
        self._members: dict[threading.Thread, FrameSocket] = {}
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
            threads = [*self._strangers, *self._members]
            for stranger in self._strangers.values():
                stranger.interrupt()
            for member in self._members.values():
                member.close()
        with contextlib.suppress(OSError):  # not listening any more
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes up the acceptor
        if self._acceptor.ident is not None:
            self._acceptor.join()
        self._listener.close()
        for thread in threads:
            thread.join()

    def stats(self) -> dict[str, Any]:
        """Bytes in and out, requests by kind, connections, requests in work; the store's under ``store``."""
        with self._lock:
            peers = self._members.values()
            counts = {
                "connections": len(self._members) + len(self._strangers),
                "refused": self._refused,
                "bytes_in": self._gone_in + sum(peer.bytes_in for peer in peers),
                "bytes_out": self._gone_out + sum(peer.bytes_out for peer in peers),
            }
        return {**counts, **self._requests.stats(), "store": self._store.stats()}

    def _accept(self) -> None:
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        while True:
            poll.poll(self._evict_expired())
            if self._stopping:
                return
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:  # only the time of a stranger was over, or who connected is gone
                continue
            except OSError:
                if self._stopping:
                    return
                log.warning("the parameter server temporarily cannot accept connections", exc_info=True)
                threading.Event().wait(0.1)  # out of file descriptors, mostly
                continue
            self._evict_oldest()
            thread = threading.Thread(target=self._serve, args=(sock,), name="ps-connection", daemon=True)
            with self._lock:
                if self._stopping:
                    sock.close()
                    return
                self._strangers[thread] = _Stranger(sock, time.monotonic() + self._proof_timeout)
                try:
                    thread.start()
                except RuntimeError:  # the system has no more threads
                    self._evict(thread)
                    sock.close()

    def _evict_expired(self) -> float | None:
        """Returns the milliseconds until the next deadline; None: there are no strangers."""
        with self._lock:
            now = time.monotonic()
            while self._strangers:
                thread, oldest = next(iter(self._strangers.items()))
                if oldest.deadline > now:
                    return (oldest.deadline - now) * 1000 + 1
                self._evict(thread)
        return None

    def _evict_oldest(self) -> None:
        """Make room for one more. Its thread ends before, so there are never more threads of strangers than strangers."""
        with self._lock:
            if len(self._strangers) < MAX_STRANGERS:
                return
            thread = next(iter(self._strangers))
            self._evict(thread)
        thread.join(_EVICTION_TIMEOUT_S)

    def _evict(self, thread: threading.Thread) -> None:
        self._strangers.pop(thread).interrupt()
        self._refused += 1

    def _serve(self, sock: socket.socket) -> None:
        """A connection from its beginning to its end; whatever happens, the server keeps running."""
        thread = threading.current_thread()
        _work_in_batches()
        peer: FrameSocket | None = None
        try:
            sock = self._begin_tls(thread, sock)
            peer = FrameSocket(sock, self._limits, self._proof_timeout)
            peer.admit(self._token)
            with self._lock:
                if self._strangers.pop(thread, None) is None:
                    raise Unauthenticated("a connection was evicted before it had proved itself")
                self._members[thread] = peer
                if self._stopping:
                    return
            peer.set_timeout(None)
            self._requests.serve(peer)
        except (PliantError, OSError, ssl.SSLError) as error:
            log.debug("a connection ended: %s", error)
        except Exception:
            log.exception("a connection ended with an internal error")
        finally:
            with self._lock:
                if self._strangers.pop(thread, None) is not None:
                    self._refused += 1
                if self._members.pop(thread, None) is not None and peer is not None:
                    self._gone_in += peer.bytes_in
                    self._gone_out += peer.bytes_out
            (peer or sock).close()

    def _begin_tls(self, thread: threading.Thread, sock: socket.socket) -> socket.socket:
        """The handshake, in which the acceptor can interrupt it as well."""
        sock.settimeout(self._proof_timeout)
        if self._context is None:
            return sock
        wrapped = self._context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            if (stranger := self._strangers.get(thread)) is None:
                wrapped.close()
                raise Unauthenticated("a connection was evicted before it had proved itself")
            stranger.sock = wrapped
        try:
            wrapped.do_handshake()
        except BaseException:
            wrapped.close()
            raise
        return wrapped


def _work_in_batches() -> None:
    """This thread interrupts nobody when a request comes, but waits for its turn: to be interrupted in the middle of an update, or
    of a gradient on the same machine, costs all more than the turn does."""
    if hasattr(os, "SCHED_BATCH"):
        with contextlib.suppress(OSError):  # a system that forbids it
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
