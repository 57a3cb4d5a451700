"""The bytes of a chunk: two dialects of a 20-byte header, told apart, checked, and written.

Five u32, little-endian. The dialect that we write, and the older one::

    magic | CRC32 of payload  | compressor (0..2) | payload bytes     | records
    magic | records           | CRC32C of payload | compressor (1..3) | payload bytes

Which one it is stands in the fourth number. In the newer dialect that is the payload's size, which is 0 or at least 4 (one
record has a length of 4 bytes; a compressed payload has more than 4 bytes of framing), so 1, 2 and 3 can only be a compressor of
the older one. The checksum, which differs between them, then confirms it.

Nothing here believes a size: a header that the file or its own payload cannot hold is damage, before memory is asked for.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import Enum
from mmap import mmap
from typing import NamedTuple

from pliant.data.checksum import Bytes, crc32, crc32c
from pliant.data.recordio.compression import Compression, most_expanded

MAGIC = 0x01020304
MAGIC_BYTES = struct.pack("<I", MAGIC)
HEADER = struct.Struct("<5I")
LENGTH_BYTES = 4  # in front of every record


class ChunkDamage(Exception):
    """Why a chunk cannot be right. Whoever knows the file makes a ``CorruptData`` of it."""


class Dialect(Enum):
    CURRENT = "current"
    OLDER = "older"


_CURRENT = {0: Compression.NONE, 1: Compression.SNAPPY, 2: Compression.GZIP}
_OLDER = {1: Compression.NONE, 2: Compression.SNAPPY_BLOCK, 3: Compression.GZIP}
_CODES = {compression: code for code, compression in _CURRENT.items()}


class ChunkHeader(NamedTuple):  # not a dataclass: one is made for every chunk that is read, and a tuple is made faster
    dialect: Dialect
    compression: Compression
    checksum: int
    size: int  # of the payload as stored, in bytes
    records: int

    def verify(self, payload: Bytes) -> None:
        function: Callable[[Bytes], int] = crc32 if self.dialect is Dialect.CURRENT else crc32c
        if (found := function(payload)) != self.checksum:
            raise ChunkDamage(f"checksum of the payload is {found:08x}, the header says {self.checksum:08x}")


def parse_header(buffer: bytes | mmap, position: int, available: int) -> ChunkHeader:
    """The header at ``position``; ``available`` bytes of the file start there."""
    if available < HEADER.size:
        raise ChunkDamage(f"the file is truncated inside a header: {available} of {HEADER.size} bytes")
    magic, second, third, fourth, fifth = HEADER.unpack_from(buffer, position)
    if magic != MAGIC:
        raise ChunkDamage(f"no chunk starts here: found {magic:08x}, expected {MAGIC:08x}")
    if fourth in _OLDER:
        header = ChunkHeader(Dialect.OLDER, _OLDER[fourth], checksum=third, size=fifth, records=second)
    elif third in _CURRENT:
        header = ChunkHeader(Dialect.CURRENT, _CURRENT[third], checksum=second, size=fourth, records=fifth)
    else:
        raise ChunkDamage(
            f"unknown compressor {third}; known: {', '.join(f'{k} {c.value}' for k, c in _CURRENT.items())}"
        )
    _check_sizes(header, available - HEADER.size)
    return header


def _check_sizes(header: ChunkHeader, available: int) -> None:
    if header.size > available:
        raise ChunkDamage(f"the header declares {header.size} bytes of payload, the file has {available}")
    least = header.records * LENGTH_BYTES
    if least > header.size and least > most_expanded(header.compression, header.size):
        raise ChunkDamage(
            f"{header.size} bytes of {header.compression.value} payload cannot hold {header.records} records"
        )
    if not header.records and header.size and header.compression is Compression.NONE:
        raise ChunkDamage(f"the header says no records, but {header.size} bytes of payload")


def pack_header(payload: bytes, records: int, compression: Compression) -> bytes:
    return HEADER.pack(MAGIC, crc32(payload), _CODES[compression], len(payload), records)
