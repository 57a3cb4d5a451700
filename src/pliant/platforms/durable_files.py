"""Files that several processes of a job share on one machine: JSON that is whole or not there, and locks of the living."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


def read_json(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def write_json(path: Path, value: dict[str, Any]) -> None:
    write_text(path, json.dumps(value, indent=1))


def write_text(path: Path, text: str) -> None:
    """Whole or not at all, also if the disk is full or the machine loses power."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def why_not_writable(folder: Path) -> str:
    """Why nothing can be put into a folder; empty if it can. Tried, since rights alone do not tell of a disk that is only read."""
    try:
        with TemporaryDirectory(dir=folder, prefix=".pliant-"):
            return ""
    except OSError as error:
        return error.strerror or str(error)


class FileLock:
    """Held by a living process, whatever happens: the kernel lets go when it dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    @property
    def fd(self) -> int:
        """For handing the lock on: whoever has a copy of this descriptor holds the lock."""
        assert self._fd is not None
        return self._fd

    def try_acquire(self) -> bool:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        self._fd = fd
        return True

    def wait(self) -> None:
        """Block until it is free, and take it."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        self._fd = fd

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def is_held(self) -> bool:
        """By anyone."""
        if self._fd is not None:
            return True
        if not self.try_acquire():
            return True
        self.release()
        return False
