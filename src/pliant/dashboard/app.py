"""The routes of the page: documents, the stream, and, if allowed, what changes a job; ``security.guard`` is before them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pliant import __version__
from pliant.core.errors import Conflict, InvalidRequest, MasterUnavailable, NotFound, PliantError, RetryableError
from pliant.dashboard.control import scale, stop
from pliant.dashboard.documents.logs import log_document, matches_document
from pliant.dashboard.documents.spec import spec_document
from pliant.dashboard.event_stream import EventStream
from pliant.dashboard.security.guard import Addresses, Guard, plain_page
from pliant.dashboard.security.sessions import Session
from pliant.dashboard.state import DashboardState
from pliant.dashboard.static_files import StaticFile, find_static
from pliant.dashboard.threads import TooBusy
from pliant.dashboard.watching.job_subject import DOCUMENTS, EVENTS, MAX_EVENTS, JobSubject
from pliant.dashboard.watching.jobs_subject import TOPICS as LIST_TOPICS
from pliant.dashboard.watching.stream import DocumentStream, JobStream, Position, follow
from pliant.dashboard.wire import to_bytes

log = logging.getLogger(__name__)

MAX_NUMBER = 1 << 53
MAX_TEXT = 300  # characters of what is searched for


class Json(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else to_bytes(content)


SignedIn = Callable[[str], None]  # with the token of the next link


def make_app(state: DashboardState, addresses: Addresses, cookie: str, on_sign_in: SignedIn | None = None) -> ASGIApp:
    """``on_sign_in`` is called when a link was used, so that a new one can be shown."""
    routes = _Routes(state, addresses, cookie, on_sign_in)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await state.close()

    app = Starlette(
        routes=[
            Route("/", routes.index),
            Route("/login", routes.login, methods=["GET"]),
            Route("/healthz", routes.health),
            Route("/static/{path:path}", routes.static),
            Route("/api/config", routes.config),
            Route("/api/jobs", routes.jobs),
            Route("/api/cluster", routes.cluster),
            Route("/api/stream", routes.stream),
            Route("/api/logout", routes.logout, methods=["POST"]),
            Route("/api/jobs/{id}", routes.job),
            Route("/api/jobs/{id}/events", routes.events),
            Route("/api/jobs/{id}/log", routes.log),
            Route("/api/jobs/{id}/search", routes.search),
            Route("/api/jobs/{id}/spec", routes.spec),
            Route("/api/jobs/{id}/scale", routes.scale, methods=["POST"]),
            Route("/api/jobs/{id}/stop", routes.stop, methods=["POST"]),
            Route("/api/jobs/{id}/{topic}", routes.topic),
        ],
        exception_handlers={PliantError: _refused, HTTPException: _http_error, Exception: _failed},
        lifespan=lifespan,
    )
    return _Ending(Guard(app, sessions=state.sessions, addresses=addresses, cookie=cookie), state)


class _Ending:
    """At the end of the server, requests that wait for a job are cancelled: they get an answer, and nothing is logged."""

    def __init__(self, app: ASGIApp, state: DashboardState) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_started = False

        async def watched(message: Message) -> None:
            nonlocal is_started
            is_started = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except asyncio.CancelledError:
            if not self._state.stopping.is_set():
                raise
            if not is_started:
                await Json({"error": "the dashboard ends", "hint": ""}, 503)(scope, receive, send)


class _Routes:
    def __init__(self, state: DashboardState, addresses: Addresses, cookie: str, on_sign_in: SignedIn | None) -> None:
        self._state = state
        self._addresses = addresses
        self._cookie = cookie
        self._on_sign_in = on_sign_in

    # --- pages

    async def index(self, request: Request) -> Response:
        return await self._static_file("index.html", request)

    async def static(self, request: Request) -> Response:
        return await self._static_file(request.path_params["path"], request)

    async def _static_file(self, path: str, request: Request) -> Response:
        found = await self._state.threads.run(lambda: find_static(path))
        if found is None:
            raise NotFound(f"no file {path[:200]!r}")
        return _file_response(found, request.headers.get("if-none-match", ""))

    async def health(self, request: Request) -> Response:
        """For probes, which have no session: that the server answers, and nothing of any job."""
        return PlainTextResponse("ok\n")

    async def login(self, request: Request) -> Response:
        """The cookie is strict, so a link on another page does not carry it along to ``/``: this page of ours opens that."""
        cookie = self._state.sessions.sign_in(request.query_params.get("token", ""))
        if cookie is None:
            if getattr(request.state, "session", None) is not None:
                return HTMLResponse(plain_page("Pliant", "You are signed in.", go_to="/"))
            hint = "Each link works once. The terminal that runs the dashboard shows a new one."
            return HTMLResponse(plain_page("Pliant", "This link was used before, or is not complete.", hint), 401)
        response = HTMLResponse(plain_page("Pliant", "Signed in.", go_to="/"))
        is_tls = self._addresses.is_tls
        response.set_cookie(self._cookie, cookie, httponly=True, samesite="strict", secure=is_tls, path="/")
        if self._on_sign_in is not None:
            self._on_sign_in(self._state.sessions.link_token)
        return response

    async def logout(self, request: Request) -> Response:
        self._state.sessions.sign_out(_session(request))
        response = Json({})
        response.delete_cookie(self._cookie, path="/", httponly=True, samesite="strict", secure=self._addresses.is_tls)
        return response

    # --- documents

    async def config(self, request: Request) -> Response:
        options, source = self._state.options, self._state.source
        return Json(
            {
                "version": __version__,
                "now": time.time(),
                "where": source.where,
                "platform": source.platform,
                "job": options.only_job or None,
                "user": options.user,
                "allow_control": options.allow_control,
                "topics": [*DOCUMENTS, EVENTS],
                "csrf": _session(request).csrf,
            }
        )

    async def jobs(self, request: Request) -> Response:
        return Json((await self._state.jobs.document("jobs")).as_bytes)

    async def cluster(self, request: Request) -> Response:
        return Json((await self._state.jobs.document("cluster")).as_bytes)

    async def job(self, request: Request) -> Response:
        return Json((await (await self._subject(request)).document("job")).as_bytes)

    async def topic(self, request: Request) -> Response:
        topic = request.path_params["topic"]
        if topic not in DOCUMENTS:
            raise NotFound(f"no document {topic[:100]!r}", hint=f"known: {', '.join(DOCUMENTS)}")
        return Json((await (await self._subject(request)).document(topic)).as_bytes)

    async def events(self, request: Request) -> Response:
        subject = await self._subject(request)
        after, limit = _number(request, "after", 0, MAX_NUMBER), _number(request, "limit", 1000, MAX_EVENTS)
        limit = max(1, limit)
        found = await subject.call(lambda handle: [record.to_json() for record in handle.events(after, limit)])
        last = found[-1]["number"] if found else after
        return Json({"events": found, "after": last, "more": len(found) == limit})

    async def log(self, request: Request) -> Response:
        subject = await self._subject(request)
        query = request.query_params
        node, after, before = query.get("node", ""), query.get("after", ""), query.get("before", "")
        lines = _number(request, "tail", 500, MAX_NUMBER)

        def read(handle: Any) -> dict[str, Any]:
            nodes = handle.nodes_with_output()
            first = node or next((name for name in nodes if name != "master"), "")
            if not first:
                return {
                    "node": "",
                    "nodes": nodes,
                    "lines": [],
                    "before": "",
                    "after": "",
                    "at_start": True,
                    "at_end": True,
                }
            return log_document(handle.log_page(first, after=after, before=before, lines=lines), nodes)

        return Json(await subject.call(read))

    async def search(self, request: Request) -> Response:
        subject = await self._subject(request)
        text, node = request.query_params.get("q", ""), request.query_params.get("node", "")
        if len(text) > MAX_TEXT:
            raise InvalidRequest(f"{len(text)} characters to search for; allowed: {MAX_TEXT}")
        async with self._state.searching:
            return Json(matches_document(await subject.call(lambda handle: handle.search_logs(text, node=node))))

    async def spec(self, request: Request) -> Response:
        subject = await self._subject(request)
        return Json(await subject.call(lambda handle: spec_document(handle.written_spec())))

    async def _subject(self, request: Request) -> JobSubject:
        return await self._state.job(request.path_params["id"])

    # --- the stream

    async def stream(self, request: Request) -> Any:
        query = request.query_params
        job_id, node = query.get("job", ""), query.get("log", "")
        position = Position.parse(request.headers.get("last-event-id", ""))
        if position is None:
            cursor = query.get("log_after", "")
            if len(cursor) > MAX_TEXT or not cursor.isprintable():  # it becomes a line of the stream
                raise InvalidRequest("log_after is not a place in this output")
            position = Position(_number(request, "events_after", 0, MAX_NUMBER), cursor or None)
        followed: DocumentStream
        if job_id:
            known = {*DOCUMENTS, EVENTS}
            topics = frozenset(filter(None, query.get("topics", "job,events").split(",")))
            if unknown := sorted(topics - known):
                raise InvalidRequest(f"unknown topic {unknown[0][:50]!r}", hint=f"known: {', '.join(sorted(known))}")
            if len(node) > MAX_TEXT:
                raise InvalidRequest("the name of the node is too long")
            followed = JobStream(await self._state.job(job_id), topics, node)
        else:
            topics = frozenset(topic for topic in LIST_TOPICS if query.get(topic))
            if not topics:
                raise InvalidRequest("nothing to follow", hint="pass job=ID, jobs=1 or cluster=1")
            followed = DocumentStream(self._state.jobs, topics)
        viewing: list[AbstractContextManager[None]] = [followed.subject.viewed(followed.topics)]
        return EventStream(self._state, _session(request), lambda: follow([followed], position), viewing)

    # --- what changes a job

    async def scale(self, request: Request) -> Response:
        subject, body = await self._allowed(request)
        return Json(await subject.call(lambda handle: scale(handle, body, self._state.options.user), exclusive=True))

    async def stop(self, request: Request) -> Response:
        subject, body = await self._allowed(request)
        await stop(self._state.threads, subject.handle, body, self._state.options.user)
        return Json({"asked": True}, 202)

    async def _allowed(self, request: Request) -> tuple[JobSubject, dict[str, Any]]:
        if not self._state.options.allow_control:
            raise ReadOnly("this dashboard only shows jobs", hint="start it with --allow-control to change them")
        try:
            body = json.loads(await request.body())
        except (ValueError, RecursionError):
            raise InvalidRequest("the body is not JSON") from None
        if not isinstance(body, dict):
            raise InvalidRequest("the body is not a JSON object")
        return await self._subject(request), body


class ReadOnly(PliantError):
    """The dashboard was started without ``--allow-control``."""


def _session(request: Request) -> Session:
    session = request.state.session
    assert isinstance(session, Session)
    return session


def _number(request: Request, name: str, default: int, largest: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 16:
        raise InvalidRequest(f"{name} is {text[:50]!r}; it must be a number of 0 or more")
    return min(int(text), largest)


def _file_response(found: StaticFile, known: str) -> Response:
    headers = {"etag": found.etag, "cache-control": "no-cache"}
    if known == found.etag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.media_type, headers=headers)


STATUS_OF = (
    (ReadOnly, 403),
    (TooBusy, 429),
    (NotFound, 404),
    (InvalidRequest, 400),
    (Conflict, 409),
    (MasterUnavailable, 503),
    (RetryableError, 503),
)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, PliantError)
    status = next((status for kind, status in STATUS_OF if isinstance(error, kind)), 422)
    return Json({"error": error.message, "hint": error.hint}, status)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Json({"error": error.detail, "hint": ""}, error.status_code)


async def _failed(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return Json({"error": "the dashboard failed to answer", "hint": "its terminal shows why"}, 500)
