"""Reports on whole files, for ``pliant data info`` and ``verify``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from pliant.data.recordio.index import ChunkIndex, Damage, hop, read_header, salvage
from pliant.data.recordio.source import Source, open_source


@dataclass(frozen=True, slots=True)
class FileReport:
    path: str
    size: int  # bytes
    records: int
    chunks: int
    compressions: tuple[str, ...]
    dialects: tuple[str, ...]
    largest_chunk: int  # bytes of payload as stored
    damages: tuple[Damage, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def describe(path: str) -> FileReport:
    """From headers alone."""
    source = open_source(path)
    try:
        return _report(path, source, hop(path, source), [])
    finally:
        source.close()


def verify_file(path: str, watch: Callable[[int], None] = lambda offset: None) -> FileReport:
    """With every payload checked. ``watch`` receives the offset that was reached."""
    source = open_source(path)
    try:
        return _report(path, source, *salvage(path, source, watch))
    finally:
        source.close()


def _report(path: str, source: Source, index: ChunkIndex, damages: list[Damage]) -> FileReport:
    headers = [read_header(source, offset) for offset in index.offsets.tolist()]
    return FileReport(
        path=path,
        size=source.stamp.size,
        records=int(index.starts[-1]),
        chunks=len(headers),
        compressions=tuple(sorted({header.compression.value for header in headers})),
        dialects=tuple(sorted({header.dialect.value for header in headers})),
        largest_chunk=max((header.size for header in headers), default=0),
        damages=tuple(damages),
    )
