"""What a program takes of its machine: CPU and memory, of the whole tree of processes below one pid.

A node with a cgroup of its own is measured by the kernel (exact, short-lived processes included); any other by
the table of processes. Sampling is a call, made by the agent at its own pace; nothing here has a thread. Processes may vanish
between listing and reading: what cannot be read is not counted.

``MemoryWatchdog`` stands in for a memory limit where there is no cgroup to enforce one.
"""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psutil

from pliant.platforms.cgroup import CgroupReading
from pliant.platforms.process_stat import ProcessStat, read_stat, tree_stats

KB, MB = 1 << 10, 1 << 20


@dataclass(frozen=True, slots=True)
class Usage:
    cpu: float  # cores, on average since the sample before
    memory_mb: float
    processes: int
    throttled: float = 0.0  # share of the time since the sample before in which its CPU limit kept it from running
    gpu: float | None = None  # not measured yet


class UsageSampler:
    """Samples the tree below ``pid``, or its cgroup.

    ``cgroup`` is ``CgroupLimit.read`` of the node's group, or ``read_current`` in a container; None: psutil.
    """

    def __init__(
        self,
        pid: int,
        cgroup: Callable[[], CgroupReading | None] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pid = pid
        self._cgroup = cgroup
        self._clock = clock
        self._at = -math.inf
        self._group_seconds: float | None = None
        self._throttled_s: float | None = None
        self._known: dict[tuple[int, float], ProcessStat] = {}  # as of the sample before
        self._last = Usage(0.0, 0.0, 0)
        self.sample()  # the base for the first interval

    def sample(self) -> Usage:
        now = self._clock()
        elapsed = now - self._at
        if elapsed <= 0:
            return self._last
        reading = self._cgroup() if self._cgroup else None
        found = self._read_tree()
        memory, throttled = sum(process.resident_bytes for process in found.values()), 0.0
        spent = sum(
            process.cpu_seconds - (self._known[key].cpu_seconds if key in self._known else 0.0)
            for key, process in found.items()
        )
        self._known = found
        if reading is not None:
            memory = reading.memory_bytes
            if reading.cpu_seconds is not None:
                before = reading.cpu_seconds if self._group_seconds is None else self._group_seconds
                spent = reading.cpu_seconds - before
                self._group_seconds = reading.cpu_seconds
            if self._throttled_s is not None:
                throttled = reading.throttled_s - self._throttled_s
            self._throttled_s = reading.throttled_s
        self._at = now
        self._last = Usage(max(0.0, spent / elapsed), memory / MB, len(found), min(1.0, max(0.0, throttled / elapsed)))
        return self._last

    def _read_tree(self) -> dict[tuple[int, float], ProcessStat]:
        """What was there before is asked again: the kernel's list may miss a process whose sibling ends meanwhile, and all
        that it ever used would count for the interval in which it is seen again."""
        found = {process.key: process for process in tree_stats(self._pid)}
        for key in self._known.keys() - found.keys():
            if (process := read_stat(key[0])) is not None and process.key == key:
                found[key] = process
        return found


class MemoryWatchdog:
    """Detects that the tree below ``pid`` holds more than ``limit_mb``; 0: no limit.

    The sum of resident sizes counts shared pages once for each process, so it is only the cheap first look. What
    passes it is counted again by proportional sizes, where the system reports them.
    """

    def __init__(self, pid: int, limit_mb: int) -> None:
        self._pid = pid
        self.limit_mb = limit_mb  # may be changed

    def check(self) -> str | None:
        """None while all is well, else what happened, as text for people."""
        if self.limit_mb <= 0 or _resident_mb(self._pid) <= self.limit_mb:
            return None
        held = _proportional_mb(self._pid)
        if held <= self.limit_mb:
            return None
        return f"the program and its children use {held:.0f} MB, the node's limit is {self.limit_mb} MB"


def peak_of_children_mb() -> float:
    """The most that any ended child of this process, or of theirs, ever held; 0: not more than this process itself.

    Exact for a program of one process, where samples miss what comes between them. A child begins as a copy of this process,
    so the kernel counts the memory of this one for it too.
    """
    children, own = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF))
    return children * KB / MB if children > own else 0.0


def process_tree(pid: int) -> Iterator[psutil.Process]:
    """The process and all its descendants that are there now."""
    try:
        top = psutil.Process(pid)
        yield top
        yield from top.children(recursive=True)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return


def _resident_mb(pid: int) -> float:
    return sum(process.resident_bytes for process in tree_stats(pid)) / MB


def _proportional_mb(pid: int) -> float:
    total = 0
    for process in process_tree(pid):
        try:
            total += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
        except (psutil.AccessDenied, AttributeError):  # not ours, or no such figure on this system
            total += _own_rss(process)
    return total / MB


def _own_rss(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return 0
