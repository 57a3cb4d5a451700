"""The safetensors format, read and written without torch: a length, a JSON header, the tensors' bytes one after another.

Any tool that reads safetensors reads these files. Two things that the format leaves open are fixed here: tensors are ordered
by the size of their elements, largest first, and the header is padded so that data begins on a page. So every tensor lies
aligned in the file, and a mapped file can be used in place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from pliant.core.errors import CorruptData

PAGE = 4096
MAX_HEADER = 100_000_000  # bytes; the limit of the safetensors library
MAX_AXES = 64  # of a tensor; torch's limit
MAX_BYTES = 2**63 - 1
ITEM_BYTES = {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F8_E5M2": 1,
    "F8_E4M3": 1,
    "I16": 2,
    "U16": 2,
    "F16": 2,
    "BF16": 2,
    "I32": 4,
    "U32": 4,
    "F32": 4,
    "I64": 8,
    "U64": 8,
    "F64": 8,
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of a file. ``begin`` and ``end`` are bytes from the beginning of the data."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int = 0
    end: int = 0

    @property
    def nbytes(self) -> int:
        return ITEM_BYTES[self.dtype] * prod(self.shape)


@dataclass(frozen=True)
class Layout:
    """Where everything is in one file."""

    entries: tuple[Entry, ...]
    metadata: Mapping[str, str]
    data_begin: int  # bytes from the beginning of the file
    size: int  # bytes of the file

    def entry_at(self, offset: int) -> str:
        """What lies at that byte of the file, for people."""
        if offset < self.data_begin:
            return "the header"
        position = offset - self.data_begin
        return next((f"tensor {e.name}" for e in self.entries if e.begin <= position < e.end), "no tensor")


def arrange(entries: Iterable[Entry]) -> list[Entry]:
    """Assign offsets: by size of elements, else in the order given."""
    placed, at = [], 0
    for entry in sorted(entries, key=lambda entry: -ITEM_BYTES[entry.dtype]):
        placed.append(Entry(entry.name, entry.dtype, entry.shape, at, at + entry.nbytes))
        at += entry.nbytes
    return placed


def encode(placed: Iterable[Entry], metadata: Mapping[str, str], room: int = 0) -> bytes:
    """The beginning of the file, up to the data: a whole number of pages, and at least ``room`` bytes."""
    table: dict[str, Any] = {"__metadata__": dict(metadata)}
    for entry in placed:
        table[entry.name] = {"dtype": entry.dtype, "shape": entry.shape, "data_offsets": (entry.begin, entry.end)}
    text = json.dumps(table, separators=(",", ":")).encode()
    size = max(room, -(-(8 + len(text)) // PAGE) * PAGE)
    return (size - 8).to_bytes(8, "little") + text.ljust(size - 8)


def header_size(beginning: bytes, file: str) -> int:
    """Bytes before the data, from the first eight bytes of a file."""
    if len(beginning) < 8:
        raise CorruptData(f"{file} is truncated: {len(beginning)} bytes")
    length = int.from_bytes(beginning[:8], "little")
    if length > MAX_HEADER:
        raise CorruptData(f"{file}: its header cannot be {length} bytes long (bytes 0-7)")
    return 8 + length


def decode(header: bytes | memoryview, size: int, file: str) -> Layout:
    """What ``header`` (all bytes before the data) declares about a file of ``size`` bytes; rejects what is inconsistent."""
    begin = header_size(bytes(header[:8]), file)
    if len(header) < begin or size < begin:
        raise CorruptData(f"{file} is truncated inside its header: {min(len(header), size)} of {begin} bytes")
    try:
        table = json.loads(bytes(header[8:begin]))
        metadata = table.pop("__metadata__", {})
        entries = sorted((_entry(name, value) for name, value in table.items()), key=lambda e: (e.begin, e.end))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorruptData(f"{file}: its header (bytes 8-{begin}) is corrupt: {error!r}") from None
    at = 0
    for entry in entries:
        if entry.begin != at or entry.end - entry.begin != entry.nbytes:
            raise CorruptData(
                f"{file}: its header is corrupt: tensor {entry.name} cannot be at {entry.begin}-{entry.end}"
            )
        at = entry.end
    if begin + at != size:
        raise CorruptData(f"{file} has {size} bytes, its header declares {begin + at}")
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise CorruptData(f"{file}: its header is corrupt: metadata is not text")
    return Layout(tuple(entries), metadata, begin, size)


def _entry(name: str, value: Any) -> Entry:
    begin, end = value["data_offsets"]
    shape = tuple(value["shape"])
    fits = is_shape(shape) and is_shape((begin, end))
    if value["dtype"] not in ITEM_BYTES or not fits:
        raise ValueError(f"tensor {name:.200} of type {value['dtype']!r:.60} and shape {shape!r:.200}")
    return Entry(name, value["dtype"], shape, begin, end)


def is_shape(lengths: Sequence[Any]) -> bool:
    return len(lengths) <= MAX_AXES and all(type(n) is int and 0 <= n <= MAX_BYTES for n in lengths)
