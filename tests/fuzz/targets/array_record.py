"""ArrayRecord files, through Google's library."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from pliant.data import open_reader


class Fuzz:
    name = "array_record"

    def seeds(self) -> list[bytes]:
        from array_record.python.array_record_module import ArrayRecordWriter

        with TemporaryDirectory() as folder:
            path = str(Path(folder) / "a.array_record")
            writer = ArrayRecordWriter(path, "group_size:4")
            for number in range(20):
                writer.write(b"record %d" % number)
            writer.close()
            return [Path(path).read_bytes()]

    def check(self, data: bytes, folder: Path) -> None:
        path = folder / "a.array_record"
        path.write_bytes(data)
        reader = open_reader(path)
        try:
            list(reader.read(0, min(len(reader), 1000)))
        finally:
            reader.close()
