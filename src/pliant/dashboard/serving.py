"""The dashboard as a process: uvicorn on one address, the link that a person opens, and an end within two seconds.

Connections of other machines need TLS. The link is not put on a command line, where other users of the machine could read it:
a browser that is opened here gets it from a file that only its user can read.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import ipaddress
import logging
import os
import signal
import socket
import ssl
import sys
import threading
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from pliant.core.errors import Conflict, InvalidRequest
from pliant.dashboard.app import make_app
from pliant.dashboard.connection import KEEP_ALIVE_S, Connection
from pliant.dashboard.security.guard import Addresses, plain_page
from pliant.dashboard.security.sessions import Sessions
from pliant.dashboard.state import DashboardState, Options
from pliant.dashboard.watching.job_source import JobSource
from pliant.files.home import pliant_home
from pliant.files.private import FILE_MODE, make_private_folder

DEFAULT_PORT = 8470
MAX_CONNECTIONS = 256
GRACE_S = 0.5  # for requests that are being answered at the end


@dataclass(frozen=True)
class ServeOptions:
    host: str = "127.0.0.1"
    port: int | None = None  # None: the default one, or a free one if that is taken
    allow_control: bool = False
    open_browser: bool = True
    tls_cert: Path | None = None
    tls_key: Path | None = None
    allowed_hosts: tuple[str, ...] = ()
    only_job: str = ""
    link_file: Path | None = None  # where to write the link, for programs
    until_stdin_closes: bool = False  # end with the process at the other end of it

    @property
    def is_tls(self) -> bool:
        return self.tls_cert is not None


def serve(source: JobSource, options: ServeOptions, say: Callable[[str], None]) -> None:
    """Until SIGTERM or SIGINT."""
    check(options)
    listener = listen(options)
    port = listener.getsockname()[1]
    link = _Link(options, port, say)
    asyncio.run(_serve(source, options, listener, link))


def check(options: ServeOptions) -> None:
    """Raise ``InvalidRequest`` for what would not be safe, or cannot work."""
    if (options.tls_cert is None) != (options.tls_key is None):
        raise InvalidRequest("a certificate and its key belong together", hint="pass both --tls-cert and --tls-key")
    if not _is_loopback(options.host) and not options.is_tls:
        raise InvalidRequest(
            f"{options.host} can be reached from other machines, and TLS is not configured",
            hint="pass --tls-cert and --tls-key, or keep 127.0.0.1 and use `ssh -L` or `kubectl port-forward`",
        )
    if options.tls_cert is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(options.tls_cert, options.tls_key)
        except (OSError, ssl.SSLError) as error:
            raise InvalidRequest(f"the certificate {options.tls_cert} cannot be used: {error}") from None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(options: ServeOptions) -> socket.socket:
    """On the port that was asked for; connections are taken from now on, and answered once the server runs."""
    wanted = [options.port] if options.port is not None else [DEFAULT_PORT, 0]
    for number, port in enumerate(wanted):
        try:
            family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
            listener = socket.socket(family)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((options.host, port))
            # Before the link is shown: whoever follows it at once waits for the server, and is not refused.
            listener.listen(MAX_CONNECTIONS)
            return listener
        except OSError as error:
            listener.close()
            if number == len(wanted) - 1:
                raise Conflict(
                    f"cannot listen on {options.host}:{port}: {error.strerror or error}", hint="choose another --port"
                ) from None
    raise AssertionError("unreachable")


class _Link:
    """The link that works now: printed, and in a file for a browser that is opened here."""

    def __init__(self, options: ServeOptions, port: int, say: Callable[[str], None]) -> None:
        self._options = options
        self._say = say
        self.port = port
        scheme = "https" if options.is_tls else "http"
        host = options.allowed_hosts[0] if options.allowed_hosts else _shown_host(options.host)
        self.address = f"{scheme}://{host}:{port}"
        self._page: Path | None = None

    def url(self, token: str) -> str:
        return f"{self.address}/login?token={token}"

    def show_first(self, token: str) -> None:
        self._say(f"dashboard: {self.url(token)}")
        self._say("the link works once; Ctrl-C ends the dashboard")
        self._write(token)
        if self._options.open_browser:
            self._open(token)

    def __call__(self, token: str) -> None:
        self.remove_page()
        self._write(token)
        self._say(f"signed in; for another browser: {self.url(token)}")

    def _write(self, token: str) -> None:
        if self._options.link_file is not None:
            _write_private(self._options.link_file, self.url(token) + "\n")

    def _open(self, token: str) -> None:
        if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            if "BROWSER" not in os.environ:
                return
        folder = pliant_home() / "dashboard"
        make_private_folder(folder)
        self._page = folder / f"open-{self.port}.html"
        _write_private(self._page, plain_page("Pliant", "Opening the dashboard.", go_to=self.url(token)).decode())
        with contextlib.suppress(webbrowser.Error, OSError):
            webbrowser.open(self._page.absolute().as_uri())

    def remove_page(self) -> None:
        if self._page is not None:
            self._page.unlink(missing_ok=True)
            self._page = None


def _shown_host(host: str) -> str:
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host


def _write_private(path: Path, text: str) -> None:
    if path.exists() and not path.is_file():
        raise InvalidRequest(f"{path} is not a regular file", hint="name a new file")
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, FILE_MODE)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


class _Server(uvicorn.Server):
    """Streams never end by themselves, and uvicorn waits for them: they are ended first."""

    def __init__(self, config: uvicorn.Config, state: DashboardState) -> None:
        super().__init__(config)
        self._state = state
        self._loop = asyncio.get_running_loop()

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._loop.call_soon_threadsafe(self._state.stop)
        super().handle_exit(sig, frame)

    def end_with_stdin(self) -> None:
        """In a thread."""
        with contextlib.suppress(OSError):
            while os.read(sys.stdin.fileno(), 4096):
                continue
        with contextlib.suppress(RuntimeError):  # the server has ended
            self._loop.call_soon_threadsafe(self._state.stop)
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        """A signal ends the server, not the process: what comes after it still runs."""
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


async def _serve(source: JobSource, options: ServeOptions, listener: socket.socket, link: _Link) -> None:
    sessions = Sessions()
    state = DashboardState(source, Options(options.allow_control, options.only_job, _user()), sessions)
    more = (*options.allowed_hosts, *((_shown_host(options.host),) if options.is_tls else ()))
    addresses = Addresses.of(options.host, link.port, more=more, is_tls=options.is_tls)
    app = make_app(state, addresses, f"{'__Host-' if options.is_tls else ''}pliant-{link.port}", link)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_S,  # type: ignore[arg-type]  # whole seconds by its type, any by its use
        timeout_keep_alive=KEEP_ALIVE_S,
        http=Connection,
        ws="none",
        lifespan="on",
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
        h11_max_incomplete_event_size=32 << 10,
    )
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # anybody can send what is no request, and fill the terminal
    server = _Server(config, state)
    if options.until_stdin_closes:
        threading.Thread(target=server.end_with_stdin, name="stdin", daemon=True).start()
    link.show_first(sessions.link_token)
    try:
        await server.serve(sockets=[listener])
    finally:
        link.remove_page()


def _user() -> str:
    with contextlib.suppress(OSError, KeyError):
        return getpass.getuser()
    return ""
