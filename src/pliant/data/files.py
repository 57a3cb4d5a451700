"""Where the bytes are: local paths as they are, anything with a scheme (``s3://``, ``memory://``) through fsspec.

Local paths never touch fsspec, so that it stays optional and a local file can be memory-mapped.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from pliant.core.errors import InvalidRequest, NotFound
from pliant.data.errors import MissingLibrary
from pliant.files.regular import open_regular

PathLike = str | os.PathLike[str]
Paths = PathLike | Iterable[PathLike]

INDEX_SUFFIX = ".pliant-index"  # files that we write beside data; never data themselves


@dataclass(frozen=True, slots=True)
class Stamp:
    """What distinguishes one version of a file from another."""

    size: int
    changed: int  # ns since 1970; 0 where the file system does not say


def is_remote(path: PathLike) -> bool:
    return "://" in os.fspath(path)


def file_system(path: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError:
        raise MissingLibrary(f"the remote path {path}", "fsspec") from None
    fs, inner = fsspec.core.url_to_fs(path)
    return fs, cast(str, inner)


def expand(paths: Paths) -> list[str]:
    """The files that are meant by paths, folders and globs, sorted within each, without hidden ones."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    found: list[str] = []
    for one in [os.fspath(path) for path in given]:
        files = _expand_remote(one) if is_remote(one) else _expand_local(one)
        if not files:
            raise NotFound(
                f"no file found at {one}", hint="check the path; a directory or glob must contain at least one file"
            )
        found += files
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise InvalidRequest(
            f"{twice} is listed more than once", hint="remove the duplicate, so that records are counted once"
        )
    return found


def _visible(names: Iterable[str]) -> list[str]:
    return sorted(n for n in names if not Path(n).name.startswith((".", "_")) and not n.endswith(INDEX_SUFFIX))


def _expand_local(path: str) -> list[str]:
    if os.path.isfile(path):
        return [path]
    if os.path.isdir(path):
        return _visible(entry.path for entry in os.scandir(path) if entry.is_file())
    return _visible(name for name in glob.glob(path, recursive=True) if os.path.isfile(name))


def _expand_remote(path: str) -> list[str]:
    fs, inner = file_system(path)
    if fs.isfile(inner):
        return [path]
    names = fs.find(inner, maxdepth=1) if fs.isdir(inner) else fs.glob(inner)
    return [fs.unstrip_protocol(name) for name in _visible(names)]


def stamp(path: str) -> Stamp:
    if not is_remote(path):
        status = os.stat(path)
        return Stamp(status.st_size, status.st_mtime_ns)
    fs, inner = file_system(path)
    try:
        changed = int(fs.modified(inner).timestamp() * 1e9)
    except NotImplementedError:
        changed = 0
    return Stamp(int(fs.size(inner)), changed)


def open_binary(path: str) -> IO[bytes]:
    if not is_remote(path):
        return open_regular(path)
    fs, inner = file_system(path)
    return cast(IO[bytes], fs.open(inner, "rb"))


def local_path(path: str) -> str:
    """A name that C libraries can open: the path itself, or a copy of the remote file in fsspec's cache."""
    if not is_remote(path):
        return path
    import fsspec

    return cast(str, fsspec.open_local(f"simplecache::{path}", mode="rb"))
