"""The protocol between the executor and its processes: JSON objects, each behind its length (4 bytes, big endian).

Executor to process: ``{"history": ...}`` (kept until the next one; no answer), ``{"load": NAME}``, ``{"ask": NAME, "now": ...}``.
Process to executor: first ``{"ready": true}``, then one answer to each of the latter two, with the ``number`` of what it answers.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from pliant.core.errors import CorruptData

HEADER = struct.Struct(">I")
MAX_REQUEST_BYTES = 256 << 20
MAX_ANSWER_BYTES = 1 << 20


def frame(message: dict[str, Any]) -> bytes:
    content = json.dumps(message, separators=(",", ":")).encode("ascii")
    return HEADER.pack(len(content)) + content


def length_of(header: bytes, limit: int) -> int:
    length: int = HEADER.unpack(header)[0]
    if length > limit:
        raise CorruptData(f"a message of {length} bytes, at most {limit} are allowed")
    return length


def message_of(content: bytes) -> dict[str, Any]:
    try:
        message = json.loads(content)
    except (ValueError, RecursionError):
        raise CorruptData("a message that is not JSON") from None
    if not isinstance(message, dict):
        raise CorruptData(f"a message that is not an object but {type(message).__name__}")
    return message
