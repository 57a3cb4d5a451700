"""Who is answered at all: by cookie, host, origin and token; and what every response says."""

from __future__ import annotations

import asyncio

import pytest
from tests.dashboard.asgi import HOST, Browser, Reply
from tests.dashboard.fakes import FakeJob, FakeSource

from pliant.dashboard.security.guard import CSP, Addresses, plain_page
from pliant.dashboard.security.sessions import IDLE_S, MAX_SESSIONS, Sessions


def get(browser: Browser, target: str, **headers: str) -> Reply:
    return asyncio.run(browser.get(target, **headers))


def browser(**options: bool) -> Browser:
    return asyncio.run(_browser(**options))


async def _browser(**options: bool) -> Browser:
    return Browser(FakeSource(FakeJob()), **options)


@pytest.mark.parametrize("path", ["/", "/api/jobs", "/api/stream?jobs=1", "/static/app.js", "/api/jobs/mine/spec"])
def test_nothing_is_shown_without_a_session(path: str) -> None:
    assert get(browser(sign_in=False), path).status == 401


def test_a_probe_learns_that_the_server_answers_and_nothing_else() -> None:
    page = browser(sign_in=False)
    reply = get(page, "/healthz")
    assert (reply.status, reply.body) == (200, b"ok\n")
    assert "set-cookie" not in reply.headers
    assert page.state.source.lists == 0  # type: ignore[attr-defined]
    for path in ("/healthz/", "/healthz/x", "/healthz/../api/jobs"):
        assert get(page, path).status == 401


def test_a_probe_too_must_use_a_name_of_the_dashboard_and_come_from_no_other_site() -> None:
    page = browser(sign_in=False)
    assert get(page, "/healthz", host="10.1.2.3:8470").status == 403
    assert get(page, "/healthz", origin="http://evil.example").status == 403
    assert asyncio.run(page.post("/healthz", {})).status == 405


@pytest.mark.parametrize("cookie", ["wrong", "", "x" * 5000, 'pliant-8470="', "ü"])
def test_a_wrong_cookie_is_no_session(cookie: str) -> None:
    reply = get(browser(sign_in=False), "/api/jobs", cookie=f"pliant-8470={cookie}")
    assert reply.status == 401
    assert "sign" in reply.json()["error"]


def test_a_link_signs_in_once() -> None:
    page = browser(sign_in=False)
    token = page.state.sessions.link_token
    first, again = get(page, f"/login?token={token}"), get(page, f"/login?token={token}")
    assert first.status == 200
    assert "HttpOnly" in first.headers["set-cookie"]
    assert "SameSite=strict" in first.headers["set-cookie"]
    assert again.status == 401
    assert "set-cookie" not in again.headers
    assert page.links == [page.state.sessions.link_token] != [token]
    page.cookie = first.headers["set-cookie"].partition("=")[2].partition(";")[0]
    assert get(page, "/api/config").status == 200


@pytest.mark.parametrize("token", ["", "x", "%00", "é", "a" * 3000])
def test_a_wrong_link_does_not(token: str) -> None:
    assert get(browser(sign_in=False), f"/login?token={token}").status == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8470", "127.0.0.1.evil.example", "[::1", "127.0.0.1:8470:1", "127.0.0.1:x"]
)
def test_another_host_name_is_refused(host: str) -> None:
    assert get(browser(), "/api/jobs", host=host).status == 403


@pytest.mark.parametrize("host", ["localhost:8470", "LOCALHOST:1234", "[::1]:8470", "127.0.0.1"])
def test_names_of_this_machine_are_not(host: str) -> None:
    assert get(browser(), "/api/config", host=host).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": f"https://{HOST}"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "http://["},
        {"origin": "http://[::1"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
    ],
)
def test_requests_of_other_sites_are_refused(headers: dict[str, str]) -> None:
    page = browser()
    assert asyncio.run(page.request("GET", "/api/jobs", headers)).status == 403


