"""A browser, one for all tests of a worker of pytest-xdist, and a dashboard that is started as a user starts it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, sync_playwright

from pliant.testing.waiting import MAX_WAIT_S, wait_until

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
EXPECTED = re.compile(r"/favicon\.ico$|nowhere")  # the browser's wish; a job that a test asks for and that is not there
LOST = re.compile(r"net::ERR_|status of (401|429|503)")  # what a browser says of a connection that a test takes away


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        message = f"no {CHROMIUM}: `make browser-testbed` installs it"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield found
        found.close()


class Dashboard:
    """``pliant dashboard`` over the jobs of a folder."""

    def __init__(self, home: Path, *options: str) -> None:
        self._home, self._options = home, options
        self._link = home / "link"
        self._output = home / "dashboard.out"

    def __enter__(self) -> Self:
        self._link.unlink(missing_ok=True)
        command = [sys.executable, "-c", "from pliant.cli import main; main()", "dashboard", "--no-open", "--port", "0"]
        with self._output.open("ab") as output:
            self.process = subprocess.Popen(
                [*command, "--link-file", str(self._link), *self._options],
                env={**os.environ, "PLIANT_HOME": str(self._home)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.url = self.link().partition("/login")[0]
        return self

    def link(self) -> str:
        """That signs one browser in."""

        def written() -> str:
            assert self.process.poll() is None, self._output.read_text()
            return self._link.read_text().strip() if self._link.exists() else ""

        return wait_until(written, what=f"a link of {self._output}")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            with contextlib.suppress(OSError):
                error.add_note(self._output.read_text()[-4000:])
        self.process.send_signal(signal.SIGTERM)
        try:
            assert self.process.wait(MAX_WAIT_S) == 0 or error is not None, self._output.read_text()
        finally:
            self.process.kill()


class Tab:
    """A page that is signed in, and what its browser complained about."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.page: Page = context.new_page()
        self.page.set_default_timeout(MAX_WAIT_S * 1000)
        self.complaints: list[str] = []
        self.dialogs: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(f"{error}\n{error.stack}"))
        self.page.on("console", self._heard)
        self.page.on("dialog", self._asked)

    def _asked(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _heard(self, message: ConsoleMessage) -> None:
        where = message.location["url"]
        if message.type in ("error", "warning") and not LOST.search(message.text) and not EXPECTED.search(where):
            self.complaints.append(f"{message.text} ({where})")

    def see(self, text: str | re.Pattern[str], within: str = "body") -> None:
        self.page.locator(within).get_by_text(text).first.wait_for()

    def until(self, script: str, what: str) -> None:
        """Until this expression is true in the page."""
        try:
            wait_until(lambda: bool(self.page.evaluate(script)), what=what, every=0.1)
        except TimeoutError as error:
            raise AssertionError(f"{error}; the page says:\n{self.text()[:3000]}") from None

    def text(self) -> str:
        return self.page.inner_text("body")

    def open(self, dashboard: Dashboard, view: str) -> None:
        self.page.goto(f"{dashboard.url}/#/{view}")

    def check(self) -> None:
        assert self.complaints == []
        assert self.dialogs == []


Open = Callable[..., Tab]


@pytest.fixture
def tab(browser: Browser) -> Iterator[Open]:
    """``tab(dashboard)`` is a new, signed-in page; after the test it must not have complained."""
    tabs: list[Tab] = []

    def make(dashboard: Dashboard | None = None, **options: Any) -> Tab:
        found = Tab(browser.new_context(**options))
        tabs.append(found)
        if dashboard is not None:
            found.page.goto(dashboard.link())
            found.page.wait_for_url(lambda url: "/login" not in url)  # the page that signs in goes on by itself
        return found

    yield make
    for found in tabs:
        found.context.close()
    for found in tabs:
        found.check()
