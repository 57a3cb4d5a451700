"""Sessions of browsers: a one-time link makes one, and its cookie is all that a request needs to show.

Secrets have 256 random bits; of cookies only a digest is kept. A link works once. When it was used there is a new one, which
the person at the terminal sees, for another browser.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

MAX_SESSIONS = 64  # the one that was used least recently goes
IDLE_S = 24 * 3600.0
MAX_TOKEN_CHARS = 200


@dataclass
class Session:
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    used_at: float = 0.0
    streams: int = 0


class Sessions:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._link = secrets.token_urlsafe(32)
        self._sessions: dict[str, Session] = {}  # by digest of the cookie, the least recently used first

    @property
    def link_token(self) -> str:
        """Of the link that works now."""
        return self._link

    def sign_in(self, token: str) -> str | None:
        """The cookie of a new session; None: the link was used before, or never was one."""
        if len(token) > MAX_TOKEN_CHARS or not hmac.compare_digest(token.encode(), self._link.encode()):
            return None
        self._link = secrets.token_urlsafe(32)
        cookie = secrets.token_urlsafe(32)
        self._forget()
        while len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[_digest(cookie)] = Session(used_at=self._clock())
        return cookie

    def find(self, cookie: str) -> Session | None:
        if not cookie or len(cookie) > MAX_TOKEN_CHARS:
            return None
        self._forget()
        key = _digest(cookie)
        session = self._sessions.pop(key, None)
        if session is not None:
            session.used_at = self._clock()
            self._sessions[key] = session
        return session

    def sign_out(self, session: Session) -> None:
        self._sessions = {key: known for key, known in self._sessions.items() if known is not session}

    def is_signed_in(self, session: Session) -> bool:
        return any(known is session for known in self._sessions.values())

    def _forget(self) -> None:
        now = self._clock()
        self._sessions = {
            key: session for key, session in self._sessions.items() if session.streams or now - session.used_at < IDLE_S
        }


def _digest(cookie: str) -> str:
    return hashlib.sha256(cookie.encode()).hexdigest()
