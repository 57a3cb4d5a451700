"""Finding the processes of a job by the marks in their environment, and ending them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import psutil
import pytest

from pliant.platforms import processes
from pliant.platforms.processes import find_marked, has_mark, kill_marked
from pliant.testing.waiting import MAX_WAIT_S

SLEEP = [sys.executable, "-c", "import time; time.sleep(1000)"]
Start = Callable[[list[str]], "subprocess.Popen[bytes]"]


@pytest.fixture
def marks(tmp_path: Path) -> dict[str, str]:
    return {"PLIANT_JOB_DIR": str(tmp_path), "PLIANT_NODE": "worker-0"}


@pytest.fixture
def start(marks: dict[str, str]) -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def start(command: list[str]) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(command, env={**os.environ, **marks}))
        return started[-1]

    yield start
    kill_marked(marks)
    for process in started:
        process.kill()
        process.wait()


def test_a_process_is_found_from_the_moment_it_was_started(start: Start, marks: dict[str, str]) -> None:
    for _ in range(30):
        process = start(SLEEP)
        assert has_mark(process.pid, marks)
        process.kill()


def test_a_process_has_all_of_the_marks_or_is_not_found(start: Start, marks: dict[str, str], tmp_path: Path) -> None:
    process = start(SLEEP)
    assert [found.pid for found in find_marked(marks)] == [process.pid]
    assert find_marked({**marks, "PLIANT_NODE": "worker-1"}) == []
    assert find_marked({"PLIANT_JOB_DIR": f"{tmp_path}-2"}) == []


def test_processes_without_an_environment_and_those_of_the_kernel_are_not_waited_for(marks: dict[str, str]) -> None:
    with subprocess.Popen(["sleep", "1000"], env={}) as bare:
        assert not has_mark(bare.pid, marks)
        bare.kill()
    assert not has_mark(bare.pid, marks), "it ended"
    assert not has_mark(2, marks), "a thread of the kernel"


def test_what_is_started_while_the_others_are_killed_is_killed_too(
    start: Start, marks: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    children: list[subprocess.Popen[bytes]] = []
    real = processes.kill_all

    def kill_all(found: Iterable[psutil.Process]) -> None:
        if not children:
            children.append(start(SLEEP))  # as one of those that were found may do, just before its end
        real(found)

    monkeypatch.setattr(processes, "kill_all", kill_all)
    first = start(SLEEP)
    assert {process.pid for process in kill_marked(marks)} == {first.pid, children[0].pid}
    assert [process.wait(MAX_WAIT_S) for process in (first, *children)] == [-signal.SIGKILL] * 2
