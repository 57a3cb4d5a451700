"""Lines that programs write, for people: each prefixed with its node's name, in a colour of its own; or as JSON, for programs."""

from __future__ import annotations

import json

from rich.console import Console
from rich.text import Text

from pliant.cli.handles.job_handle import LinePrinter

_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_green", "bright_magenta")


def for_people(console: Console) -> LinePrinter:
    def show(node: str, line: str) -> None:
        number = int(node.rpartition("-")[2]) if node.rpartition("-")[2].isdigit() else 0
        text = Text(f"{node} | ", style=_COLOURS[number % len(_COLOURS)])
        text.append(line, style="default")
        console.print(text)

    return show


def print_json(node: str, line: str) -> None:
    print(json.dumps({"node": node, "line": line}), flush=True)
