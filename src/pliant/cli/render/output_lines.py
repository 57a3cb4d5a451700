"""Lines that programs write, for people: each prefixed with its node's name, in a colour of its own; or as JSON, for programs."""

from __future__ import annotations

import json

from rich.console import Console
from rich.text import Text

from pliant.cli.render.console import output_text
from pliant.handles.job_handle import LinePrinter

_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "bright_cyan", "bright_green", "bright_magenta")


def for_people(console: Console) -> LinePrinter:
    def show(node: str, line: str) -> None:
        number = node.rpartition("-")[2]
        colour = _COLOURS[int(number) % len(_COLOURS) if number.isdecimal() and len(number) < 10 else 0]
        console.print(Text().append(f"{node} | ", style=colour).append_text(output_text(line)))

    return show


def print_json(node: str, line: str) -> None:
    print(json.dumps({"node": node, "line": line}), flush=True)
