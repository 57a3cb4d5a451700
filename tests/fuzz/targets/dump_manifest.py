"""Manifests of parameter servers' dumps."""

from __future__ import annotations

from pathlib import Path

from pliant.core.parameters.dumps import Dump
from pliant.ps.files import MANIFEST, dump_folder, find_dump, write_manifest
from pliant.ps.specs import DenseSpec, TableSpec


def dump() -> Dump:
    tables = (TableSpec("t", 3).to_json(),)
    return Dump(9, 2, True, (0, 1), {}, tables, (DenseSpec("v", (2, 3)).to_json(),), ("v",))


class Fuzz:
    name = "dump_manifest"

    def seeds(self) -> list[bytes]:
        from tempfile import TemporaryDirectory

        with TemporaryDirectory() as folder:
            write_manifest(Path(folder), dump(), [])
            return [(dump_folder(Path(folder), 9) / MANIFEST).read_bytes()]

    def check(self, data: bytes, folder: Path) -> None:
        path = dump_folder(folder, 9)
        path.mkdir(parents=True)
        (path / MANIFEST).write_bytes(data)
        for seat in (0, 1):
            (path / f"seat-{seat}.json").write_bytes(b'{"format": 1, "chunks": [], "bytes": 0, "crc32": 0}')
            (path / f"seat-{seat}.safetensors").write_bytes(b"")
        find_dump(folder)
