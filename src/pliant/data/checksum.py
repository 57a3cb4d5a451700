"""The two checksums of record files, from the fastest library at hand.

CRC32 runs over every byte that is read, so its speed is the speed of reading. On the machine of the bench: libdeflate
(package ``deflate``) 15-19 GB/s, ISA-L and zlib-ng 12 GB/s, Python's zlib 3.7 GB/s; the last is the fallback.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from pliant.data.errors import MissingLibrary

Bytes = bytes | bytearray | memoryview

crc32: Callable[[Bytes], int]
try:
    from deflate import crc32
except ImportError:
    crc32 = zlib.crc32


def crc32c(data: Bytes) -> int:
    """CRC-32C (Castagnoli), which only the older dialect of RecordIO uses."""
    try:
        from google_crc32c import value
    except ImportError:
        raise MissingLibrary("the older dialect of RecordIO", "google-crc32c") from None
    return int(value(bytes(data)))
