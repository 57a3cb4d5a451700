"""One page of memory that a program shares with its agent: where the program's time goes (``core/planning/time_spent.py``).

The agent creates the page (unnamed, sealed, so nothing is left behind and nobody can cut it off) and passes its path below
``/proc`` in the environment. The program adds seconds where its loop waits; the agent reads the totals when it samples. Nothing
is sent and nothing waits: counting costs a store of eight bytes, and a program without an agent counts into a page of its own.

Invariants: one process counts, and in it only the loop's thread (the main one), so what prefetches adds nothing; totals never
shrink; a wait that still goes on is counted up to the moment of the reading. Words are doubles at multiples of eight bytes, written
one at a time.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import multiprocessing
import os
import threading
import time
from enum import IntEnum
from functools import cache
from types import TracebackType

from pliant.core.planning.time_spent import TimeSpent

PAGE = mmap.PAGESIZE
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class _Word(IntEnum):
    BEGAN = 0  # when the program first counted; 0: not yet
    DATA = 1
    PEERS = 2
    UNIT = 3
    UNITS = 4
    WAITS_FOR = 5  # DATA or PEERS while the loop waits, else 0
    WAITS_SINCE = 6
    OWNER = 7  # the process that counts


class MeterPage:
    """The agent's side: a page for one run of its program."""

    def __init__(self) -> None:
        self._file = os.memfd_create("pliant-meter", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self._file, PAGE)
        fcntl.fcntl(self._file, fcntl.F_ADD_SEALS, _SEALS)
        self._memory = mmap.mmap(self._file, PAGE)
        self._words = memoryview(self._memory).cast("d")
        self.path = f"/proc/{os.getpid()}/fd/{self._file}"

    def read(self) -> TimeSpent:
        words, now = self._words, time.monotonic()
        totals = {word: words[word] for word in (_Word.DATA, _Word.PEERS)}
        waits_for, since = words[_Word.WAITS_FOR], words[_Word.WAITS_SINCE]
        if waits_for in totals and 0 < since <= now:
            totals[_Word(int(waits_for))] += now - since
        return TimeSpent(
            totals[_Word.DATA], totals[_Word.PEERS], words[_Word.UNIT], words[_Word.UNITS], words[_Word.BEGAN], now
        )

    def close(self) -> None:
        self._words.release()
        self._memory.close()
        os.close(self._file)


def open_meter() -> MeterPage | None:
    """None where the system has no such memory: the program then counts for nobody."""
    try:
        return MeterPage()
    except OSError:
        return None


class _Wait:
    """``with`` it around what may wait; the innermost does not count if an outer one does."""

    def __init__(self, meter: TimeMeter, word: _Word) -> None:
        self._meter, self._word = meter, word

    def __enter__(self) -> None:
        self._meter._begin(self._word)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._meter._end()


class TimeMeter:
    """The program's side."""

    def __init__(self, path: str | None = None) -> None:
        """Without a path, or where it cannot be opened, it counts for nobody."""
        self._words = memoryview(bytearray(PAGE)).cast("d")
        if path and multiprocessing.parent_process() is None:
            with contextlib.suppress(OSError, ValueError):
                self._claim(_map(path))
        self._thread = threading.main_thread().ident
        self._depth = 0
        self.data = _Wait(self, _Word.DATA)
        self.peers = _Wait(self, _Word.PEERS)

    def unit(self, seconds: float) -> None:
        """One unit of a step was computed, in so much time."""
        if threading.get_ident() != self._thread:
            return
        self._start()
        self._words[_Word.UNIT] += seconds
        self._words[_Word.UNITS] += 1

    def busy(self) -> float:
        """Seconds in which the loop did not wait, from some moment on; what lies between two readings is computing."""
        return time.monotonic() - self._words[_Word.DATA] - self._words[_Word.PEERS]

    def _claim(self, words: memoryview[float]) -> None:
        """The first process of a program counts; those that it starts wait in another loop than its own."""
        owner = int(words[_Word.OWNER])
        if owner and owner != os.getpid() and _is_alive(owner):
            return
        words[_Word.OWNER] = os.getpid()
        self._words = words
        os.register_at_fork(after_in_child=self._disown)

    def _disown(self) -> None:
        self._words = memoryview(bytearray(PAGE)).cast("d")

    def _start(self) -> None:
        if not self._words[_Word.BEGAN]:
            self._words[_Word.BEGAN] = time.monotonic()

    def _begin(self, word: _Word) -> None:
        if threading.get_ident() != self._thread:
            return
        self._depth += 1
        if self._depth == 1:
            self._start()
            self._words[_Word.WAITS_SINCE] = time.monotonic()
            self._words[_Word.WAITS_FOR] = word

    def _end(self) -> None:
        if threading.get_ident() != self._thread:
            return
        self._depth -= 1
        if self._depth == 0:
            word = int(self._words[_Word.WAITS_FOR])
            self._words[_Word.WAITS_FOR] = 0  # a reading in between misses this wait once, and never counts it twice
            self._words[word] += time.monotonic() - self._words[_Word.WAITS_SINCE]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _map(path: str) -> memoryview[float]:
    """Raises ``OSError`` or ``ValueError`` for anything but a page: the path outlives the run in the environment of what the
    program started, and then, or in another PID namespace, it means some other file of some other process."""
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if fcntl.fcntl(file, fcntl.F_GET_SEALS) != _SEALS or os.fstat(file).st_size != PAGE:
            raise ValueError(f"{path} is not a page of a meter")
        return memoryview(mmap.mmap(file, PAGE)).cast("d")
    finally:
        os.close(file)


@cache
def time_meter() -> TimeMeter:
    """Of this program."""
    from pliant.core.nodes.environment import NodeEnvironment

    return TimeMeter(NodeEnvironment.from_env(os.environ).meter)
