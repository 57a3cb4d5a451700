"""Atomic file replacement: a reader sees the old content or the new one, never a part of it.

The content goes to a hidden temporary file in the same folder, is flushed to the disk (fsync) and renamed. A process that is
killed in between leaves the target as it was, and at worst the temporary file. Several writers of one target do not disturb
each other: temporary names are random, since processes of two Pods on one volume may have the same pid.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import IO, Any

from pliant.core.errors import CorruptData
from pliant.files.regular import MAX_JSON_BYTES, read_bytes

HIDDEN = "."  # names that begin so are unfinished


class AtomicFile:
    """A binary file that appears under its name with ``commit()``, or when the ``with`` block ends without an exception.

    ``mode``: permissions, less the umask. ``durable=False`` omits the fsync: for caches and files in memory.
    ``sync_folder=True`` makes the new name durable too, not only the content. ``overwrite=False``: if the target appears in
    the meantime, that one stays and this one is dropped.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: int = 0o666,
        durable: bool = True,
        sync_folder: bool = False,
        overwrite: bool = True,
    ) -> None:
        self._path = Path(path)
        self._durable = durable
        self._sync_folder = sync_folder
        self._overwrite = overwrite
        self.temporary = temporary_path(self._path)
        self.is_open = True
        descriptor = os.open(self.temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        self.file: IO[bytes] = os.fdopen(descriptor, "wb")

    def commit(self) -> None:
        """Rename it to its target. Raises ``OSError``, and removes the temporary file, if that fails."""
        try:
            self.file.flush()
            if self._durable:
                os.fsync(self.file.fileno())
            self.file.close()
            _publish(self.temporary, self._path, overwrite=self._overwrite)
        except BaseException:
            self.discard()
            raise
        self.is_open = False
        if self._sync_folder:
            sync_folder(self._path.parent)

    def discard(self) -> None:
        """Remove what was written; the target stays as it was. Does nothing after ``commit()``."""
        if not self.is_open:
            return
        self.is_open = False
        with contextlib.suppress(OSError):  # what could not be flushed is not wanted any more
            self.file.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.temporary)

    def __enter__(self) -> IO[bytes]:
        return self.file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
        else:
            self.discard()


@contextlib.contextmanager
def atomic_path(path: Path, *, folder: Path | None = None, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary path to write to, for writers that take a path; it replaces ``path`` when the block ends.

    ``folder``: where the temporary file is, on the same file system; beside the target by default.
    """
    temporary = temporary_path(path if folder is None else folder / path.name)
    try:
        yield temporary
        if durable:
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
        _publish(temporary, path, overwrite=True)
        if durable:
            sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def temporary_path(path: Path) -> Path:
    """Beside ``path``, hidden, and not used by any other writer."""
    return path.with_name(f"{HIDDEN}{path.name}.{token_hex(6)}")


def _publish(temporary: Path, path: Path, *, overwrite: bool) -> None:
    if overwrite:
        os.replace(temporary, path)
        return
    with contextlib.suppress(FileExistsError):
        os.link(temporary, path)
    os.unlink(temporary)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable: those created, renamed and removed."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_bytes(path: Path, content: bytes, *, mode: int = 0o666, durable: bool = True, overwrite: bool = True) -> None:
    with AtomicFile(path, mode=mode, durable=durable, overwrite=overwrite) as file:
        file.write(content)


def write_text(path: Path, text: str, *, mode: int = 0o666) -> None:
    write_bytes(path, text.encode(), mode=mode)


def write_json(path: Path, value: Mapping[str, Any], *, durable: bool = True) -> None:
    write_bytes(path, json.dumps(value, indent=1).encode(), durable=durable)


def write_output(path: Path, text: str) -> None:
    """To a path that a user named: a file appears whole or not at all, and what a link points to is replaced, not the link. A
    device or a pipe is written, since root could replace it by a file."""
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8") as special:
            special.write(text)
    else:
        write_text(Path(os.path.realpath(path)), text)


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a file, or None if there is no such file or it holds something else, be it a FIFO or a gigabyte."""
    try:
        value = json.loads(read_bytes(path, MAX_JSON_BYTES))
    except (FileNotFoundError, CorruptData, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def write_problem(folder: Path) -> str:
    """Why nothing can be created in a folder; empty if it can.

    Tried out, since permissions do not tell whether a file system is mounted read-only.
    """
    try:
        with TemporaryDirectory(dir=folder, prefix=".pliant-"):
            return ""
    except OSError as error:
        return error.strerror or str(error)
