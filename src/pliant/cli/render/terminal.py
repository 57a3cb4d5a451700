"""Lines for people, by commands that draw nothing: the way to the terminal without rich, which takes its time to import.

What people did not write (names, messages, file names) is escaped by ``say``; ``print`` is for JSON only. ``console`` is the same
for tables and live views. ``tests/cli/render/test_terminal.py`` holds all of ``pliant.cli`` to these two.
"""

from __future__ import annotations

import logging
import sys

from pliant.core.printable import escaped


def say(text: str, *, to_stderr: bool = False) -> None:
    """Print text, escaped. A character that the terminal's encoding does not have is shown by its number."""
    stream = sys.stderr if to_stderr else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    print(escaped(text).encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)


def warn(text: str) -> None:
    say(f"warning: {text}", to_stderr=True)


class EscapingFormatter(logging.Formatter):
    """For logs that are shown on a terminal: they name what others sent."""

    def format(self, record: logging.LogRecord) -> str:
        return escaped(super().format(record))
