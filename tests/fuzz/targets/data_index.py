"""Indexes of data files, with checksums that match: the records are right, or the error says that the index is not."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from pliant.data import RecordIOReader, RecordIOWriter, index_cache, open_reader
from pliant.data.files import stamp

RECORDS = [b"%d" % number for number in range(300)]
HEAD = struct.Struct("<8s16sqqI")


class Fuzz:
    """The input is a kind (``R`` or ``L``) and an index."""

    name = "data_index"

    def seeds(self) -> list[bytes]:
        from tempfile import TemporaryDirectory

        with TemporaryDirectory() as folder:
            return [kind + self._files(Path(folder), kind)[1].read_bytes() for kind in (b"R", b"L")]

    def check(self, data: bytes, folder: Path) -> None:
        kind = b"R" if data[:1] == b"R" else b"L"
        path, index = self._files(folder, kind)
        version = stamp(str(path))
        body = data[1:-4]
        if len(body) >= HEAD.size:  # of this very file
            magic, stored, _, _, count = HEAD.unpack_from(body)
            body = HEAD.pack(magic, stored, version.size, version.changed, count) + body[HEAD.size :]
        index.write_bytes(body + struct.pack("<I", zlib.crc32(body)))
        if kind == b"R":
            with RecordIOReader(path) as reader:
                assert list(reader) == RECORDS
        else:
            found = list(open_reader(path, index_dir=folder))
            assert all(isinstance(record, int) for record in found)

    def _files(self, folder: Path, kind: bytes) -> tuple[Path, Path]:
        """Data and its index, as we write them."""
        if kind == b"R":
            path = folder / "a.rio"
            with RecordIOWriter(path, max_chunk_bytes=1) as writer:
                writer.write_all(RECORDS)
            RecordIOReader(path).close()
            index = index_cache.index_path(str(path), None)
        else:
            path = folder / "a.jsonl"
            path.write_bytes(b"".join(record + b"\n" for record in RECORDS))
            len(open_reader(path, index_dir=folder))
            index = index_cache.index_path(str(path), folder)
        assert index is not None
        return path, index
