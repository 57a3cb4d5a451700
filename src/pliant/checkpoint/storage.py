"""Where checkpoints are stored: a local folder, or any file system that fsspec knows (``s3://``, ``memory://``).

A local file appears whole or not at all (temporary name, fsync, rename, fsync of the folder). Remote stores have no such
rename: what is read there is only what a manifest or the note beside a part names, and both are written after the part.
Paths are relative to the root of the storage, with ``/``.

What is found there may have been put there by others: only regular files are read (``files/regular.py``), and a file or folder
that cannot be read is damaged (``CorruptData``), so that the checkpoints before it stay usable.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import IO, Any, Protocol

from pliant.core.errors import InvalidRequest, NotAvailable
from pliant.files.atomic import HIDDEN, AtomicFile, sync_folder
from pliant.files.regular import damage, open_regular

LIBRARIES = {  # by scheme
    **{"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs", "abfss": "adlfs"},
    **{"hdfs": "pyarrow", "http": "aiohttp", "https": "aiohttp", "sftp": "paramiko", "ssh": "paramiko"},
}
Bytes = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Item:
    name: str
    size: int
    is_folder: bool


class Storage(Protocol):
    """The whole contract of a store."""

    url: str

    def list(self, path: str = "") -> list[Item]:
        """Sorted by name, unfinished things too; nothing if there is no such folder. ``CorruptData``: it cannot be read."""

    def read(self, path: str, max_bytes: int | None = None) -> bytes:
        """The file, or its first bytes. Raises ``FileNotFoundError``, or ``CorruptData`` if it is no readable file."""

    def open(self, path: str) -> mmap.mmap | bytearray:
        """All bytes of a file, writable without effect on it; a local one is mapped."""

    def local_path(self, path: str) -> Path | None:
        """Where the file is on this machine; None: elsewhere."""

    def put(self, path: str, chunks: Iterable[Bytes], size: int) -> None:
        """Write a file; it appears whole or not at all where the store can do that."""

    def delete_file(self, path: str) -> None: ...

    def delete_folder(self, path: str) -> None: ...


class LocalStorage:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._root = Path(os.path.abspath(path))
        self.url = str(self._root)

    def list(self, path: str = "") -> list[Item]:
        found = []
        try:
            with os.scandir(self._root / path) as entries:
                for entry in entries:
                    try:
                        found.append(Item(entry.name, entry.stat().st_size, entry.is_dir()))
                    except OSError:
                        continue  # another node tidies up, or a link that leads nowhere
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise damage(error, str(self._root / path)) from None
        return sorted(found, key=lambda item: item.name)

    def read(self, path: str, max_bytes: int | None = None) -> bytes:
        with open_regular(self._root / path) as file:
            try:
                return file.read(-1 if max_bytes is None else max_bytes)
            except OSError as error:
                raise damage(error, str(self._root / path)) from None

    def open(self, path: str) -> mmap.mmap | bytearray:
        return map_file(self._root / path)

    def local_path(self, path: str) -> Path | None:
        return self._root / path

    def put(self, path: str, chunks: Iterable[Bytes], size: int) -> None:
        target = self._root / path
        if not target.parent.is_dir():
            os.makedirs(target.parent, exist_ok=True)
            sync_folder(target.parent.parent)
        with AtomicFile(target, mode=0o644, sync_folder=True) as file:
            reserve(file.fileno(), size)  # a full disk shows before the work, not after it
            for chunk in chunks:
                _write_all(file.fileno(), memoryview(chunk))

    def delete_file(self, path: str) -> None:
        try_delete(self._root / path)

    def delete_folder(self, path: str) -> None:
        """Gone at once for every reader, by a rename; then removed."""
        folder = self._root / path
        doomed = folder.with_name(f"{HIDDEN}deleting-{folder.name}.{token_hex(4)}")
        if not folder.name.startswith(HIDDEN):
            try:
                os.rename(folder, doomed)
            except FileNotFoundError:
                return
            folder = doomed
        for item in self.list(folder.name):
            try_delete(folder / item.name)
        try:
            os.rmdir(folder)
        except OSError:
            return  # someone else removes it too; what is left goes with the next tidying


class RemoteStorage:
    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError:
            raise NotAvailable(
                f"the checkpoint directory {url} needs fsspec",
                hint="pip install fsspec and the library for this storage (such as s3fs)",
            ) from None
        self.url = url.rstrip("/")
        self._fs: Any
        try:
            self._fs, self._root = fsspec.core.url_to_fs(self.url)
        except ImportError as error:
            scheme = url.partition("://")[0]
            library = LIBRARIES.get(scheme, f"the library for {scheme}://")
            raise NotAvailable(
                f"the checkpoint directory {url} needs {library}: {error}",
                hint=f"pip install {LIBRARIES.get(scheme, 'it')}, for the Python that runs the job; on Kubernetes, in the image",
            ) from error
        except ValueError as error:
            if "rotocol not known" not in str(error):
                raise
            raise InvalidRequest(
                f"the checkpoint directory {url} has an unknown scheme: {error}",
                hint="use a path, or a URL that fsspec knows, such as s3://bucket/folder",
            ) from error

    def _full(self, path: str) -> str:
        return f"{self._root.rstrip('/')}/{path}" if path else self._root

    def list(self, path: str = "") -> list[Item]:
        self._fs.invalidate_cache()
        try:
            found = self._fs.ls(self._full(path), detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        items = [
            Item(i["name"].rstrip("/").rpartition("/")[2], int(i["size"] or 0), i["type"] == "directory") for i in found
        ]
        return sorted(items, key=lambda item: item.name)

    def read(self, path: str, max_bytes: int | None = None) -> bytes:
        return bytes(self._fs.cat_file(self._full(path), end=max_bytes))

    def open(self, path: str) -> mmap.mmap | bytearray:
        return bytearray(self._fs.cat_file(self._full(path)))

    def local_path(self, path: str) -> Path | None:
        return None

    def put(self, path: str, chunks: Iterable[Bytes], size: int) -> None:
        full = self._full(path)
        self._fs.makedirs(full.rpartition("/")[0], exist_ok=True)
        with self._fs.open(full, "wb") as file:
            for chunk in chunks:
                file.write(chunk)

    def delete_file(self, path: str) -> None:
        try:
            self._fs.rm_file(self._full(path))
        except FileNotFoundError:
            return

    def delete_folder(self, path: str) -> None:
        """What makes it a checkpoint goes first, so that a half deleted one is not taken for whole."""
        names = [item.name for item in self.list(path)]
        for name in sorted(names, key=lambda name: (name != "manifest.json", not name.endswith(".json"), name)):
            self.delete_file(f"{path}/{name}")
        try:
            self._fs.rmdir(self._full(path))
        except (OSError, NotImplementedError):
            return  # object stores have no folders


def open_storage(directory: str | os.PathLike[str]) -> Storage:
    text = os.fspath(directory)
    if text.startswith("file://"):
        return LocalStorage(text.removeprefix("file://"))
    return RemoteStorage(text) if "://" in text else LocalStorage(text)


def map_file(path: Path) -> mmap.mmap | bytearray:
    with open_regular(path) as file:
        return map_open_file(file)


def map_open_file(file: IO[bytes]) -> mmap.mmap | bytearray:
    if os.fstat(file.fileno()).st_size == 0:
        return bytearray()
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


def reserve(file: int, size: int) -> None:
    """Room on the disk, or an error now."""
    if size:
        try:
            os.posix_fallocate(file, 0, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise


def try_delete(path: Path) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _write_all(file: int, data: memoryview) -> None:
    while data.nbytes:
        data = data[os.write(file, data) :]
