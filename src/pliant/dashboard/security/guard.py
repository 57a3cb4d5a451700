"""The border in front of all routes: which requests are answered at all, and the headers of every response.

A page of another site may make the browser send requests here. Its requests are refused by where they come from (``Origin``,
``Sec-Fetch-Site``), those of a name that was pointed at this address by the name (``Host``), and what it cannot know is the
cookie, which is not sent for other sites (``SameSite=Strict``). What changes something needs more: a header with the
session's token.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pliant.dashboard.security.sessions import Session, Sessions
from pliant.dashboard.wire import to_bytes

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
CSRF_HEADER = "x-pliant-csrf"
MAX_TARGET = 4096  # characters of a path with its query
MAX_BODY = 64 << 10
OPEN_PATHS = frozenset({"/login", "/healthz"})  # answered without a session
SIGN_IN = "open the link that `pliant dashboard` printed"


@dataclass(frozen=True)
class Addresses:
    """By which names browsers reach this server."""

    port: int
    names: frozenset[str] = field(default_factory=frozenset)
    is_tls: bool = False

    @classmethod
    def of(cls, host: str, port: int, *, more: Iterable[str] = (), is_tls: bool = False) -> Addresses:
        own = {"127.0.0.1", "localhost", "[::1]"}
        if host not in ("0.0.0.0", "::", ""):
            own.add(f"[{host}]" if ":" in host else host)
        return cls(port, frozenset(name.lower() for name in (*own, *more)), is_tls)

    @property
    def scheme(self) -> str:
        return "https" if self.is_tls else "http"

    def is_own_host(self, value: str) -> bool:
        """Any port: a tunnel or a port-forward has one of its own; what matters is the name."""
        name, port = _split_host(value)
        return name in self.names and (port == "" or (port.isascii() and port.isdecimal()))

    def is_own_origin(self, origin: str, host: str) -> bool:
        """The same scheme, name and port as the request itself came to."""
        try:
            parts = urlsplit(origin)
        except ValueError:  # such as of half a bracket
            return False
        return parts.scheme == self.scheme and parts.netloc.lower() == host.lower() and self.is_own_host(host)


def _split_host(value: str) -> tuple[str, str]:
    lowered = value.strip().lower()
    if lowered.startswith("["):
        name, bracket, rest = lowered.partition("]")
        return (name + bracket, rest.removeprefix(":")) if rest == "" or rest.startswith(":") else ("", "")
    name, _, port = lowered.partition(":")
    return name, port


class Guard:
    def __init__(self, app: ASGIApp, *, sessions: Sessions, addresses: Addresses, cookie: str) -> None:
        self._app = app
        self._sessions = sessions
        self._addresses = addresses
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # a web socket: closed without an answer
        guarded = _with_headers(send)
        refusal = self._refusal(scope)
        if refusal is not None:
            await _refuse(guarded, *refusal, as_page=_wants_page(scope))
            return
        await self._app(scope, _limited(receive), guarded)

    def _refusal(self, scope: Scope) -> tuple[int, str, str] | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(scope["path"]) + len(scope["query_string"]) > MAX_TARGET:
            return 414, "the address is too long", ""
        if len(hosts) != 1 or not self._addresses.is_own_host(hosts[0]):
            return 403, "this host name is not one of the dashboard's", "use --allow-host NAME to add it"
        if (refusal := self._foreign(scope, headers, hosts[0])) is not None:
            return refusal
        session = self._sessions.find(self._cookie_of(headers))
        if session is None:
            return None if scope["path"] in OPEN_PATHS else (401, "you are not signed in", SIGN_IN)
        scope.setdefault("state", {})["session"] = session
        return self._unproved(scope, headers, session)

    def _foreign(self, scope: Scope, headers: Headers, host: str) -> tuple[int, str, str] | None:
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, f"{scope['method'][:20]} is not supported", ""
        origin = headers.get("origin")
        if origin is not None and not self._addresses.is_own_origin(origin, host):
            return 403, "the request comes from another site", ""
        site = headers.get("sec-fetch-site", "none")
        is_navigation = headers.get("sec-fetch-mode") == "navigate" and scope["method"] == "GET"
        if site not in ("none", "same-origin") and not (is_navigation and scope["path"] in ("/", "/login")):
            return 403, "the request comes from another site", ""
        if scope["method"] == "POST" and origin is None:
            return 403, "the request does not say where it comes from", "send an Origin header"
        return None

    @staticmethod
    def _unproved(scope: Scope, headers: Headers, session: Session) -> tuple[int, str, str] | None:
        if scope["method"] != "POST":
            return None
        if not hmac.compare_digest(headers.get(CSRF_HEADER, "").encode(), session.csrf.encode()):
            return 403, "the request does not have the token of this session", "reload the page"
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return 415, "the body must be JSON", ""
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY:
            return 413, f"the body may have {MAX_BODY:,} bytes", ""
        return None

    def _cookie_of(self, headers: Headers) -> str:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return found.value if found is not None else ""


def _with_headers(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return guarded


def _limited(receive: Receive) -> Receive:
    """A body without a length is cut off, too."""
    read = 0

    async def limited() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        return {"type": "http.disconnect"} if read > MAX_BODY else message

    return limited


def _wants_page(scope: Scope) -> bool:
    return not scope["path"].startswith(("/api/", "/static/"))


async def _refuse(send: Send, status: int, error: str, hint: str, *, as_page: bool) -> None:
    if as_page:
        body, kind = plain_page("Pliant", error, hint), "text/html; charset=utf-8"
    else:
        body, kind = to_bytes({"error": error, "hint": hint}), "application/json"
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def plain_page(title: str, *paragraphs: str, go_to: str = "") -> bytes:
    """A page without scripts and styles. ``go_to``: a path of ours that the browser opens next."""
    from html import escape

    refresh = f'<meta http-equiv="refresh" content="0; url={escape(go_to)}">' if go_to else ""
    text = "".join(f"<p>{escape(paragraph)}</p>" for paragraph in paragraphs if paragraph)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{refresh}'
        f'<meta name="viewport" content="width=device-width"><title>{escape(title)}</title></head>'
        f"<body><h1>{escape(title)}</h1>{text}</body></html>"
    ).encode()
