"""Writing RecordIO files that are either whole or not there.

Records go to a hidden file beside the target, which takes its name only when it is closed without error, after its bytes are on
disk. A program that dies on the way leaves the hidden file and never a target that reads as short.

Chunks are cut as the family does it: before the record that would bring the sum of record lengths over the maximum. Who gives no
maximum gets one by measurement (``bench/data.py --chunks``) instead of the family's 32 MiB. Reading a range checks whole chunks, so
they should be small; a chunk costs about 15 µs in Python, so they should hold many records. 256 KiB is the best for ranges of small
records and near the best in sequence; larger records get up to 1 MiB until a chunk holds 128 of them.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from types import TracebackType
from typing import IO, Self, cast

from pliant.core.errors import InvalidRequest
from pliant.data.files import PathLike, file_system, is_remote
from pliant.data.recordio.chunk import LENGTH_BYTES, pack_header
from pliant.data.recordio.compression import MAX_PAYLOAD, compress, named
from pliant.files.atomic import AtomicFile

_CHUNK_BYTES = 256 << 10
_MANY_RECORDS = 128
_LARGE_CHUNK_BYTES = 1 << 20  # for chunks that would not hold that many

_pack_length = struct.Struct("<I").pack


class RecordIOWriter:
    """``with RecordIOWriter(path) as w: w.write(b"…")``. The file appears when the block ends well."""

    def __init__(self, path: PathLike, *, compressor: str = "none", max_chunk_bytes: int | None = None) -> None:
        if max_chunk_bytes is not None and not 1 <= max_chunk_bytes <= MAX_PAYLOAD:
            raise InvalidRequest(f"max_chunk_bytes is {max_chunk_bytes}; allowed: 1 to {MAX_PAYLOAD}")
        self.path = os.fspath(path)
        self.records = 0
        self.chunks = 0
        self._compression = named(compressor)
        self._max_chunk_bytes = max_chunk_bytes
        self._parts: list[bytes] = []
        self._pending = 0  # bytes of records, without their lengths
        self._target = _Target(self.path)

    def write(self, record: bytes | bytearray | memoryview) -> None:
        size = len(record) if isinstance(record, (bytes, bytearray)) else record.nbytes
        if size + LENGTH_BYTES > MAX_PAYLOAD:
            raise InvalidRequest(f"a record of {size} bytes is too long; the maximum is {MAX_PAYLOAD - LENGTH_BYTES}")
        if self._parts and self._is_full(size):
            self._flush()
        self._parts.append(_pack_length(size))
        self._parts.append(bytes(record))
        self._pending += size
        self.records += 1

    def _is_full(self, size: int) -> bool:
        """Whether a record of ``size`` more bytes belongs into the next chunk."""
        count = len(self._parts) // 2
        limit = self._max_chunk_bytes or (_CHUNK_BYTES if count >= _MANY_RECORDS else _LARGE_CHUNK_BYTES)
        return self._pending + size > limit or self._pending + size + LENGTH_BYTES * (count + 1) > MAX_PAYLOAD

    def write_all(self, records: Iterable[bytes]) -> None:
        for record in records:
            self.write(record)

    def _flush(self) -> None:
        if not self._parts:
            return
        payload = compress(self._compression, b"".join(self._parts))
        self._target.file.write(pack_header(payload, len(self._parts) // 2, self._compression))
        self._target.file.write(payload)
        self._parts.clear()
        self._pending = 0
        self.chunks += 1

    def close(self) -> None:
        """Write the rest and give the file its name. A second call does nothing."""
        if self._target.open:
            self._flush()
            self._target.commit()

    def abort(self) -> None:
        """Throw away what was written; a file that had the name before stays as it was."""
        self._target.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


class _Target:
    """A file under another name until it is complete."""

    def __init__(self, path: str) -> None:
        self.open = True
        self.file: IO[bytes]
        self._local: AtomicFile | None = None
        if is_remote(path):  # object stores show a file when its upload ends, so its own name will do
            fs, inner = file_system(path)
            self.file = cast(IO[bytes], fs.open(inner, "wb", autocommit=False))
            return
        self._local = AtomicFile(os.path.abspath(path))
        self.file = self._local.file

    def commit(self) -> None:
        self.open = False
        if self._local is not None:
            self._local.commit()
            return
        self.file.close()
        self.file.commit()  # type: ignore[attr-defined]  # fsspec's, see autocommit above

    def discard(self) -> None:
        if not self.open:
            return
        self.open = False
        if self._local is not None:
            self._local.discard()
        else:
            self.file.discard()  # type: ignore[attr-defined]
