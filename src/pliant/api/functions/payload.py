"""The file in which a function travels, and every check before anything of it is loaded.

    pliant-function 1
    {"stamps": {"python": "3.13", …}, "function": {"module": …, "qualname": …}, "arguments": …, "body_bytes": …}
    the pickle, if there is one

The file is its owner's alone, and its SHA-256 is part of the job's command: what was put in its place since is refused unread. The
stamps are compared before a pickle is loaded, since code of another minor version of Python crashes the interpreter. A function
that can be imported, with arguments that JSON can express, has no pickle and so no stamps to fear.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pliant import __version__
from pliant.api.functions.references import FunctionReference
from pliant.core.errors import Conflict, CorruptData
from pliant.files.private import OTHERS, is_trusted, user_name
from pliant.files.regular import open_regular
from pliant.platforms.kubernetes.names import FILES_FOLDER

MAGIC = b"pliant-function 1\n"
FILE_NAME = "function.pliant"
SENT_FILES = "files"  # beside it, in the job's folder
MAX_FILE_BYTES = 8 << 20  # more than is ever written
REPLACED = "submit the function again; only Pliant writes this file"


@dataclass(frozen=True)
class Stamps:
    """What a pickle depends on."""

    python: str
    implementation: str
    cloudpickle: str
    pliant: str

    @classmethod
    def here(cls) -> Stamps:
        try:
            cloudpickle = version("cloudpickle")
        except PackageNotFoundError:
            cloudpickle = "none"
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        return cls(python, platform.python_implementation(), cloudpickle, __version__)

    def check(self, where: str) -> None:
        """Raises ``Conflict`` if what was pickled with these must not be loaded here."""
        here = Stamps.here()
        names = {"python": "Python", "implementation": "Python", "cloudpickle": "cloudpickle", "pliant": "Pliant"}
        for name, shown in names.items():
            theirs, ours = getattr(self, name), getattr(here, name)
            if theirs != ours:
                raise Conflict(
                    f"{where} was pickled with {shown} {theirs}, and this is {shown} {ours}",
                    hint=f"use the same {shown} on both sides, or put the function into a module that can be imported:"
                    " then nothing is pickled",
                )


@dataclass(frozen=True)
class Payload:
    label: str  # the function's name, for people
    stamps: Stamps
    function: FunctionReference | None  # None: in the body
    arguments: Any = None  # as JSON, see ``values``; None: in the body
    path: tuple[str, ...] = ()  # the import path where it was submitted, if the workers have the same files
    sources: Mapping[str, str] = field(default_factory=dict)  # of pickled functions, for tracebacks
    body: bytes = field(default=b"", repr=False)

    def to_bytes(self) -> bytes:
        header = {
            "label": self.label,
            "stamps": vars(self.stamps),
            "function": (
                {"module": self.function.module, "qualname": self.function.qualname} if self.function else None
            ),
            "arguments": self.arguments,
            "path": list(self.path),
            "sources": dict(self.sources),
            "body_bytes": len(self.body),
        }
        return MAGIC + json.dumps(header).encode() + b"\n" + self.body

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> Payload:
        """Raises ``CorruptData`` for what ``to_bytes`` does not make. Nothing is unpickled."""
        if not content.startswith(MAGIC):
            raise CorruptData(f"{where} is not a function of this version of Pliant")
        line, newline, body = content.removeprefix(MAGIC).partition(b"\n")
        try:
            header = json.loads(line)
            function = header["function"]
            made = cls(
                str(header["label"]),
                Stamps(**header["stamps"]),
                FunctionReference(str(function["module"]), str(function["qualname"])) if function else None,
                header["arguments"],
                tuple(str(entry) for entry in header["path"]),
                {str(name): str(text) for name, text in header["sources"].items()},
                body,
            )
            body_bytes = int(header["body_bytes"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
            raise CorruptData(f"{where} is corrupt or truncated") from None
        if not newline or len(body) != body_bytes:
            raise CorruptData(f"{where} is truncated")
        if not body and (made.function is None or made.arguments is None):
            raise CorruptData(f"{where} has neither a function nor a reference to one")
        return made


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read_checked(path: Path, digest: str) -> Payload:
    """Owner, mode and hash are those of the bytes that are used: the file is opened once. Raises ``Conflict``."""
    content = read_private(path, MAX_FILE_BYTES, what="the function of the job")
    if digest_of(content) != digest:
        raise Conflict(f"{path} was changed after the job was submitted: its SHA-256 is another one", hint=REPLACED)
    payload = Payload.from_bytes(content, str(path))
    if payload.body:
        payload.stamps.check(f"{payload.label} in {path}")
    return payload


def read_private(path: Path, max_bytes: int, *, what: str) -> bytes:
    """A plain file that only its owner can write or read, who is this user (or root, as files are that a Pod mounts)."""
    try:
        with open_regular(path, follow_symlinks=_is_mounted(path)) as file:
            found = os.fstat(file.fileno())
            mode = stat.S_IMODE(found.st_mode)
            forbidden = 0o022 if _is_mounted(path) else OTHERS
            if not _is_own(found, forbidden, mounted=_is_mounted(path)):
                whose = f"belongs to {user_name(found.st_uid)}, mode {mode:04o}"
                raise Conflict(f"{path}, {what}, is not private to this user: it {whose}", hint=REPLACED)
            content = file.read(max_bytes + 1)
    except FileNotFoundError:
        raise Conflict(f"{path}, {what}, does not exist", hint=REPLACED) from None
    except CorruptData as error:
        raise Conflict(f"{what} cannot be read: {error.message}", hint=REPLACED) from None
    if len(content) > max_bytes:
        raise Conflict(f"{path}, {what}, has more than {max_bytes:,} bytes", hint=REPLACED)
    return content


def _is_own(found: os.stat_result, forbidden: int, *, mounted: bool) -> bool:
    if mounted:
        return is_trusted(found, forbidden=forbidden)
    return found.st_uid == os.geteuid() and not found.st_mode & forbidden


def _is_mounted(path: Path) -> bool:
    """Files of a ConfigMap are links into a folder of the volume, and belong to root"""
    return path.is_relative_to(FILES_FOLDER)
