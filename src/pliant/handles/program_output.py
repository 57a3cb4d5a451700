"""The programs' output as it is written, and how a line of it is printed: prefixed with its node's name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from pliant.files.folder_watch import FolderWatch
from pliant.handles.job_handle import LinePrinter

NOT_PROGRAMS = {"master.log", "agents.log"}
_BLOCK = 1 << 16  # bytes
_MAX_AT_ONCE = 1 << 20  # bytes of one file per call of ``show_new``; a program that floods does not stall the display


class OutputTail:
    """Shows what was added to the log files since the last call."""

    def __init__(
        self,
        logs: Path,
        printer: LinePrinter,
        *,
        nodes: frozenset[str] | None = None,
        hidden_roles: frozenset[str] = frozenset(),
    ) -> None:
        """``nodes``: these alone; else all programs but those of the hidden roles."""
        self._logs = logs
        self._hidden_roles = hidden_roles
        self._printer = printer
        self._nodes = nodes
        self._read: dict[str, int] = {}
        self._rest: dict[str, bytes] = {}  # an unfinished last line
        self._watch = FolderWatch(logs, writes=True)

    def fileno(self) -> int:
        return self._watch.fileno()

    def skip_to_last(self, lines: int) -> None:
        """Start with the last ``lines`` lines of each file."""
        for path in self._files():
            with path.open("rb") as file:
                self._read[path.name] = start_of_last(file, lines)

    def show_new(self) -> bool:
        """Returns whether there was anything."""
        self._watch.clear()
        shown = False
        for path in self._files():
            for line in self._new_lines(path):
                self._printer(path.stem, line)
                shown = True
        return shown

    def finish(self) -> None:
        """Print unfinished last lines too."""
        for name, rest in self._rest.items():
            if rest:
                self._printer(Path(name).stem, rest.decode(errors="replace"))
        self._rest.clear()
        self._watch.close()

    def _files(self) -> list[Path]:
        found = sorted(self._logs.glob("*.log"), key=lambda path: (len(path.name), path.name))
        return [path for path in found if self._is_shown(path)]

    def _is_shown(self, path: Path) -> bool:
        if self._nodes is not None:
            return path.stem in self._nodes
        return path.name not in NOT_PROGRAMS and role_of(path.stem) not in self._hidden_roles

    def _new_lines(self, path: Path) -> list[str]:
        at = self._read.get(path.name, 0)
        try:
            with path.open("rb") as file:
                file.seek(at)
                content = file.read(_MAX_AT_ONCE)
        except FileNotFoundError:  # the job's folder was removed meanwhile
            return []
        if not content:
            return []
        self._read[path.name] = at + len(content)
        *lines, rest = (self._rest.get(path.name, b"") + content).split(b"\n")
        self._rest[path.name] = rest
        return [line.decode(errors="replace").rstrip("\r") for line in lines]


def role_of(node: str) -> str:
    return node.rpartition("-")[0]


def start_of_last(file: IO[bytes], lines: int, size: int | None = None) -> int:
    """Where the last ``lines`` lines begin of a file, or of its first ``size`` bytes; reads backwards."""
    if size is None:
        size = file.seek(0, os.SEEK_END)
    at, found = size, 0
    while at > 0 and lines > 0:
        step = min(at, _BLOCK)
        at -= step
        file.seek(at)
        block = file.read(step)
        end = len(block)
        if at + step == size and block.endswith(b"\n"):
            end -= 1  # the end of the last line begins no other
        while (end := block.rfind(b"\n", 0, end)) >= 0:
            found += 1
            if found == lines:
                return at + end + 1
    return 0 if lines > 0 else size
