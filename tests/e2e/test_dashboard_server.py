"""The dashboard of a real job: what a browser gets while a worker is killed and the master restarted, and how it ends."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from pliant.dashboard.documents.patch import apply_patch
from pliant.dashboard.report.page import documents_in
from pliant.testing.jobs import LAUNCHER, LocalJob
from pliant.testing.waiting import MAX_WAIT_S, wait_until

pytestmark = [pytest.mark.e2e]

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\\u2028"
PROGRAM = f"""
import pathlib, pliant, time
job = pliant.connect()
print({HOSTILE!r}, flush=True)
gate = pathlib.Path("gate")
for number, shard in enumerate(job.shards("{HOSTILE[:40]}", size=400, shard_size=1)):
    print("line", number, flush=True)
    job.report(number, loss=1 / (1 + number))
    while not gate.exists() and number >= 20:
        time.sleep(0.05)
"""


class Page:
    """A browser that keeps a cookie."""

    def __init__(self, link: str) -> None:
        parts = urlsplit(link)
        assert parts.hostname is not None
        self.host, self.port = parts.hostname, parts.port or 0
        self.cookie = ""
        reply = self.request("GET", f"{parts.path}?{parts.query}")
        self.cookie = str(reply.headers["set-cookie"]).partition(";")[0]

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=MAX_WAIT_S)
        given = {"Cookie": self.cookie} if self.cookie else {}
        connection.request(method, path, json.dumps(body) if body is not None else None, {**given, **headers})
        return connection.getresponse()

    def get(self, path: str) -> Any:
        reply = self.request("GET", path)
        assert reply.status == 200, reply.read()
        return json.loads(reply.read())


class Tab:
    """A stream that is read in a thread."""

    def __init__(self, page: Page, query: str) -> None:
        self.documents: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self.lines: list[str] = []
        self.notes: set[str] = set()
        self.ended_by = ""
        self._reply = page.request("GET", f"/api/stream?{query}")
        assert self._reply.status == 200
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        kind = ""
        with contextlib.suppress(OSError, http.client.HTTPException):
            for raw in self._reply:
                name, _, value = raw.decode().rstrip("\n").partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    self._take(kind, json.loads(value))

    def _take(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "doc":
            self.documents[data["topic"]] = data["doc"]
        elif kind == "patch":
            self.documents[data["topic"]] = apply_patch(self.documents[data["topic"]], data["patch"])
        elif kind == "events":
            self.events += data["events"]
        elif kind == "log":
            self.lines += [line["text"] for line in data["lines"]]
        elif kind == "bye":
            self.ended_by = kind
        if "job" in self.documents:
            self.notes.add(self.documents["job"]["note"])

    def until(self, predicate: Any, what: str) -> Any:
        return wait_until(predicate, what=what, every=0.05)

    def kinds(self) -> list[str]:
        return [event["kind"] for event in self.events]

    def wait_for_end(self) -> None:
        self._thread.join(MAX_WAIT_S)
        assert not self._thread.is_alive()


@contextlib.contextmanager
def dashboard(folder: Path, *options: str) -> Iterator[tuple[Page, subprocess.Popen[bytes]]]:
    link = folder / "link"
    link.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-c",
        LAUNCHER,
        "dashboard",
        "--no-open",
        "--port",
        "0",
        "--link-file",
        str(link),
        *options,
    ]
    env = {**os.environ, "PLIANT_HOME": str(folder)}
    with (folder / "dashboard.out").open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=env, cwd=folder)
    try:
        wait_until(lambda: link.exists() and link.read_text().endswith("\n"), what="the link", every=0.05)
        yield wait_until(lambda: _signed_in(link), what="the server", every=0.1), process
    finally:
        process.terminate()
        process.wait(MAX_WAIT_S)


def _signed_in(link: Path) -> Page | None:
    with contextlib.suppress(ConnectionError):
        return Page(link.read_text().strip())
    return None


def test_a_job_is_followed_while_a_worker_is_killed_and_the_master_restarted(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    with LocalJob(tmp_path, [sys.executable, "train.py"], workers=2, name="followed") as job:
        job.wait_for(lambda status: status.datasets and status.datasets[0].records_done > 10, "some progress")
        with dashboard(tmp_path, "--allow-control") as (page, process):
            (job_id,) = page.get("/api/jobs")["jobs"]
            tab = Tab(page, f"job={job_id}&topics=job,nodes,data,servers,decisions,series,events&log=worker-0")
            tab.until(lambda: len(tab.documents) == 6, "all documents")
            tab.until(lambda: HOSTILE in tab.lines, "the output")
            assert tab.documents["data"]["datasets"][HOSTILE[:40]]["map"]["epochs"]["0"]["cells"].count("l") >= 1

            job.kill_agent("worker-1")
            line = tab.until(
                lambda: next((x for x in tab.documents["nodes"]["lines"].values() if len(x["nodes"]) == 2), None),
                "the replacement in the line of the killed node",
            )
            assert line["nodes"][0] == "worker-1"
            tab.until(lambda: tab.documents["job"]["restarts"]["reasons"].get("Killed") == 1, "the reason")

            job.kill_master()
            tab.until(lambda: tab.kinds().count("master") == 2, "the restart of the master")
            tab.until(lambda: tab.documents["job"]["master"]["alive"], "the new master")
            assert [event["number"] for event in tab.events] == list(range(1, len(tab.events) + 1))

            (tmp_path / "gate").touch()
            tab.until(lambda: tab.documents["job"]["over"], "the end")
            assert job.wait() == 0
            cells = tab.until(
                lambda: (
                    next(iter(tab.documents["data"]["datasets"].values()))["map"]["epochs"]["0"]["complete"] and tab
                ),
                "",
            )
            assert cells
            found = page.get(f"/api/jobs/{job_id}/search?q=ONERROR")
            assert {match["text"] for match in found["matches"]} == {HOSTILE}

            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(MAX_WAIT_S) == 0
            tab.wait_for_end()
            assert tab.ended_by == "bye", f"after {time.monotonic() - began:.1f} s"
    _check_report(tmp_path, job)


def _check_report(folder: Path, job: LocalJob) -> None:
    command = [sys.executable, "-c", LAUNCHER, "report", "--job-dir", str(job.home.path), "-o", "job.html"]
    subprocess.run(command, check=True, cwd=folder, env={**os.environ, "PLIANT_HOME": str(folder)})
    html = (folder / "job.html").read_text()
    assert "<script>alert" not in html
    assert "onerror=alert" not in html.replace("onerror=alert(2)\\u003e", "")
    documents = documents_in(html)["documents"]
    assert HOSTILE in [line["text"] for line in documents["logs"]["worker-0"]["lines"]]
    assert documents["job"]["phase"] == "Succeeded"
    assert documents["series"]["metrics"]["loss"]["mean"]


def test_a_server_with_a_frozen_master_ends_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    with LocalJob(tmp_path, [sys.executable, "train.py"], name="frozen") as job:
        job.wait_for(lambda status: status.datasets and status.datasets[0].records_done > 10, "some progress")
        with dashboard(tmp_path, "--job-dir", str(job.home.path)) as (page, process):
            tab = Tab(page, "job=frozen&topics=job,data,decisions")
            tab.until(lambda: len(tab.documents) == 3, "all documents")
            refused = page.request("POST", "/api/jobs/frozen/stop", {})
            assert refused.status == 403
            pid = job.home.path.joinpath("master.json")
            master = json.loads(pid.read_text())["pid"]
            os.kill(master, signal.SIGSTOP)
            try:
                tab.until(lambda: tab.documents["job"]["note"], "the note that the master does not answer")
                process.send_signal(signal.SIGTERM)
                assert process.wait(MAX_WAIT_S) == 0
            finally:
                os.kill(master, signal.SIGCONT)
            tab.wait_for_end()
        (tmp_path / "gate").touch()
        assert job.wait() == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--host", "0.0.0.0"], "TLS is not configured"),
        (["--tls-cert", "cert.pem"], "belong together"),
        (["--tls-cert", "none.pem", "--tls-key", "none.pem"], "cannot be used"),
        (["nothing"], "not found"),
    ],
)
def test_what_is_not_safe_or_not_there_is_refused(tmp_path: Path, options: list[str], expected: str) -> None:
    command = [sys.executable, "-c", LAUNCHER, "dashboard", "--no-open", "--port", "0", *options]
    env = {**os.environ, "PLIANT_HOME": str(tmp_path)}
    found = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path, timeout=MAX_WAIT_S)
    assert found.returncode == 2
    assert expected in found.stderr
