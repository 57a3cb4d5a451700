"""How the payload of a chunk is packed, and how far it can possibly expand.

The bound on expansion is a property of each format, so a small file can never make us ask for much memory: deflate reaches at
most 1032:1, snappy at most 64 bytes out of a copy element of 3. A limit on top of it bounds what an honest bomb may take.
"""

from __future__ import annotations

import zlib
from enum import Enum
from typing import Any

from pliant.core.errors import InvalidRequest
from pliant.data.errors import MissingLibrary

MAX_PAYLOAD = 1 << 30  # bytes after expansion; the family's own chunks have 32 MiB

_FIRST_WINDOW, _MAX_WINDOW = 1 << 8, 1 << 24  # bytes given to zlib at once
_GZIP = 16 + zlib.MAX_WBITS  # zlib's way to say "with a gzip header"


class Compression(Enum):
    NONE = "none"
    SNAPPY = "snappy"  # the framing format
    SNAPPY_BLOCK = "snappy block"  # the raw format, only in the older dialect
    GZIP = "gzip"


class ExpansionFailed(Exception):
    """A payload that is not what its compressor writes."""


_MOST = {Compression.NONE: 1, Compression.SNAPPY: 22, Compression.SNAPPY_BLOCK: 22, Compression.GZIP: 1032}


def most_expanded(compression: Compression, size: int) -> int:
    """The maximum of bytes that ``size`` bytes can expand to."""
    return size * _MOST[compression]


def named(name: str) -> Compression:
    writable = {c.value: c for c in (Compression.NONE, Compression.SNAPPY, Compression.GZIP)}
    if name not in writable:
        raise InvalidRequest(f"unknown compressor {name!r}", hint=f"one of: {', '.join(writable)}")
    if name == "snappy":
        _snappy()
    return writable[name]


def compress(compression: Compression, payload: bytes) -> bytes:
    if compression is Compression.SNAPPY:
        return bytes(_snappy().compress(payload))
    if compression is Compression.GZIP:
        return zlib.compress(payload, wbits=_GZIP)
    return payload


def expand(compression: Compression, data: memoryview, limit: int = MAX_PAYLOAD) -> bytes:
    if compression is Compression.GZIP:
        return _expand_gzip(data, limit)
    if compression is Compression.SNAPPY_BLOCK:
        _check_block_length(data, limit)
        return _call(_snappy().decompress_raw, data)
    _check_frames(data, limit)
    return _call(_snappy().decompress, data)


def _expand_gzip(data: memoryview, limit: int) -> bytes:
    """All members one after the other, as gzip allows."""
    parts: list[bytes] = []
    position = 0
    while position < len(data):
        member = zlib.decompressobj(_GZIP)
        window = _FIRST_WINDOW  # grows with the member: zlib copies what it is given and does not need
        while not member.eof:
            given = data[position : position + window]
            if not len(given):
                raise ExpansionFailed("the gzip payload is truncated")
            try:
                part = member.decompress(given, limit + 1)
            except zlib.error as error:
                raise ExpansionFailed(f"not gzip: {error}") from None
            limit -= len(part)
            if limit < 0:
                raise ExpansionFailed("the payload expands to more than the limit for one chunk")
            parts.append(part)
            position += len(given) - len(member.unused_data) - len(member.unconsumed_tail)
            window = min(2 * window, _MAX_WINDOW)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _check_block_length(data: memoryview, limit: int) -> int:
    """A raw snappy block begins with its length after expansion, seven bits a byte; check it before anyone allocates it."""
    length = 0
    for place, byte in enumerate(data[:5]):
        length |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            break
    if length > min(limit, most_expanded(Compression.SNAPPY_BLOCK, len(data))):
        raise ExpansionFailed(f"a snappy block of {len(data)} bytes cannot expand to {length}")
    return length


def _check_frames(data: memoryview, limit: int) -> None:
    """The framing format is a row of frames: a kind, a length of three bytes, and mostly a block behind a checksum of four."""
    position = 0
    while position + 4 <= len(data):
        kind, length = data[position], int.from_bytes(data[position + 1 : position + 4], "little")
        body = data[position + 4 : position + 4 + length]
        if kind == 0:
            limit -= _check_block_length(body[4:], limit)
        elif kind == 1:
            limit -= length
        if limit < 0:
            raise ExpansionFailed("the payload expands to more than the limit for one chunk")
        position += 4 + length


def _call(function: Any, data: memoryview) -> bytes:
    from cramjam import DecompressionError

    try:
        return bytes(function(data))
    except DecompressionError as error:
        raise ExpansionFailed(f"not snappy: {error}") from None


def _snappy() -> Any:
    try:
        import cramjam
    except ImportError:
        raise MissingLibrary("snappy", "cramjam") from None
    return cramjam.snappy
