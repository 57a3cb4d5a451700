"""What an actor starts ends with it, whatever it did to get away, and what it left is swept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from pliant.platforms.ray import leash
from pliant.testing.waiting import MAX_WAIT_S, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the leash is the kernel's")


def start(*command: str, sweep: tuple[str, ...] = ()) -> tuple[subprocess.Popen[bytes], int]:
    """The process, and the end of the pipe that holds it."""
    hear, hold = os.pipe()
    argv = [sys.executable, "-I", "-S", leash.__file__, str(hear), "", str(len(sweep)), *sweep, *command]
    process = subprocess.Popen(argv, pass_fds=(hear,))
    os.close(hear)
    return process, hold


@pytest.mark.parametrize(("command", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)])
def test_it_ends_with_its_command_and_as_it_did(command: str, code: int) -> None:
    process, hold = start("sh", "-c", command)
    assert process.wait(MAX_WAIT_S) == code
    os.close(hold)


def test_the_end_of_the_pipe_is_the_end_of_all_that_was_started_in_sessions_of_its_own_too(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    away = f"setsid sh -c 'echo $$ >> {pids}; exec sleep 3600' & "
    process, hold = start(
        "sh", "-c", f"({away}); {away} echo $$ >> {pids}; exec sleep 3600", sweep=("touch", str(tmp_path / "swept"))
    )
    found = wait_until(lambda: [int(pid) for pid in _read(pids).split()] if _read(pids).count("\n") == 3 else [])
    processes = [psutil.Process(pid) for pid in found]
    os.close(hold)
    assert process.wait(MAX_WAIT_S) == 137
    assert not [each for each in processes if each.is_running()]
    assert (tmp_path / "swept").exists()


def test_the_children_of_an_actor_may_be_killed_and_all_that_was_started_still_ends_with_the_pipe(
    tmp_path: Path,
) -> None:
    pids = tmp_path / "pids"
    process, hold = start("sh", "-c", f"setsid sh -c 'echo $$ >> {pids}; exec sleep 3600' & wait")
    away = psutil.Process(int(wait_until(lambda: _read(pids) if _read(pids).endswith("\n") else "")))
    process.kill()
    process.wait(MAX_WAIT_S)
    assert away.is_running()
    os.close(hold)
    wait_until(lambda: not away.is_running())


def test_sigterm_is_the_commands(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    process, hold = start("sh", "-c", f"trap 'exit 7' TERM; touch {ready}; while :; do sleep 0.05; done")
    wait_until(ready.exists)
    process.terminate()
    assert process.wait(MAX_WAIT_S) == 7
    os.close(hold)


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