def test_a_link_on_another_site_may_lead_here() -> None:
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert asyncio.run(browser().request("GET", "/", headers)).status in (200, 404)
    assert asyncio.run(browser().request("GET", "/api/jobs", headers)).status == 403


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"x_pliant_csrf": "wrong"}, 403),
        ({"x_pliant_csrf": None}, 403),
        ({"origin": None}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"content_type": "text/plain"}, 415),
        ({"content_length": "9999999"}, 413),
        ({"cookie": "pliant-8470=wrong"}, 401),
    ],
)
def test_a_change_needs_the_token_of_the_session(changed: dict[str, str | None], status: int) -> None:
    page = browser(allow_control=True)
    assert asyncio.run(page.post("/api/jobs/mine/scale", {"replicas": 2}, **changed)).status == status


def test_nothing_is_changed_without_permission() -> None:
    page = browser()
    reply = asyncio.run(page.post("/api/jobs/mine/scale", {"replicas": 2}))
    assert reply.status == 403
    assert "--allow-control" in reply.json()["hint"]


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
def test_other_methods_are_refused(method: str) -> None:
    assert asyncio.run(browser().request(method, "/api/jobs", {})).status == 405


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static//etc/passwd",
        "/static/app.py",
        "/static/",
        "/static/\x00",
        "/api/jobs/../../etc/passwd",
        "/api/jobs/..%2f..%2f/spec",
        "/api/jobs/mine/log?node=../../../etc/passwd",
    ],
)
def test_no_path_leads_out(path: str) -> None:
    assert get(browser(), path).status in (400, 404)


@pytest.mark.parametrize("path", ["/", "/login", "/api/config", "/api/nothing", "/api/jobs/none"])
def test_every_response_has_the_policy(path: str) -> None:
    for page in (browser(), browser(sign_in=False)):
        headers = get(page, path).headers
        assert headers["content-security-policy"] == CSP
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] in ("no-store", "no-cache")
    assert "unsafe" not in CSP


def test_a_long_address_is_refused() -> None:
    assert get(browser(), "/api/jobs?" + "x" * 10_000).status == 414


def test_errors_tell_nothing_of_the_inside() -> None:
    job = FakeJob()
    job.error = RuntimeError("secret place")
    page = asyncio.run(_page(job))
    reply = get_failing(page)
    assert reply.status == 500
    assert b"secret" not in reply.body


async def _page(job: FakeJob) -> Browser:
    return Browser(FakeSource(job))


def get_failing(page: Browser) -> Reply:
    async def ask() -> Reply:
        reply = Reply()

        async def receive() -> dict[str, object]:
            await asyncio.Event().wait()
            return {}

        async def send(message: object) -> None:
            assert isinstance(message, dict)
            if message["type"] == "http.response.start":
                reply.status = message["status"]
            else:
                reply.body += message.get("body", b"")

        with pytest.raises(RuntimeError):  # so that the server logs it
            await page.app(page.scope("GET", "/api/jobs/mine", {}), receive, send)
        return reply

    return asyncio.run(ask())


def test_sessions_are_bounded_and_end() -> None:
    now = [0.0]
    sessions = Sessions(lambda: now[0])
    cookies = [sessions.sign_in(sessions.link_token) or "" for _ in range(MAX_SESSIONS + 1)]
    assert sessions.find(cookies[0]) is None
    assert sessions.find(cookies[-1]) is not None
    now[0] += IDLE_S + 1
    assert sessions.find(cookies[-1]) is None


def test_signing_out_ends_the_session() -> None:
    page = browser()
    assert asyncio.run(page.post("/api/logout", {})).status == 200
    assert get(page, "/api/config").status == 401


def test_pages_of_ours_escape_what_they_say() -> None:
    assert b"<script>" not in plain_page("<script>", "<script>", go_to='"><script>')


def test_with_tls_only_https_is_the_same_site() -> None:
    addresses = Addresses.of("0.0.0.0", 8470, more=["box.example"], is_tls=True)
    assert addresses.is_own_origin("https://box.example:8470", "box.example:8470")
    assert not addresses.is_own_origin("http://box.example:8470", "box.example:8470")
    assert not addresses.is_own_host("0.0.0.0:8470")
