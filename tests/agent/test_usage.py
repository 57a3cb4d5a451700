from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pliant.agent.usage import MB, MemoryWatchdog, UsageSampler, process_tree
from pliant.platforms import process_stat
from pliant.platforms.cgroup import CgroupReading


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def program(code: str) -> Iterator[subprocess.Popen[str]]:
    """A process that prints a line when it is where the test wants it, and goes on when it is sent one."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        for member in [*process_tree(process.pid)]:
            member.kill()
        process.communicate()


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    process.stdout.readline()


BURN = """
import time
print("up"); input()
while time.process_time() < {seconds}: pass
print("burned"); input()
"""
CHILD = "import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-u', '-c', {code!r}])\nchild.wait()"
HOLD = "data = bytearray({mb} << 20); data[::4096] = b'x' * len(data[::4096]); print('up'); input()"


@pytest.mark.parametrize("wrap", ["{code}", CHILD], ids=["itself", "a child"])
def test_cpu_is_cores_used_over_the_interval(wrap: str) -> None:
    burn = BURN.format(seconds=0.4)
    code = burn if wrap == "{code}" else wrap.format(code=burn)
    clock = Clock()
    with program(code) as process:
        sampler = UsageSampler(process.pid, clock=clock)
        go_on(process)
        clock.now += 0.2
        busy = sampler.sample()
        clock.now += 1.0
        idle = sampler.sample()
    assert busy.cpu == pytest.approx(2.0, abs=0.6)
    assert idle.cpu < 0.2


def test_cpu_of_a_process_born_in_the_interval_counts_from_its_birth() -> None:
    clock = Clock()
    code = "print('up'); input()\n" + CHILD.format(code=BURN.format(seconds=0.3).replace('print("up"); input()', ""))
    with program(code) as process:
        sampler = UsageSampler(process.pid, clock=clock)
        go_on(process)
        clock.now += 1.0
        assert sampler.sample().cpu >= 0.25


def test_memory_is_that_of_the_whole_tree() -> None:
    with program(CHILD.format(code=HOLD.format(mb=40))) as process:
        usage = UsageSampler(process.pid).sample()
    assert usage.memory_mb > 45
    assert usage.processes == 2


def test_a_process_that_ended_uses_nothing() -> None:
    with program("print('up'); input()") as process:
        sampler = UsageSampler(process.pid)
        process.kill()
        process.wait()
        usage = sampler.sample()
    assert (usage.cpu, usage.memory_mb, usage.processes) == (0.0, 0.0, 0)


def test_processes_that_vanish_between_listing_and_reading_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with program("print('up'); input()") as process, program("print('up'); input()") as other:
        other.kill()
        other.wait()
        monkeypatch.setattr(process_stat, "_children", lambda pid: [other.pid] if pid == process.pid else [])
        usage = UsageSampler(process.pid).sample()
    assert usage.processes == 1


def test_a_process_that_one_listing_misses_is_not_counted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    with program(CHILD.format(code=BURN.format(seconds=0.3))) as process:
        go_on(process)
        sampler = UsageSampler(process.pid, clock=clock)
        with monkeypatch.context() as patched:
            patched.setattr(process_stat, "_children", lambda pid: [])
            clock.now += 1.0
            assert sampler.sample().processes == 2
        clock.now += 1.0
        assert sampler.sample().cpu < 0.2


def test_where_the_kernel_lists_no_children_psutil_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_stat, "_lists_children", lambda: False)
    with program(CHILD.format(code=HOLD.format(mb=40))) as process:
        usage = UsageSampler(process.pid).sample()
    assert usage.memory_mb > 45
    assert usage.processes == 2


def test_a_cgroup_of_its_own_is_believed_before_the_processes() -> None:
    seconds = iter([10.0, 13.0])
    clock = Clock()
    with program("print('up'); input()") as process:
        sampler = UsageSampler(process.pid, lambda: CgroupReading("v2", 77 * MB, None, next(seconds), 0), clock=clock)
        clock.now += 2.0
        usage = sampler.sample()
    assert (usage.cpu, usage.memory_mb) == (1.5, 77.0)


def test_a_cgroup_that_does_not_account_cpu_leaves_that_to_the_processes() -> None:
    clock = Clock()
    with program(BURN.format(seconds=0.3)) as process:
        sampler = UsageSampler(process.pid, lambda: CgroupReading("v1", 5 * MB, None, None, 0), clock=clock)
        go_on(process)
        clock.now += 1.0
        usage = sampler.sample()
    assert usage.memory_mb == 5.0
    assert usage.cpu > 0.1


def test_two_samples_at_one_instant_are_the_same() -> None:
    clock = Clock()
    with program(BURN.format(seconds=0.3)) as process:
        sampler = UsageSampler(process.pid, clock=clock)
        go_on(process)
        clock.now += 1.0
        busy = sampler.sample()
        assert sampler.sample() is busy
        assert busy.cpu > 0


def test_the_watchdog_tells_when_the_tree_outgrows_its_limit() -> None:
    with program(CHILD.format(code=HOLD.format(mb=60))) as process:
        assert MemoryWatchdog(process.pid, 1000).check() is None
        assert MemoryWatchdog(process.pid, 0).check() is None
        told = MemoryWatchdog(process.pid, 50).check()
    assert told is not None
    assert "limit is 50 MB" in told


@pytest.mark.skipif(sys.platform != "linux", reason="proportional sizes are known on Linux only")
def test_the_watchdog_does_not_count_shared_pages_twice() -> None:
    fork = HOLD.format(mb=60).replace("print('up')", "import os; os.fork() and print('up')")
    with program(fork) as process:
        assert UsageSampler(process.pid).sample().memory_mb > 110
        assert MemoryWatchdog(process.pid, 110).check() is None


def test_the_watchdog_is_silent_about_a_process_that_is_gone() -> None:
    with program("print('up'); input()") as process:
        process.kill()
        process.wait()
        assert MemoryWatchdog(process.pid, 1).check() is None
