"""Calling the Brain for as long as it takes: the journal's writer has nothing else to do while the Brain or its database is away.

An *outage* begins with the first call that fails and ends with the next one that is answered; each is logged once. What the Brain
answers for good (another master took over, a number that does not fit) is no outage. A master that is told to end limits how
long an outage may last: then the call that waits fails.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from pliant.core.errors import (
    BrainUnavailable,
    Conflict,
    CorruptData,
    InvalidRequest,
    MasterUnavailable,
    NotFound,
    PliantError,
)
from pliant.rpc.brain.access import BrainAccess
from pliant.rpc.brain.channel import BrainClient
from pliant.rpc.retry import Backoff

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_PAUSE_S = 1.0
ANSWERS = (Conflict, NotFound, InvalidRequest, CorruptData)  # asking again changes nothing


class BrainCaller:
    def __init__(self, access: BrainAccess) -> None:
        self._access = access
        self._client: BrainClient | None = None
        self._changed = threading.Condition()
        self._max_outage_s = math.inf

    def call(
        self,
        attempt: Callable[[BrainClient], T],
        *,
        max_outage_s: float = math.inf,
        answers: tuple[type[PliantError], ...] = ANSWERS,
    ) -> T:
        """What ``attempt`` returns once it does. Raises ``answers``, and ``BrainUnavailable`` when an outage lasts too long."""
        began: float | None = None
        backoff = Backoff(math.inf, max_pause=MAX_PAUSE_S)
        while True:
            try:
                result = attempt(self._connected())
            except answers:
                raise
            except PliantError as error:
                self._disconnect()  # what was dialled may be gone for good
                if began is None:
                    began = time.monotonic()
                    log.warning("the journal waits for the Brain: %s", error.message)
                self._wait(backoff.next_pause(), began, max_outage_s, error)
                continue
            if began is not None:
                log.warning("the Brain answers again, after %.1f s; the journal continues", time.monotonic() - began)
            return result

    def try_once(self, attempt: Callable[[BrainClient], T]) -> T:
        return attempt(self._connected())

    def limit_outage(self, seconds: float) -> None:
        """From any thread."""
        with self._changed:
            self._max_outage_s = seconds
            self._changed.notify_all()

    def close(self) -> None:
        self.limit_outage(0.0)
        self._disconnect()

    def _wait(self, pause: float, began: float, max_outage_s: float, error: PliantError) -> None:
        until = time.monotonic() + pause
        with self._changed:
            while True:
                now = time.monotonic()
                limit = began + min(self._max_outage_s, max_outage_s)
                if now >= limit:
                    raise BrainUnavailable(
                        f"the Brain does not take the journal: {error.message}",
                        hint=error.hint
                        or f"is a Brain running at {self._access.address}? `pliant brain status` shows it",
                    )
                if now >= until:
                    return
                self._changed.wait(min(until, limit) - now)

    def _connected(self) -> BrainClient:
        if self._client is None:
            try:
                self._client = BrainClient(self._access)
            except MasterUnavailable as error:  # of the socket's folder
                raise BrainUnavailable(error.message.replace("no master", "no Brain"), hint=error.hint) from None
        return self._client

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()
