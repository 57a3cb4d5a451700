"""A master's Unix socket: where jobs of one machine talk, with no port that anyone else could reach or take.

It lies in the job's private folder, so the file system proves who listens and who calls. ``master.sock`` is replaced as a whole
by each master (bound under another name, then renamed): what a killed one left is never in the way, and a client that dials
again finds the successor.

The kernel takes paths of 107 bytes, and gRPC reads a path as part of a URL, in which ``#``, ``?``, ``%`` and ``,`` are no
letters. Any other path is dialled through a descriptor of its folder (``/proc/self/fd/N/master.sock``). Where a file system has
no sockets, they are in a private folder of the temporary folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import socket
import tempfile
from pathlib import Path
from secrets import token_hex
from typing import Any

from pliant.core.errors import MasterUnavailable, Unauthenticated
from pliant.files.private import FILE_MODE, is_trusted, make_private_folder
from pliant.files.reserve import DISK_ERRORS

SCHEME = "unix:"
SOCKET_NAME = "master.sock"
UNPUBLISHED = ".sock-"
MAX_PATH_BYTES = 107
PLAIN_PATH = re.compile(r"(/[\w.+@~-]+)+", re.ASCII)  # means the same to the kernel and in a URL
WRITABLE_BY_OTHERS = 0o022


def is_unix(target: str) -> bool:
    return target.startswith(SCHEME)


class ShortPath:
    """A name of a socket that the kernel and gRPC take, whatever its path is; valid until ``close``."""

    def __init__(self, path: Path) -> None:
        self._folder: int | None = None
        self.path = path
        if len(os.fsencode(path)) > MAX_PATH_BYTES or not PLAIN_PATH.fullmatch(str(path)):
            self._folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            self.path = Path(f"/proc/self/fd/{self._folder}/{path.name}")

    @property
    def target(self) -> str:
        return f"{SCHEME}{self.path}"

    def close(self) -> None:
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None


def dialled(target: str) -> ShortPath:
    """What to dial for ``unix:PATH``. Raises ``Unauthenticated`` if anyone but this user (or root) could listen there."""
    path = Path(target.removeprefix(SCHEME))
    try:
        folder = path.parent.stat()
        short = ShortPath(path)
    except OSError as error:
        raise MasterUnavailable(f"no master listens at {path}: {error.strerror}") from None
    if not is_trusted(folder, forbidden=WRITABLE_BY_OTHERS):
        short.close()
        raise Unauthenticated(
            f"{path.parent} belongs to another user or can be written by others, so the token is not sent to {path.name} there",
            hint="if the folder is yours, `chmod 700` it",
        )
    return short


class ServedSocket:
    """The socket of one master: bound, then published once it serves, and removed at its end."""

    def __init__(self, job_dir: Path, name: str = SOCKET_NAME) -> None:
        self.folder = _folder_for(job_dir)
        self.path = self.folder / name
        self._is_outside = self.folder != job_dir
        self._bound = self.folder / f"{UNPUBLISHED}{token_hex(4)}"
        self._short = ShortPath(self._bound)
        self._published: int | None = None  # its inode
        for left in self.folder.glob(f"{UNPUBLISHED}*"):  # of masters that were killed; the caller is the only one
            left.unlink(missing_ok=True)

    @property
    def target(self) -> str:
        return f"{SCHEME}{self.path}"

    def bind(self, server: Any) -> None:
        server.add_insecure_port(self._short.target)
        os.chmod(self._bound, FILE_MODE)

    def publish(self) -> None:
        self._published = self._bound.lstat().st_ino
        os.replace(self._bound, self.path)

    def close(self) -> None:
        """Does not touch what a successor published."""
        self._short.close()
        with contextlib.suppress(OSError):
            self._bound.unlink(missing_ok=True)
            if self._published is not None and self.path.lstat().st_ino == self._published:
                self.path.unlink()
                if self._is_outside:
                    self.folder.rmdir()


def _folder_for(job_dir: Path) -> Path:
    try:
        _try_out(job_dir)
        return job_dir
    except OSError as error:
        if error.errno in DISK_ERRORS:
            raise
    # The same one for every master of the job: its agents keep the address.
    shared = Path(tempfile.gettempdir()) / f"pliant-sockets-{os.geteuid()}"
    folder = shared / hashlib.sha256(os.fsencode(job_dir)).hexdigest()[:16]
    for made in (shared, folder):
        make_private_folder(made)
    return folder


def _try_out(folder: Path) -> None:
    """Raises ``OSError`` if no socket can be created there."""
    path = ShortPath(folder / f"{UNPUBLISHED}{token_hex(4)}")
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.bind(str(path.path))
        path.path.unlink()
    finally:
        path.close()
