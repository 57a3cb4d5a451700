"""The pictures of docs/dashboard.md: real jobs with real failures, looked at in Debian's Chromium.

.venv/bin/python tools/dashboard/screenshots.py          # about two minutes; writes docs/images/dashboard-*.png
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from contextlib import ExitStack
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from pliant.testing.jobs import LocalJob
from pliant.testing.waiting import wait_until

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
MAX_BYTES = 150_000
CHROMIUM = "/usr/bin/chromium"
SECONDS = 75  # of the job in the pictures
PROGRAM = """
    import math, os, random, time
    import pliant

    job = pliant.connect()
    print("\\x1b[32mconnected\\x1b[0m as", job.node, flush=True)
    began, step, pace = float(os.environ["BEGAN"]), 0, float(os.environ["PACE"])
    for shard in job.shards("clicks", size=36_000, shard_size=30, epochs=3, shuffle=True, seed=1, skip_parked=True):
        time.sleep(pace * random.uniform(0.6, 1.4))
        if shard.epoch == 0 and shard.start <= 11_700 < shard.end:
            raise ValueError("record 11700 has 3 columns, 39 expected")
        step = int((time.time() - began) * 10)
        loss = 0.42 + 0.5 * math.exp(-step / 250) + random.gauss(0, 0.008)
        job.report(step, loss=loss, auc=0.81 - 0.3 * math.exp(-step / 300) + random.gauss(0, 0.003))
        print(f"step {step}: records {shard.start} to {shard.end}, loss {loss:.4f}", flush=True)
"""
FAILS = """
    import pliant

    job = pliant.connect()
    raise KeyError("the model file has no entry 'head.weight'; found: body.weight, body.bias")
"""


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright, ExitStack() as stack:
        home = Path(folder)
        link = start_dashboard(home, stack)
        browser = stack.enter_context(
            playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        )
        began = {"BEGAN": str(time.time())}
        small = run(home, stack, "nightly-eval", PROGRAM, workers=1, env={"PACE": "0.001", **began})
        broken = run(home, stack, "bert-head", FAILS, workers=1, env={})
        job = run(home, stack, "clicks", PROGRAM, workers=4, env={"PACE": "0.11", **began})
        job.wait_until_running("worker-3")
        pause(12)
        job.kill_program("worker-1")
        pause(12)
        job.kill_agent("worker-2")
        pause(12)
        job.preempt("worker-0")
        broken.wait()
        small.wait()
        pause(SECONDS - 36)
        take(browser, link)
        job.interrupt()
        job.wait()
    for path in sorted(IMAGES.glob("dashboard-*.png")):
        assert path.stat().st_size < MAX_BYTES, f"{path.name} is too large for the documentation"


def run(home: Path, stack: ExitStack, name: str, program: str, *, workers: int, env: dict[str, str]) -> LocalJob:
    path = home / f"{name}.py"
    path.write_text(textwrap.dedent(program))
    role = {"resources": {"memory": "256Mi"}}
    return stack.enter_context(
        LocalJob(home, [sys.executable, str(path)], workers=workers, name=name, role=role, env=env)
    )


def pause(seconds: float) -> None:
    """A picture needs a past."""
    time.sleep(seconds)


def start_dashboard(home: Path, stack: ExitStack) -> str:
    link = home / "link"
    command = [sys.executable, "-c", "from pliant.cli import main; main()", "dashboard", "--no-open", "--port", "0"]
    environment = {**os.environ, "PLIANT_HOME": str(home)}
    server = stack.enter_context(
        subprocess.Popen(
            [*command, "--allow-control", "--link-file", str(link)], env=environment, stdout=subprocess.DEVNULL
        )
    )
    stack.callback(server.send_signal, signal.SIGTERM)
    return wait_until(lambda: link.read_text().strip() if link.exists() else "", what="the dashboard")


def take(browser: Browser, link: str) -> None:
    page = browser.new_page(viewport={"width": 1240, "height": 700})
    page.goto(link)
    page.get_by_role("link", name="clicks").wait_for()
    picture(page, "jobs", height=395)
    base = page.url.partition("#")[0]

    def view(name: str) -> None:
        page.goto(f"{base}#/jobs/clicks/{name}")
        page.locator("[role=tabpanel] .panel").first.wait_for()
        page.wait_for_timeout(2500)  # the curves are drawn

    view("overview")
    picture(page, "overview", height=820)
    view("nodes")
    page.locator(".lanes .row").nth(3).click()
    picture(page, "nodes", height=820)
    page.emulate_media(color_scheme="dark")
    view("data")
    picture(page, "data", height=760)
    page.set_viewport_size({"width": 390, "height": 780})
    page.emulate_media(color_scheme="light")
    view("overview")
    picture(page, "phone", height=780)


def picture(page: Page, name: str, *, height: int) -> None:
    width = (page.viewport_size or {"width": 1240})["width"]
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_timeout(600)
    page.screenshot(path=IMAGES / f"dashboard-{name}.png")


if __name__ == "__main__":
    main()
