"""Documents as bytes: JSON, and messages of a stream of server-sent events."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def to_bytes(document: Any) -> bytes:
    """Strict JSON: a number that JSON has no word for becomes null."""
    try:
        return _dump(document)
    except ValueError:
        return _dump(_finite(document))


def message(event: str, data: bytes, position: str = "") -> bytes:
    """``data`` is JSON, which has no line breaks of its own."""
    head = f"id: {position}\n" if position else ""
    return f"{head}event: {event}\ndata: ".encode() + data + b"\n\n"


def _dump(document: Any) -> bytes:
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace")  # half of a surrogate pair is a question mark


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
