"""JSON from a file as a frozen dataclass: every field there, of its type, and within bounds; anything else is ``CorruptData``.

Known types: ``int`` (0 to 2^63 - 1), ``float`` (finite), ``str`` (at most ``MAX_TEXT`` characters), ``bool`` and tuples of ``int``.
What a value means (a part less than the number of parts) is checked by its reader.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

from pliant.core.errors import CorruptData

MAX_INT = 2**63 - 1
MAX_TEXT = 4096  # characters

T = TypeVar("T")


def record_of(kind: type[T], value: Any, where: str) -> T:
    """``where`` is named in errors. Keys that are no fields are ignored: a later release may add some."""
    if not isinstance(value, Mapping):
        raise CorruptData(f"{where} is corrupt: expected an object, found {type(value).__name__}")
    found: dict[str, Any] = {}
    for name, wanted in get_type_hints(kind).items():
        if name not in value or not is_valid(value[name], wanted):
            raise CorruptData(f"{where} is corrupt: {name} is {_shown(value, name)}")
        found[name] = tuple(value[name]) if isinstance(value[name], list) else value[name]
    return kind(**found)


def parse_object(content: bytes, where: str) -> dict[str, Any]:
    """The JSON object in a file's content."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise CorruptData(f"{where} is corrupt or truncated") from None
    if not isinstance(value, dict):
        raise CorruptData(f"{where} is corrupt: expected an object, found {type(value).__name__}")
    return value


def is_valid(value: Any, wanted: Any) -> bool:
    if wanted is int:
        return type(value) is int and 0 <= value <= MAX_INT
    if wanted is float:
        return type(value) in (int, float) and abs(value) <= MAX_INT and math.isfinite(value)
    if wanted is str:
        return type(value) is str and len(value) <= MAX_TEXT
    if wanted is bool:
        return type(value) is bool
    if wanted == tuple[int, ...]:
        return type(value) is list and all(type(item) is int and 0 <= item <= MAX_INT for item in value)
    raise TypeError(f"{wanted} is not supported")


def _shown(value: Mapping[str, Any], name: str) -> str:
    return f"{value[name]!r:.60}" if name in value else "missing"
