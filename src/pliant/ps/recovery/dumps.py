"""Dumps: what one seat has after one order, as a file, and a model put together again from such files.

A seat writes ``seat-<n>.<random>.safetensors`` (arrays) and ``seat-<n>.json`` (what they are, and name and checksum of the
first), each whole or not there. So if two processes write the same part (one lost the seat while it was frozen, and woke up),
there is one whole part of the one or the other, never the arrays of one with the checksum of the other.

Of a table there are its ids, its rows with the state of their optimizer, and their counters; of a variable each block with its
state; an increment also names the rows that were evicted since the dump before.

``load`` yields the chunks of a whole chain (a full dump, then its increments) in order, filtered by the current owner: so a
dump can be restored on another number of servers. The error for a missing, truncated or damaged file names it.
"""

from __future__ import annotations

import json
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import length_hint
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from pliant.core.errors import CorruptData
from pliant.files.atomic import atomic_path
from pliant.files.regular import open_regular
from pliant.ps.files import FORMAT, arrays_of, chain_of, read_facts, read_manifest
from pliant.ps.payloads import BlockState, Evicted, RowBatch, StateChunk
from pliant.ps.recovery.array_file import write_arrays

READ_BYTES = 1 << 22  # at a time, for a checksum


def write_chunks(stem: Path, chunks: Iterable[StateChunk], *, facts: Mapping[str, Any]) -> int:
    """``stem`` with two suffixes; returns the bytes written. Raises ``OSError`` if the disk is full."""
    listed: list[dict[str, Any]] = []
    stem.parent.mkdir(parents=True, exist_ok=True)
    target = stem.with_name(f"{stem.name}.{secrets.token_hex(6)}.safetensors")
    with atomic_path(target) as temporary:
        write_arrays(temporary, _arrays(chunks, listed), expected=3 * length_hint(chunks))
        size, crc = _checksum(temporary)
    facts = {"format": FORMAT, **facts, "file": target.name, "chunks": listed, "bytes": size, "crc32": crc}
    try:
        with atomic_path(stem.with_suffix(".json")) as temporary:
            temporary.write_text(json.dumps(facts))
    except OSError:
        target.unlink(missing_ok=True)  # the next try has another name, and needs the room
        raise
    return size


def _arrays(chunks: Iterable[StateChunk], listed: list[dict[str, Any]]) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Of each chunk as it comes; what it is goes to ``listed``."""
    for at, chunk in enumerate(chunks):
        match chunk:
            case RowBatch(table=table, ids=ids, data=data, counters=counters):
                listed.append({"kind": "rows", "table": table})
                yield from ((f"{at}.ids", ids), (f"{at}.counters", counters), (f"{at}.data", data))
            case BlockState(variable=variable, block=block, data=data, changed=changed):
                listed.append({"kind": "block", "variable": variable, "block": block, "changed": changed})
                yield f"{at}.data", data
            case Evicted(table=table, ids=ids):
                listed.append({"kind": "evicted", "table": table})
                yield f"{at}.ids", ids


def is_whole(stem: Path) -> bool:
    """Whether it was written to the end; its arrays are not looked at."""
    try:
        facts = read_facts(stem)
        return bool(facts["bytes"] == arrays_of(stem, facts).stat().st_size)
    except (CorruptData, OSError):
        return False


def read_chunks(stem: Path) -> Iterator[StateChunk]:
    """Checks the whole file before the first chunk comes."""
    facts = read_facts(stem)
    path = arrays_of(stem, facts)
    try:
        size, crc = _checksum(path, facts["bytes"])
    except OSError as error:
        raise CorruptData(f"{path} cannot be read: {error}") from None
    if size != facts["bytes"] or crc != facts["crc32"]:
        raise CorruptData(
            f"{path} is corrupt: {size:,} bytes with checksum {crc}, not {facts['bytes']:,} with {facts['crc32']}"
        )
    try:
        with safe_open(path, framework="numpy") as file:
            for at, listed in enumerate(facts["chunks"]):
                try:
                    chunk = _chunk(file.get_tensor, at, listed)
                except (SafetensorError, KeyError, TypeError, ValueError, AttributeError) as error:
                    raise CorruptData(f"{path} is corrupt: chunk {at}: {error!s:.500}") from None
                yield chunk
    except (SafetensorError, OSError) as error:
        raise CorruptData(f"{path} is corrupt: {error}") from None


def load(dump: Path, seat: int | None, keep: Callable[[StateChunk], StateChunk | None]) -> Iterator[StateChunk]:
    """The chunks of a dump and of what it rests on, oldest first; ``seat``: only of its files. ``keep`` filters."""
    for link in chain_of(dump, read_manifest(dump)):
        for number in read_manifest(link).seats:
            if seat is not None and number != seat:
                continue
            for chunk in read_chunks(link / f"seat-{number}"):
                kept = keep(chunk)
                if kept is not None:
                    yield kept


def _chunk(get: Callable[[str], Any], at: int, listed: Mapping[str, Any]) -> StateChunk:
    """With arrays of the right types and lengths; that they fit a table is for the store to check."""
    match listed:
        case {"kind": "rows", "table": str(table)}:
            ids = _array(get(f"{at}.ids"), np.int64, None)
            data = _array(get(f"{at}.data"), np.float32, ids.size, None)
            return RowBatch(table, ids, data, _array(get(f"{at}.counters"), np.uint32, ids.size, 2))
        case {"kind": "block", "variable": str(variable), "block": int(block), "changed": int(changed)}:
            return BlockState(variable, block, _array(get(f"{at}.data"), np.float32, None, None), changed)
        case {"kind": "evicted", "table": str(table)}:
            return Evicted(table, _array(get(f"{at}.ids"), np.int64, None))
    raise ValueError(f"{listed!r:.200} is not a chunk")


def _array(array: np.ndarray[Any, Any], kind: type, *shape: int | None) -> np.ndarray[Any, Any]:
    """``shape``: the length of each axis, None for any."""
    fits = len(array.shape) == len(shape) and all(w in (None, n) for n, w in zip(array.shape, shape, strict=True))
    if array.dtype != kind or not fits:
        raise ValueError(f"an array of {array.dtype} and shape {array.shape}")
    return array


def _checksum(path: Path, max_bytes: int | None = None) -> tuple[int, int]:
    """Size and checksum; reading ends once there is more than ``max_bytes``."""
    size = crc = 0
    with open_regular(path) as file:
        while data := file.read(READ_BYTES):
            size += len(data)
            crc = zlib.crc32(data, crc)
            if max_bytes is not None and size > max_bytes:
                break
    return size, crc
