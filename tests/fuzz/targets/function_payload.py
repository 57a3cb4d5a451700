"""The file in which a function travels: its header, before any of it is unpickled."""

from __future__ import annotations

from pathlib import Path

from pliant.api.functions.packing import pack
from pliant.api.functions.payload import Payload
from pliant.api.functions.values import decode


class Fuzz:
    name = "function_payload"

    def seeds(self) -> list[bytes]:
        plain = pack(print, (1, (2.5, float("nan")), {"a": [None, b"x"]}), {"sep": "-"}, has_path=True)
        return [plain.payload.to_bytes()]

    def check(self, data: bytes, folder: Path) -> None:
        payload = Payload.from_bytes(data, "the payload")
        if payload.arguments is not None:
            decode(payload.arguments, {}, "the payload")
