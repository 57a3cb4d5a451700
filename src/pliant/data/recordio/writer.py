"""Writing RecordIO files that are either whole or not there.

Records go to a hidden file beside the target, which takes its name only when it is closed without error, after its bytes are on
disk. A program that dies on the way leaves the hidden file and never a target that reads as short.

Chunks are cut as the family does it: before the record that would bring the sum of record lengths over the maximum.
The default maximum is ours, not the family's 32 MiB: see ``DEFAULT_CHUNK_BYTES``.
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
from pliant.data.recordio.compression import LARGEST_PAYLOAD, compress, named

# Measured over 16 KiB … 4 MiB (bench/data.py --chunks): a range read checks whole chunks, so small ones win there; a chunk has a
# fixed cost in Python, so large ones win in sequence. 256 KiB is within a tenth of the best of both, and fits the
# cache of a core, so that the copy after the checksum comes from there.
DEFAULT_CHUNK_BYTES = 256 << 10

_pack_length = struct.Struct("<I").pack


class RecordIOWriter:
    """``with RecordIOWriter(path) as w: w.write(b"…")``. The file appears when the block ends well."""

    def __init__(self, path: PathLike, *, compressor: str = "none", max_chunk_bytes: int = DEFAULT_CHUNK_BYTES) -> None:
        if not 1 <= max_chunk_bytes <= LARGEST_PAYLOAD:
            raise InvalidRequest(f"max_chunk_bytes is {max_chunk_bytes}; allowed: 1 to {LARGEST_PAYLOAD}")
        self.path = os.fspath(path)
        self.records = 0
        self.chunks = 0
        self._compression = named(compressor)
        self._most = max_chunk_bytes
        self._parts: list[bytes] = []
        self._pending = 0  # bytes of records, without their lengths
        self._target = _Target(self.path)

    def write(self, record: bytes | bytearray | memoryview) -> None:
        size = len(record) if isinstance(record, (bytes, bytearray)) else record.nbytes
        if size + LENGTH_BYTES > LARGEST_PAYLOAD:
            raise InvalidRequest(f"a record of {size} bytes is too long; the most is {LARGEST_PAYLOAD - LENGTH_BYTES}")
        payload = self._pending + LENGTH_BYTES * (len(self._parts) // 2)
        if self._pending + size > self._most or payload + size + LENGTH_BYTES > LARGEST_PAYLOAD:
            self._flush()
        self._parts.append(_pack_length(size))
        self._parts.append(bytes(record))
        self._pending += size
        self.records += 1

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
        """Write what is left and give the file its name. A second call does nothing."""
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
        self._path = path
        self._remote = is_remote(path)
        self.open = True
        self.file: IO[bytes]
        if self._remote:  # object stores show a file when its upload ends, so its own name will do
            fs, inner = file_system(path)
            self.file = cast(IO[bytes], fs.open(inner, "wb", autocommit=False))
            return
        folder, name = os.path.split(os.path.abspath(path))
        self._fresh = os.path.join(folder, f".{name}.{os.getpid()}.tmp")
        self.file = open(self._fresh, "wb")  # noqa: SIM115  (stays open until commit or discard)

    def commit(self) -> None:
        self.open = False
        self.file.flush()
        if self._remote:
            self.file.close()
            self.file.commit()  # type: ignore[attr-defined]  # fsspec's, see autocommit above
            return
        os.fsync(self.file.fileno())
        self.file.close()
        os.replace(self._fresh, self._path)

    def discard(self) -> None:
        if not self.open:
            return
        self.open = False
        if self._remote:
            self.file.discard()  # type: ignore[attr-defined]
            return
        self.file.close()
        os.unlink(self._fresh)
