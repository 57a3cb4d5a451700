"""What strangers wrote is text; and who is not signed in sees nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.e2e.dashboard.conftest import Dashboard, Open

from pliant.testing.jobs import LocalJob

pytestmark = pytest.mark.e2e

MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>"
PROGRAM = f"""
import pliant
job = pliant.connect()
print("\\x1b[31mred\\x1b[0m {MARKUP} \\x1b]0;title\\x07 \\u202eturned \\x1b[2J\\x08 end", flush=True)
print("x" * 20000, flush=True)
for shard in job.shards({MARKUP!r}, size=6, shard_size=3):
    job.report(shard.start + 1, loss=1.0, **{{"</script>{MARKUP}"[:60]: 2.0}})
raise ValueError("failed: {MARKUP} </script>")
"""


def test_hostile_names_messages_and_output_are_shown_as_text(tmp_path: Path, tab: Open) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    with (
        LocalJob(tmp_path, ["python", str(program)], name="hostile") as job,
        Dashboard(tmp_path) as dashboard,
    ):
        assert job.wait() == 1
        page = tab(dashboard)
        for view in ("overview", "nodes", "data", "decisions", "events", "spec", "logs"):
            page.open(dashboard, f"jobs/hostile/{view}")
            page.page.locator("[role=tabpanel] .panel").first.wait_for()
            assert page.page.locator("img, body script, iframe, object").count() == 0, view
        page.see("turned", ".log-box")
        text = page.page.inner_text(".log-box")
        assert MARKUP in text
        assert "⟨U+202E⟩turned" in text
        assert "\x1b" not in text
        assert "title" not in text, "escape sequences other than colours are dropped"
        assert page.page.inner_text(".log-box .ansi-1") == "red"
        page.open(dashboard, "jobs/hostile/data")
        page.see(MARKUP, ".panel h2")
        page.open(dashboard, "jobs/hostile/overview")
        page.see(re.compile("failed: <img"), ".failure")

        report = tmp_path / "report.html"
        assert _report("hostile", report, tmp_path) == 0
        alone = tab(offline=True)
        requests: list[str] = []
        alone.page.on("request", lambda request: requests.append(request.url))
        alone.page.goto(report.as_uri())
        alone.see(re.compile("failed: <img"), ".failure")
        for name in ("Nodes", "Data", "Decisions", "Events", "Spec", "Logs"):
            alone.page.get_by_role("tab", name=name).click()
            alone.page.locator("[role=tabpanel] .panel").first.wait_for()
            assert alone.page.locator("img, iframe, object").count() == 0, name
        alone.see("turned", ".log-box")
        assert requests == [report.as_uri()]


def _report(name: str, path: Path, home: Path) -> int:
    import os
    import subprocess
    import sys

    command = [sys.executable, "-c", "from pliant.cli import main; main()", "report", name, "-o", str(path)]
    return subprocess.run(command, env={**os.environ, "PLIANT_HOME": str(home)}, check=False).returncode


def test_a_browser_with_a_wrong_cookie_sees_nothing_and_is_told_how_to_sign_in(
    tmp_path: Path, tab: Open, browser: Browser
) -> None:
    with Dashboard(tmp_path) as dashboard:
        page = tab(dashboard)
        page.see("No jobs yet")
        cookies = page.context.cookies()
        assert cookies
        assert all(cookie["httpOnly"] and cookie["sameSite"] == "Strict" for cookie in cookies)
        stranger = browser.new_context()
        stranger.add_cookies([{"name": cookies[0].get("name", ""), "value": "0" * 43, "url": dashboard.url}])
        wrong = stranger.new_page()
        answer = wrong.goto(dashboard.url)
        assert answer is not None
        assert answer.status == 401
        assert "pliant dashboard" in wrong.inner_text("body")
        assert wrong.request.get(f"{dashboard.url}/api/jobs").status == 401
        stranger.close()
        # a session that ends while the page is open
        page.context.clear_cookies()
        page.page.evaluate("fetch('api/jobs')")
        page.page.goto(f"{dashboard.url}/static/index.html")
        assert "not signed in" in page.text().lower()


def test_a_link_to_a_job_that_is_not_there_says_so(tmp_path: Path, tab: Open) -> None:
    with Dashboard(tmp_path) as dashboard:
        page = tab(dashboard)
        page.see("No jobs yet")
        page.open(dashboard, "jobs/nowhere/nodes")
        page.see(re.compile("nowhere.*not found"), "main")
