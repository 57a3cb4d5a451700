"""A job in the background: detached, followed, stopped, resumed; and what fails before it starts."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.command_line import CommandLine

from pliant.testing.waiting import wait_until

pytestmark = pytest.mark.e2e
PATIENCE = 120  # seconds


class Terminal:
    """A command in a terminal of its own."""

    def __init__(self, command_line: CommandLine, *args: str) -> None:
        self._master, terminal = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pliant.cli", *args],
            env={**command_line.env, "TERM": "xterm", "COLUMNS": "200"},
            cwd=command_line.folder,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)
        os.set_blocking(self._master, False)
        self._shown = b""

    def shown(self) -> str:
        try:
            while piece := os.read(self._master, 1 << 16):
                self._shown += piece
        except OSError:  # nothing more, or the other end is closed
            pass
        return self._shown.decode(errors="replace")

    def wait(self) -> int:
        wait_until(lambda: self.shown() is not None and self.process.poll() is not None, PATIENCE, "its end")
        code = self.process.wait()
        self.shown()
        os.close(self._master)
        return code


def test_a_job_is_detached_followed_stopped_and_resumed_and_each_record_counts_once(command_line: CommandLine) -> None:
    program, gate = command_line.program(), command_line.folder / "gate"
    started = command_line(
        "run", "--detach", "--name", "bg", "-n", "2", "--audit", "--", "python", str(program), str(gate)
    )
    assert started.exit_code == 0, started.output
    assert "job bg runs in the background" in started.stdout
    assert "pliant attach bg" in started.stdout
    logs = command_line.job("bg") / "logs"
    wait_until(
        lambda: sum("waits" in path.read_text() for path in logs.glob("worker-*.log")) == 2, PATIENCE, "two workers"
    )
    assert "is running" in command_line("resume", "bg").stderr

    follower = Terminal(command_line, "attach", "bg")
    wait_until(lambda: "worker-1 waits" in follower.shown(), PATIENCE, "the output so far")
    follower.process.send_signal(signal.SIGINT)
    assert follower.wait() == 0
    assert "detached; job bg keeps running; `pliant stop bg` stops it" in follower.shown()

    follower = Terminal(command_line, "attach", "bg")
    wait_until(lambda: "worker-1 waits" in follower.shown(), PATIENCE, "the output so far")
    assert command_line("stop", "bg", "--now").exit_code == 0
    assert follower.wait() == 130
    assert "Stopped" in follower.shown()

    other = command_line("run", "--resume", "--name", "bg", "-n", "3")
    assert other.exit_code == 2
    assert "was started otherwise: roles.worker.replicas.max was 2, now 3" in other.stderr
    gate.touch()
    resumed = command_line.start("run", "--resume", "--name", "bg", "--quiet", "--json")
    text, _ = resumed.communicate(timeout=PATIENCE)
    assert resumed.returncode == 0, text
    assert '"phase": "Succeeded"' in text
    audited = command_line("audit", "bg")
    assert audited.exit_code == 0, audited.output
    assert "800 records" in audited.stdout or "each once" in audited.stdout
    again = command_line("resume", "bg")
    assert again.exit_code == 2
    assert "has succeeded; there is nothing to resume" in again.stderr


FIXABLE = """
import os, sys
import pliant

for shard in pliant.connect().shards("train", size=40, shard_size=5, max_failures=1):
    if shard.start >= 20 and not os.path.exists(sys.argv[1]):
        raise ValueError("not fixed")
"""


def test_a_failed_job_goes_on_after_its_program_was_fixed(command_line: CommandLine) -> None:
    program, fixed = command_line.program(FIXABLE), command_line.folder / "fixed"
    command = ["run", "--name", "f", "--audit", "--max-restarts", "0", "--quiet"]
    failed = command_line.start(*command, "--", "python", str(program), str(fixed))
    assert failed.wait(PATIENCE) == 1
    fixed.touch()
    resumed = command_line.start("resume", "f")
    text, _ = resumed.communicate(timeout=PATIENCE)
    assert resumed.returncode == 0, text
    assert command_line("audit", "f").exit_code == 0
    assert "resumed; it was Failed" in command_line("events", "f").stdout


@pytest.mark.parametrize("detach", [[], ["--detach"]])
def test_a_job_that_cannot_start_leaves_nothing_behind(command_line: CommandLine, detach: list[str]) -> None:
    own = command_line.folder / "own"
    own.mkdir()
    (own / "notes.txt").write_text("mine")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for where in (["--name", "m"], ["--job-dir", str(own)]):
            failed = command_line.start("run", *detach, *where, "--metrics-port", port, "--", "true")
            text, _ = failed.communicate(timeout=PATIENCE)
            assert failed.returncode == 2, text
            assert f"pliant: cannot serve metrics on 127.0.0.1:{port}: Address already in use\n" in text
    assert not command_line.home.exists()
    assert [path.name for path in Path(own).iterdir()] == ["notes.txt"]
