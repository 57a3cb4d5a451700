"""What keeps a folder from being written, for people; and disk space set aside for the moment when there is no other.

A reserve is a file of zeros. Releasing it makes room for the few records that must be written on a full disk, such as that a
job was stopped. It is a best effort: a file system that copies on write, or other programs on the same disk, may take the room.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from pathlib import Path

RESERVE_BYTES = 1 << 20
DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})  # writing may work later
MIN_FREE_BYTES = 64 << 10  # with less, a file system counts as full: a journal needs a few blocks


def set_aside(path: Path, size: int = RESERVE_BYTES) -> bool:
    """Make the reserve if it is not there; False: there is no room for it, or no right to write."""
    try:
        if path.exists() and path.stat().st_size >= size:
            return True
        with path.open("wb") as file:
            file.write(bytes(size))  # written, not only allocated: not every file system can do the latter
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        return False
    return True


def release(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def disk_problem(folder: Path) -> str:
    """Why nothing can be written to a folder, as far as is known without writing; empty: nothing is known."""
    try:
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            return f"{folder} is on a read-only file system"
        if shutil.disk_usage(folder).free < MIN_FREE_BYTES:
            return f"the disk of {folder} is full"
    except FileNotFoundError:
        return f"{folder} was removed"
    except OSError as error:
        return f"{folder} cannot be read: {error.strerror}"
    return ""
