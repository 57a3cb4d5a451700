"""The command line with a PLIANT_HOME of its own, and proof that no process of its jobs is left afterwards.

``conftest.py`` of ``tests/cli`` and of ``tests/e2e/cli`` take the fixtures from here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner, Result

from pliant.cli.app import app
from pliant.platforms.processes import find_marked, kill_all
from pliant.testing.waiting import wait_until

GATED_PROGRAM = """
import os, sys, time
import pliant

gate = sys.argv[1]
job = pliant.connect()
waited = False
for shard in job.shards("train", size=200, shard_size=5, epochs=2, shuffle=True, seed=3, prefetch=1):
    if not waited:
        print(job.node, "waits", *sys.argv[2:], flush=True)
    while not os.path.exists(gate):
        time.sleep(0.05)
    waited = True
print("finished", flush=True)
"""


class CommandLine:
    """The command line with a home of its own: in this process, or as a process."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home.parent
        self.env = {**os.environ, "PLIANT_HOME": str(home)}
        self.started: list[subprocess.Popen[str]] = []

    def __call__(self, *args: str) -> Result:
        return CliRunner(env={"PLIANT_HOME": str(self.home), "COLUMNS": "200"}).invoke(app, list(args))

    def start(self, *args: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "pliant.cli", *args],
            env=self.env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.started.append(process)
        return process

    def job(self, name: str) -> Path:
        return self.home / "jobs" / name

    def program(self, text: str = GATED_PROGRAM) -> Path:
        path = self.folder / "prog.py"
        path.write_text(text)
        return path

    def close(self) -> None:
        """Whatever a failed test left is ended; what a good test left is its mistake."""
        try:
            wait_until(lambda: not self._left(), what="the end of all processes of the test's jobs")
        finally:
            kill_all(self._left())
            for process in self.started:
                process.kill()
                process.communicate()

    def _left(self) -> list[psutil.Process]:
        return find_marked({"PLIANT_HOME": str(self.home)})


@pytest.fixture
def command_line(tmp_path: Path) -> Iterator[CommandLine]:
    made = CommandLine(tmp_path / "home")
    yield made
    made.close()


@pytest.fixture(scope="module")
def module_command_line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    made = CommandLine(tmp_path_factory.mktemp("jobs") / "home")
    yield made
    made.close()
