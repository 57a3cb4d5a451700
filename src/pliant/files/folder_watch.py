"""Waiting for changes of a folder without looking again and again: inotify, where the system has it.

A process may have few watches open (128 per user by default), and network file systems report only what this machine does. So
whoever waits passes the longest time after which it looks anyway: short where there is no watch, longer where there is one.

``FolderWatch`` is a file descriptor and works with ``select`` and with asyncio alike.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import select
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_MODIFIED, _MOVED_TO, _CREATED = 0x2, 0x80, 0x100
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_BLOCK = 1 << 16  # bytes


class FolderWatch:
    """Reports that something in the folder is new, or (``writes``) that a file in it was written to."""

    def __init__(self, folder: Path, *, writes: bool = False) -> None:
        self._fd = _open(folder, _MOVED_TO | _CREATED | (_MODIFIED if writes else 0))

    @property
    def is_working(self) -> bool:
        """False: the system does not report changes here; only the time of a wait passes."""
        return self._fd >= 0

    def fileno(self) -> int:
        """Readable once something changed; only of one that works."""
        return self._fd

    def clear(self) -> None:
        """Forget the changes so far. Call it before looking, so that nothing is missed."""
        with suppress(BlockingIOError):
            while self._fd >= 0 and os.read(self._fd, _BLOCK):
                continue

    async def changed(self, timeout: float) -> None:
        """Return at the next change, or after so many seconds."""
        if self._fd < 0:
            await asyncio.sleep(timeout)
            return
        loop = asyncio.get_running_loop()
        seen = asyncio.Event()
        loop.add_reader(self._fd, seen.set)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await seen.wait()
        finally:
            loop.remove_reader(self._fd)

    def wait(self, timeout: float) -> bool:
        """The same for a thread; whether something changed."""
        if self._fd < 0:
            select.select([], [], [], timeout)
            return False
        return bool(select.select([self._fd], [], [], timeout)[0])

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _t: type[BaseException] | None, _e: BaseException | None, _b: TracebackType | None) -> None:
        self.close()


def _open(folder: Path, mask: int) -> int:
    """The descriptor; -1: this system does not report changes, or has no watch left."""
    libc = _libc()
    if libc is None:
        return -1
    fd = int(libc.inotify_init1(_FLAGS))
    if fd >= 0 and libc.inotify_add_watch(fd, os.fsencode(folder), mask) < 0:
        os.close(fd)
        return -1
    return fd


@cache
def _libc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None, use_errno=True)
    return library if hasattr(library, "inotify_init1") else None
