"""Files that others may have put there: opened without waiting, read up to a limit, and only if they are plain files.

A name can lead to a FIFO (opening it waits for a writer), to ``/dev/zero`` (it never ends) or to a directory. All of them are
opened without blocking, looked at through the descriptor, and refused as ``CorruptData``. Nothing is decided by the name alone,
so that nobody can exchange the file between the look and the reading.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import IO

from pliant.core.errors import CorruptData

MAX_JSON_BYTES = 16 << 20
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a symbolic link",
}
# What the file itself is the reason for, unlike a full table of open files.
_OF_THE_FILE = {
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENODEV,
    errno.ENOTDIR,
    errno.ENXIO,
}


def open_regular(path: str | os.PathLike[str], *, follow_symlinks: bool = True) -> IO[bytes]:
    """Open for reading. Raises ``FileNotFoundError``, or ``CorruptData`` for what is not a plain file that can be read."""
    name = os.fspath(path)
    try:
        descriptor = os.open(name, _FLAGS | (0 if follow_symlinks else os.O_NOFOLLOW))
    except OSError as error:
        raise damage(error, name) from None
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise CorruptData(f"{name} is {_KINDS.get(stat.S_IFMT(mode), 'a special file')}, not a regular file")
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def damage(error: OSError, name: str) -> Exception:
    """What to raise for an ``OSError``: ``CorruptData`` if the file is its reason, else the error as it is."""
    if error.errno in _OF_THE_FILE:
        return CorruptData(f"{name} cannot be read: {error.strerror}")
    return error


def read_bytes(path: str | os.PathLike[str], max_bytes: int, *, follow_symlinks: bool = True) -> bytes:
    """The whole content. Raises what ``open_regular`` raises, and ``CorruptData`` if there is more than ``max_bytes``."""
    with open_regular(path, follow_symlinks=follow_symlinks) as file:
        try:
            content = file.read(max_bytes + 1)
        except OSError as error:
            raise damage(error, os.fspath(path)) from None
    if len(content) > max_bytes:
        raise CorruptData(f"{os.fspath(path)} has more than {max_bytes:,} bytes")
    return content
