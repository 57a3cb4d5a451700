"""Values from outside, made to fit their columns before a database does something of its own with them.

What identifies something (the name of a job or a node) is refused if it does not fit: cut, it could name something else. What only
people read is cut, and control characters are shown as escapes. Trailing spaces are refused in names, since MySQL ignores them.
"""

from __future__ import annotations

from math import isfinite

from pliant.brain.store.column_types import NAME, SENTENCE, WORD
from pliant.core.errors import InvalidRequest
from pliant.core.printable import escaped_line

MAX_COUNT = 1 << 53  # so that sums of thousands of them fit into a column, too
MAX_NUMBER = 1e300


def checked_name(value: str, what: str) -> str:
    if not value or len(value) > NAME or not value.isprintable() or value != value.strip():
        raise InvalidRequest(f"not the name of a {what}: {value[:40]!r}", hint=f"1 to {NAME} printable characters")
    return value


def name_or_none(value: str, what: str) -> str:
    return checked_name(value, what) if value else ""


def word(value: str) -> str:
    return _cut(value, WORD)


def label(value: str) -> str:
    """A name that identifies nothing: of a host, a program."""
    return _cut(value, NAME)


def sentence(value: str) -> str:
    return _cut(value, SENTENCE)


def number(value: float) -> float:
    if not isfinite(value) or abs(value) > MAX_NUMBER:
        raise InvalidRequest(f"not a measure or a time: {value}")
    return float(value)


def measure(value: float) -> float:
    """Of what there cannot be less than nothing: a time, a rate, cores."""
    if number(value) < 0:
        raise InvalidRequest(f"not a measure or a time: {value}")
    return float(value)


def maybe_number(value: float | None) -> float | None:
    return number(value) if value is not None else None


def count(value: int) -> int:
    if not -MAX_COUNT <= value <= MAX_COUNT:
        raise InvalidRequest(f"not a count: {value}")
    return int(value)


def tally(value: int) -> int:
    """Of what there cannot be less than none: records, nodes, megabytes."""
    if count(value) < 0:
        raise InvalidRequest(f"not a count: {value}")
    return int(value)


def _cut(value: str, longest: int) -> str:
    shown = escaped_line(value[: longest + 1])
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"
