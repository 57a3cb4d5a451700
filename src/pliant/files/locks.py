"""Advisory file locks (flock) that the kernel releases when their holder dies, however it dies.

So a lock that is held proves that its holder lives. A lock belongs to an open file, not to a process: a child that inherits the
descriptor holds it too, which is how a lock is handed over without a gap.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self


class FileLock:
    def __init__(self, path: Path, *, shared: bool = False) -> None:
        """``shared``: any number of holders, but none beside an exclusive one."""
        self._path = path
        self._operation = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        self._fd: int | None = None

    @property
    def fd(self) -> int:
        """The descriptor to hand over: whoever has a copy of it holds the lock."""
        assert self._fd is not None
        return self._fd

    @property
    def is_acquired(self) -> bool:
        """Whether this object holds it."""
        return self._fd is not None

    def try_acquire(self) -> bool:
        fd = self._open()
        try:
            fcntl.flock(fd, self._operation | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        self._fd = fd
        return True

    def acquire(self) -> None:
        """Block until it is free."""
        fd = self._open()
        fcntl.flock(fd, self._operation)
        self._fd = fd

    def release(self) -> None:
        """Does nothing if it is not acquired."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def is_held(self) -> bool:
        """Whether anyone holds it, in any process. Creates no file."""
        if self._fd is not None:
            return True
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        probe = fcntl.LOCK_SH if self._operation == fcntl.LOCK_EX else fcntl.LOCK_EX
        try:
            fcntl.flock(fd, probe | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _open(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
