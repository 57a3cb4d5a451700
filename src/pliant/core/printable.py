"""Text that people did not write (names, messages, file names, output of programs), made safe to show on a terminal.

A terminal obeys what it is sent: escape sequences move the cursor over what was said before, set the title, write to the
clipboard or answer as if typed; direction marks show text in another order than it has. All of them are shown as Python writes
them in a string (``\\x1b``, ``\\u202e``). Tabs stay, line ends where there may be lines.
"""

from __future__ import annotations

import re

# C0 without tab and line feed, DEL and C1; direction marks; line and paragraph separators; halves of surrogate pairs.
_DANGEROUS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb"
)
_UNSAFE = re.compile(f"[{_DANGEROUS}]")
_UNSAFE_LINE = re.compile(f"[\n{_DANGEROUS}]")
_COLOUR = re.compile(r"\x1b\[[0-9;:]{0,64}m")


def escaped(text: str) -> str:
    """May have several lines."""
    return _UNSAFE.sub(_shown, text)


def escaped_line(text: str) -> str:
    """One line, whatever the text has: nobody can make it look like two."""
    return _UNSAFE_LINE.sub(_shown, text)


def escaped_output(line: str) -> str:
    """A line of a program: its colours (SGR sequences) stay, and of a bar that overwrote itself (``\\r``) the last state."""
    line = line.rstrip("\r\n").rpartition("\r")[2]
    parts, at = [], 0
    for colour in _COLOUR.finditer(line):
        parts += [escaped_line(line[at : colour.start()]), colour.group()]
        at = colour.end()
    return "".join([*parts, escaped_line(line[at:])])


def _shown(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode()
