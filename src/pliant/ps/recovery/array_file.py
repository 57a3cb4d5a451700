"""A safetensors file written array by array, so that no more than one of them has to be in memory.

The format begins with a header that names all arrays. Room for it is left at the beginning and filled in at the end, the rest of it
with spaces, which readers skip. Where the room does not suffice, what was written is copied behind a larger one.

Neighbour: ``dumps``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

ARRAY_BYTES = 160  # of the header, for one array
_TYPES = {"int64": "I64", "float32": "F32", "uint32": "U32"}


def write_arrays(path: Path, arrays: Iterable[tuple[str, np.ndarray[Any, Any]]], *, expected: int) -> int:
    """``expected``: how many there are, about; returns the bytes of the file."""
    room = _rounded(ARRAY_BYTES * (expected + 1))
    header: dict[str, dict[str, Any]] = {}
    end = 0
    with path.open("wb") as file:
        file.write(bytes(8 + room))
        for name, array in arrays:
            data = np.ascontiguousarray(array)
            data.tofile(file)
            offsets = [end, end + data.nbytes]
            header[name] = {"dtype": _TYPES[str(data.dtype)], "shape": list(data.shape), "data_offsets": offsets}
            end += data.nbytes
        text = json.dumps(header, separators=(",", ":")).encode()
        if len(text) <= room:
            file.seek(0)
            file.write(room.to_bytes(8, "little") + text.ljust(room))
            return 8 + room + end
    return _with_more_room(path, text, 8 + room) + end


def _with_more_room(path: Path, header: bytes, skipped: int) -> int:
    """Returns the bytes before the arrays."""
    room = _rounded(len(header))
    larger = path.with_name(f"{path.name}.larger")
    try:
        with path.open("rb") as source, larger.open("wb") as target:
            source.seek(skipped)
            target.write(room.to_bytes(8, "little") + header.ljust(room))
            shutil.copyfileobj(source, target, 1 << 22)
        larger.replace(path)
    finally:
        larger.unlink(missing_ok=True)
    return 8 + room


def _rounded(size: int) -> int:
    return size + -size % 8
