"""RecordIO files, read in all ways: strictly, by index, and past damage."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from pliant.core.errors import PliantError
from pliant.data import RecordIOReader, RecordIOWriter
from pliant.data.recordio.check import verify_file


class Fuzz:
    name = "recordio"

    def seeds(self) -> list[bytes]:
        made = []
        with TemporaryDirectory() as folder:
            for compression in ("none", "gzip", "snappy"):
                for records in ([b"same"] * 20, [b"x" * n for n in range(20)]):
                    path = Path(folder) / "a.rio"
                    with RecordIOWriter(path, compressor=compression, max_chunk_bytes=100) as writer:
                        writer.write_all(records)
                    made.append(path.read_bytes())
        return made

    def check(self, data: bytes, folder: Path) -> None:
        path = folder / "a.rio"
        path.write_bytes(data)
        verify_file(str(path))
        with RecordIOReader(path, skip_corrupt=True) as tolerant:
            list(tolerant)
        try:
            reader = RecordIOReader(path)
        except PliantError:
            return
        with reader:
            list(reader)
            reader.gather(list(range(len(reader)))[::-1]) if hasattr(reader, "gather") else None
