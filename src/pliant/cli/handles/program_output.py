"""The programs' output as it is written, each line prefixed with its node's name."""

from __future__ import annotations

import os
from pathlib import Path

from rich.console import Console
from rich.text import Text

NOT_PROGRAMS = {"master.log", "agents.log"}
_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_green", "bright_magenta")
_BLOCK = 1 << 16  # bytes
_MAX_AT_ONCE = 1 << 20  # bytes of one file per call of ``show_new``; a program that floods does not stall the display


class OutputTail:
    """Prints what was added to the log files since the last call."""

    def __init__(self, logs: Path, console: Console, *, nodes: frozenset[str] | None = None) -> None:
        self._logs = logs
        self._console = console
        self._nodes = nodes
        self._read: dict[str, int] = {}
        self._rest: dict[str, bytes] = {}  # an unfinished last line

    def skip_to_last(self, lines: int) -> None:
        """Start with the last ``lines`` lines of each file."""
        for path in self._files():
            self._read[path.name] = _start_of_last(path, lines)

    def show_new(self) -> bool:
        """Returns whether there was anything."""
        shown = False
        for path in self._files():
            for line in self._new_lines(path):
                print_line(self._console, path.stem, line)
                shown = True
        return shown

    def finish(self) -> None:
        """Print unfinished last lines too."""
        for name, rest in self._rest.items():
            if rest:
                print_line(self._console, Path(name).stem, rest.decode(errors="replace"))
        self._rest.clear()

    def _files(self) -> list[Path]:
        found = sorted(self._logs.glob("*.log"), key=lambda path: (len(path.name), path.name))
        return [p for p in found if (p.name not in NOT_PROGRAMS if self._nodes is None else p.stem in self._nodes)]

    def _new_lines(self, path: Path) -> list[str]:
        at = self._read.get(path.name, 0)
        with path.open("rb") as file:
            file.seek(at)
            content = file.read(_MAX_AT_ONCE)
        if not content:
            return []
        self._read[path.name] = at + len(content)
        *lines, rest = (self._rest.get(path.name, b"") + content).split(b"\n")
        self._rest[path.name] = rest
        return [line.decode(errors="replace").rstrip("\r") for line in lines]


def print_line(console: Console, node: str, line: str) -> None:
    number = int(node.rpartition("-")[2]) if node.rpartition("-")[2].isdigit() else 0
    text = Text(f"{node} | ", style=_COLOURS[number % len(_COLOURS)])
    text.append(line, style="default")
    console.print(text)


def _start_of_last(path: Path, lines: int) -> int:
    """Where the last ``lines`` lines begin; reads backwards from the end of the file."""
    with path.open("rb") as file:
        at = size = file.seek(0, os.SEEK_END)
        found = 0
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
