"""What the kernel counts of one process and of all below it, read for the price of a few small files.

``psutil`` finds the children of a process by reading every process of the machine, several milliseconds that an agent would pay
each second for as long as its node lives. Linux lists the children of each thread; where it does not, ``psutil`` does it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

STOPPED = frozenset("Tt")  # by SIGSTOP, or a debugger


@dataclass(frozen=True, slots=True)
class ProcessStat:
    pid: int
    started: float  # tells apart two processes that had the same number
    state: str  # one letter, as ps shows it
    cpu_seconds: float
    resident_bytes: int

    @property
    def key(self) -> tuple[int, float]:
        return self.pid, self.started


def read_stat(pid: int) -> ProcessStat | None:
    """None: it is not there any more, or its numbers cannot be read."""
    if not _lists_children():
        return _by_psutil(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
        fields = text[text.rindex(b")") + 2 :].split()  # the name before it may hold anything
        ticks, page = _units()
        cpu = (int(fields[11]) + int(fields[12])) / ticks
        return ProcessStat(pid, float(fields[19]), fields[0].decode(), cpu, int(fields[21]) * page)
    except (OSError, ValueError, IndexError):
        return None


def tree_stats(pid: int) -> Iterator[ProcessStat]:
    """Of the process and all its descendants that are there now."""
    waiting, seen = [pid], {pid}
    while waiting:
        found = read_stat(waiting.pop())
        if found is None:
            continue
        yield found
        children = set(_children(found.pid)) - seen
        waiting.extend(children)
        seen |= children


def _children(pid: int) -> list[int]:
    if not _lists_children():
        try:
            return [child.pid for child in psutil.Process(pid).children()]
        except psutil.Error:
            return []
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:  # it ended
        return found
    for thread in threads:
        with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
            found.extend(map(int, file.read().split()))
    return found


def _by_psutil(pid: int) -> ProcessStat | None:
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            times = process.cpu_times()
            state = "T" if process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP) else "S"
            resident = process.memory_info().rss
            return ProcessStat(pid, process.create_time(), state, times.user + times.system, resident)
    except psutil.Error:
        return None


@cache
def _lists_children() -> bool:
    return Path(f"/proc/self/task/{threading.get_native_id()}/children").exists()


@cache
def _units() -> tuple[int, int]:
    """Clock ticks per second, bytes of a page."""
    return os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
