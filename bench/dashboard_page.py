"""How the dashboard's page copes with a large job: time to the first rows, frames while scrolling, and what an update costs.

    .venv/bin/python bench/dashboard_page.py [--nodes 1000] [--events 10000] [--json]

A real ``pliant dashboard`` serves the page to Debian's Chromium (headless, without a GPU); the documents of the large job
(``pliant.testing.large_job``) are put where the stream puts what it receives. A frame is what passes between two
``requestAnimationFrame``: 16.7 ms is the least, and the browser's own drawing is in it. An update is measured from the new
document to the frame that shows it; script is the part of it that the page's own code takes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from harness import options_of, parsed
from playwright.sync_api import CDPSession, Page, sync_playwright

from pliant.testing.large_job import JOB, large_job
from pliant.testing.waiting import wait_until

CHROMIUM = "/usr/bin/chromium"
FRAMES = 120
UPDATES = 40
OPEN = """async ([id, selector]) => {
  const store = await import('/static/app/store.js');
  const {events, logs, ...docs} = window.large;
  const before = performance.now();
  store.set({job: {...store.noJob(id), docs, events: events.events, lastEvent: events.after}});
  while (!document.querySelector(`${selector} .rows-body .row`)) await new Promise(done => requestAnimationFrame(done));
  return performance.now() - before;
}"""
SCROLL = """async ([selector, frames, step]) => {
  const box = document.querySelector(selector), found = [];
  let before = performance.now();
  for (let index = 0; index < frames; index += 1) {
    box.scrollTop += step;
    await new Promise(done => requestAnimationFrame(done));
    const now = performance.now();
    found.push(now - before);
    before = now;
  }
  return found;
}"""
UPDATE = """async ([what, times]) => {
  const store = await import('/static/app/store.js'), live = await import('/static/app/live.js'), found = [];
  const frame = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  for (let index = 0; index < times; index += 1) {
    const {job} = store.get();
    const lines = {};
    for (const name of Object.keys(job.docs.nodes.lines)) {
      lines[name] = {now: {cpu: Math.random() * 4, memory_mb: Math.random() * 8000}};
    }
    const event = {...job.events[job.events.length - 1], number: job.lastEvent + 1};
    await frame();
    const before = performance.now();
    if (what === 'nodes') store.set({job: {...job, docs: {...job.docs, nodes: live.merged(job.docs.nodes, {lines})}}});
    else store.set({job: {...job, events: job.events.concat([event]), lastEvent: event.number}});
    await frame();
    found.push(performance.now() - before);
  }
  return found;
}"""


def main() -> None:
    parser = options_of(__doc__, rounds=1)
    parser.add_argument("--nodes", type=int, default=0, help="[1000; quick: 50]")
    parser.add_argument("--events", type=int, default=0, help="[10000; quick: 500]")
    options = parsed(parser)
    options.nodes = options.nodes or (50 if options.quick else 1000)
    options.events = options.events or (500 if options.quick else 10_000)
    documents = large_job(options.nodes, options.events)["documents"]
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        server, link = start_dashboard(Path(home))
        try:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": 1360, "height": 850})
            page.goto(link)
            page.get_by_text("No jobs yet").wait_for()
            found = measured(page, documents, options.rounds)
            browser.close()
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
    found["load"] = round(os.getloadavg()[0], 1)
    if options.json:
        print(json.dumps(found))
        return
    print(f"{options.nodes:,} nodes, {options.events:,} events, load {found['load']}")
    for name in ("nodes", "events"):
        of = found[name]
        frames = f"frame {of['frame_ms']:.1f} ms median, {of['frame_p95_ms']:.1f} ms p95 (script {of['script_per_frame_ms']:.1f})"
        print(
            f"{name}: first rows {of['open_ms']} ms; {frames}; update {of['update_ms']:.1f} ms, up to {of['update_max_ms']:.1f} ms"
        )


def measured(page: Page, documents: dict[str, Any], rounds: int) -> dict[str, Any]:
    """Medians of the rounds."""
    runs = [measure(page, documents) for _ in range(rounds)]
    return {view: {key: median([run[view][key] for run in runs]) for key in runs[0][view]} for view in runs[0]}


def start_dashboard(home: Path) -> tuple[subprocess.Popen[bytes], str]:
    link = home / "link"
    command = [sys.executable, "-c", "from pliant.cli import main; main()", "dashboard", "--no-open", "--port", "0"]
    server = subprocess.Popen(
        [*command, "--link-file", str(link)], env={**os.environ, "PLIANT_HOME": str(home)}, stdout=subprocess.DEVNULL
    )
    return server, wait_until(lambda: link.read_text().strip() if link.exists() else "", what="the dashboard")


def measure(page: Page, documents: dict[str, Any]) -> dict[str, Any]:
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    found: dict[str, Any] = {}
    base = page.url.partition("#")[0].rstrip("/")
    for view, selector in (("nodes", ".lanes"), ("events", ".event-rows")):
        page.goto(f"{base}/#/jobs/{JOB}/{view}")
        page.evaluate("documents => { window.large = documents; }", documents)
        opened = page.evaluate(OPEN, [JOB, selector])
        before = script_seconds(session)
        frames = page.evaluate(SCROLL, [selector, FRAMES, 120 if view == "nodes" else -600])
        script = script_seconds(session) - before
        updates = page.evaluate(UPDATE, [view, UPDATES])
        found[view] = {
            "open_ms": round(opened),
            "frame_ms": round(median(frames), 1),
            "frame_p95_ms": round(sorted(frames)[int(0.95 * len(frames))], 1),
            "script_per_frame_ms": round(script * 1000 / FRAMES, 2),
            "update_ms": round(median(updates), 1),
            "update_max_ms": round(max(updates), 1),
        }
    return found


def script_seconds(session: CDPSession) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(metric["value"] for metric in metrics if metric["name"] == "ScriptDuration"))


if __name__ == "__main__":
    main()
