"""The files of the front end, which are part of the package: looked up in a list, so that no path of a request becomes one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
    ".json": "application/json",
    ".map": "application/json",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True)
class StaticFile:
    content: bytes
    media_type: str
    etag: str


def static_names() -> list[str]:
    """All files, by their path below ``static``."""
    return sorted(_walk(files("pliant.dashboard").joinpath("static"), ""))


def read_static(name: str) -> bytes:
    return files("pliant.dashboard").joinpath("static", *name.split("/")).read_bytes()


@cache
def _index() -> frozenset[str]:
    return frozenset(static_names())


def find_static(path: str) -> StaticFile | None:
    if path not in _index():
        _index.cache_clear()  # a file that is new, while somebody works on the front end
        if path not in _index():
            return None
    content = read_static(path)
    media_type = MEDIA_TYPES[path[path.rindex(".") :]]
    return StaticFile(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


def _walk(folder: Traversable, prefix: str) -> list[str]:
    found: list[str] = []
    if not folder.is_dir():
        return found
    for entry in folder.iterdir():
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            found += _walk(entry, f"{prefix}{entry.name}/")
        elif "." in entry.name and entry.name[entry.name.rindex(".") :] in MEDIA_TYPES:
            found.append(f"{prefix}{entry.name}")
    return found
