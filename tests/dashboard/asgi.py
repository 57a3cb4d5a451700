"""A client that calls an ASGI application in the same process: what reaches it is what a test says, header by header."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message

from pliant.dashboard.app import make_app
from pliant.dashboard.security.guard import Addresses
from pliant.dashboard.state import DashboardState, Options
from pliant.dashboard.watching.job_source import JobSource

HOST = "127.0.0.1:8470"
ORIGIN = f"http://{HOST}"
COOKIE = "pliant-8470"


@dataclass
class Reply:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def json(self) -> Any:
        return json.loads(self.body)


class Browser:
    """Signed in, unless told otherwise."""

    def __init__(self, source: JobSource, *, allow_control: bool = False, sign_in: bool = True) -> None:
        self.links: list[str] = []
        self.state = DashboardState(source, Options(allow_control, user="ada"))
        self.app: ASGIApp = make_app(
            self.state, Addresses.of("127.0.0.1", 8470), COOKIE, on_sign_in=lambda token: self.links.append(token)
        )
        self.cookie = self.state.sessions.sign_in(self.state.sessions.link_token) or "" if sign_in else ""

    @property
    def csrf(self) -> str:
        session = self.state.sessions.find(self.cookie)
        assert session is not None
        return session.csrf

    async def get(self, target: str, **headers: str) -> Reply:
        return await self.request("GET", target, headers)

    async def post(self, target: str, body: Any, **changed: str | None) -> Reply:
        headers = {
            "origin": ORIGIN,
            "content-type": "application/json",
            "x-pliant-csrf": self.csrf if self.cookie else "",
            **{name.replace("_", "-"): value for name, value in changed.items()},
        }
        given = {name: value for name, value in headers.items() if value is not None}
        return await self.request("POST", target, given, json.dumps(body).encode())

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes = b"") -> Reply:
        reply = Reply()
        sent = False

        async def receive() -> Message:
            nonlocal sent
            if sent:
                await asyncio.Event().wait()
            sent = True
            return {"type": "http.request", "body": body}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                reply.status = message["status"]
                reply.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            else:
                reply.body += message.get("body", b"")

        await self.app(self.scope(method, target, headers), receive, send)
        return reply

    def scope(self, method: str, target: str, headers: Mapping[str, str]) -> dict[str, Any]:
        path, _, query = target.partition("?")
        all_headers = {
            "host": HOST,
            **({"cookie": f"{COOKIE}={self.cookie}"} if self.cookie else {}),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in all_headers.items() if value],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8470),
        }
