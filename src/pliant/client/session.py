"""One program's session with its master: numbered requests, retried until they are answered.

A request without an answer is sent again with the same number until the master is back, so it takes effect once. If the
master expired the session meanwhile (this program was frozen, say), a new one is opened, and every lease of the old
one is lost: ``generation`` rises, and reports of older leases are not sent.
"""

from __future__ import annotations

import logging
import os
import threading
import uuid
from collections.abc import Callable
from typing import Any

from pliant.core.errors import MasterUnavailable, PliantError, SessionExpired
from pliant.core.nodes.environment import NodeEnvironment
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import DEADLINE_S, MasterClient

log = logging.getLogger(__name__)

DEFAULT_BEAT_INTERVAL_S = 2.0  # until the master sets another


class Session:
    def __init__(self, master: MasterClient, node: str, incarnation: int) -> None:
        self.master = master
        self._node = node
        self._incarnation = incarnation
        self._lock = threading.Lock()
        self._retry_timeout = NodeEnvironment.from_env(os.environ).orphan_timeout
        self._request = 0
        self._closed = threading.Event()
        self.generation = 0
        self.name = ""
        self._beat_interval = DEFAULT_BEAT_INTERVAL_S
        self._open()
        self._beats = threading.Thread(target=self._beat, name="pliant-beat", daemon=True)
        self._beats.start()

    def exchange(self, request: pb.ExchangeRequest, generation: int) -> pb.ExchangeReply | None:
        """Send reports and request leases; None if the session they belong to has expired."""
        with self._lock:
            if generation != self.generation:
                return None
            self._request += 1
            request.session, request.request = self.name, self._request
            try:
                reply: pb.ExchangeReply = self.call_with_retry(self.master.stubs.shards.Exchange, request)
            except SessionExpired:
                log.warning("the master expired this program's session; opening a new one")
                self._open()
                return None
            return reply

    def call_with_retry(self, method: Callable[..., Any], request: Any, timeout: float = DEADLINE_S) -> Any:
        """A call that survives restarts of the master."""
        try:
            return self.master.call_with_retry(
                method, request, retry_timeout=self._retry_timeout, timeout=timeout, pause=self._pause
            )
        except ValueError as error:  # gRPC, of a channel that was closed
            raise MasterUnavailable(f"the job was closed: {error}") from error
        except MasterUnavailable as error:
            if self._closed.is_set():
                raise
            raise MasterUnavailable(
                f"no response from the master for {self._retry_timeout:.0f} s: {error.message}",
                hint="check that the job is still running",
            ) from error

    def _pause(self, seconds: float) -> None:
        if self._closed.wait(seconds):
            raise MasterUnavailable("the job was closed while its master was unavailable")

    def start(self, method: Callable[..., Any], request: Any, timeout: float) -> Any:
        """Start a call whose result goes to a callback."""
        return self.master.start(method, request, timeout=timeout)

    def renew(self, name: str) -> None:
        """The session of this name has expired: open another, unless there is one already."""
        with self._lock:
            if name == self.name:
                log.warning("the master expired this program's session; opening a new one")
                self._open()

    def close(self, *, release: bool = True) -> None:
        """Release all leases and stop. A master that is unavailable will expire the session."""
        if self._closed.is_set():
            return
        self._closed.set()
        if release:
            self._close_at_master()
        self._beats.join(timeout=5)

    def _open(self) -> None:
        self.name = f"{self._node}/{self._incarnation}/{uuid.uuid4().hex[:12]}"
        self._request = 0
        reply = self.call_with_retry(
            self.master.stubs.shards.OpenSession,
            pb.OpenSessionRequest(session=self.name, node=self._node, incarnation=self._incarnation),
        )
        self._beat_interval = reply.beat_seconds or DEFAULT_BEAT_INTERVAL_S
        self.generation += 1

    def _close_at_master(self) -> None:
        request = pb.CloseSessionRequest(session=self.name)
        try:
            self.master.call(self.master.stubs.shards.CloseSession, request, timeout=2)
        except PliantError as error:
            log.debug("the session was not closed: %s", error)

    def _beat(self) -> None:
        while not self._closed.wait(self._beat_interval):
            name = self.name
            try:
                self.master.call(self.master.stubs.shards.Beat, pb.BeatRequest(session=name), timeout=5)
            except SessionExpired:
                self._open_again(name)
            except PliantError:
                continue  # it is being restarted; whoever needs an answer retries

    def _open_again(self, name: str) -> None:
        with self._lock:
            if name != self.name or self._closed.is_set():
                return
            log.warning("the master expired this program's session; opening a new one")
            try:
                self._open()
            except PliantError as error:
                log.warning("the master refused a new session: %s", error)
