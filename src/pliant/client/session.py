"""One program's conversation with its master: numbered requests, tried until they are answered.

A request that gets no answer is sent again with the same number until the master is back, so it takes effect once. If the
master gave this program up meanwhile (it was frozen, say), a new session is opened, and everything held under the old
one is lost: ``generation`` rises, and reports of older leases are not sent.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from pliant.core.errors import MasterUnavailable, PliantError, SessionExpired
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import MasterClient

log = logging.getLogger(__name__)

BEAT_SECONDS = 2.0  # until the master says otherwise


class Session:
    def __init__(self, master: MasterClient, node: str, incarnation: int) -> None:
        self.master = master
        self._node = node
        self._incarnation = incarnation
        self._lock = threading.Lock()
        self._patience = float(os.environ.get("PLIANT_ORPHAN_TIMEOUT", 600))
        self._request = 0
        self._closed = threading.Event()
        self.generation = 0
        self.name = ""
        self._beat_seconds = BEAT_SECONDS
        self._open()
        self._beats = threading.Thread(target=self._beat, name="pliant-beat", daemon=True)
        self._beats.start()

    def exchange(self, request: pb.ExchangeRequest, generation: int) -> pb.ExchangeReply | None:
        """Send reports and wishes; None if they belong to a session that is no more."""
        with self._lock:
            if generation != self.generation:
                return None
            self._request += 1
            request.session, request.request = self.name, self._request
            try:
                reply: pb.ExchangeReply = self.insist(self.master.stubs.shards.Exchange, request)
            except SessionExpired:
                log.warning("the master gave this program up; it starts anew")
                self._open()
                return None
            return reply

    def insist(self, method: Callable[..., Any], request: Any, timeout: float = 10.0) -> Any:
        """A call that survives restarts of the master."""
        deadline = time.monotonic() + self._patience
        pause = 0.02
        while True:
            try:
                return self.master.call(method, request, timeout=timeout)
            except ValueError as error:  # gRPC, of a channel that was closed
                raise MasterUnavailable(f"the job was closed: {error}") from error
            except MasterUnavailable as error:
                if time.monotonic() > deadline or self._closed.is_set():
                    raise MasterUnavailable(
                        f"no master for {self._patience:.0f} s: {error.message}", hint="is the job still running?"
                    ) from error
            self._closed.wait(pause)
            pause = min(0.5, pause * 1.5)

    def start(self, method: Callable[..., Any], request: Any, timeout: float) -> Any:
        """Begin a call whose result is told to a callback."""
        return self.master.start(method, request, timeout=timeout)

    def renew(self, name: str) -> None:
        """The master does not know the session of this name any more: have another, unless there is one already."""
        with self._lock:
            if name == self.name:
                log.warning("the master gave this program up; it starts anew")
                self._open()

    def close(self, *, give_back: bool = True) -> None:
        """Give everything back and stop. A master that is away will notice the silence."""
        if self._closed.is_set():
            return
        self._closed.set()
        if give_back:
            self._say_goodbye()
        self._beats.join(timeout=5)

    def _open(self) -> None:
        self.name = f"{self._node}/{self._incarnation}/{uuid.uuid4().hex[:12]}"
        self._request = 0
        reply = self.insist(
            self.master.stubs.shards.OpenSession,
            pb.OpenSessionRequest(session=self.name, node=self._node, incarnation=self._incarnation),
        )
        self._beat_seconds = reply.beat_seconds or BEAT_SECONDS
        self.generation += 1

    def _say_goodbye(self) -> None:
        request = pb.CloseSessionRequest(session=self.name)
        try:
            self.master.call(self.master.stubs.shards.CloseSession, request, timeout=2)
        except PliantError as error:
            log.debug("the session was not closed: %s", error)

    def _beat(self) -> None:
        while not self._closed.wait(self._beat_seconds):
            name = self.name
            try:
                self.master.call(self.master.stubs.shards.Beat, pb.BeatRequest(session=name), timeout=5)
            except SessionExpired:
                self._open_again(name)
            except PliantError:
                continue  # it is being restarted; whoever needs an answer insists

    def _open_again(self, name: str) -> None:
        with self._lock:
            if name != self.name or self._closed.is_set():
                return
            log.warning("the master gave this program up; it starts anew")
            try:
                self._open()
            except PliantError as error:
                log.warning("the master does not want this program any more: %s", error)
