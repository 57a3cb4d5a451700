"""Where the chunks are: found by hopping from header to header, never by reading payloads.

``hop`` is the strict way: the first thing that is wrong ends it. ``salvage`` is the patient way: it checks every payload,
leaves out what is damaged, and finds its way back into step by looking for the next header whose checksum holds. What
it left out it names, chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pliant.core.errors import CorruptData
from pliant.data.index_cache import Array
from pliant.data.recordio.chunk import HEADER, MAGIC_BYTES, ChunkDamage, ChunkHeader, parse_header
from pliant.data.recordio.compression import Compression, ExpansionFailed, expand
from pliant.data.recordio.payload import Payload
from pliant.data.recordio.source import Source

_RESYNC_BUDGET = 4  # times the file's size: what looking for the next good chunk may read, so that no file is a trap


@dataclass(frozen=True, slots=True)
class Damage:
    path: str
    chunk: int
    offset: int  # of the chunk's header, in bytes
    reason: str
    records: int | None = None  # that are lost, if its header can be believed

    def __str__(self) -> str:
        return f"{self.path}: chunk {self.chunk} at byte {self.offset}: {self.reason}"

    def error(self) -> CorruptData:
        return CorruptData(
            str(self), hint="restore the file, or skip corrupt chunks: skip_corrupt=True (--skip-corrupt)"
        )


@dataclass(frozen=True, slots=True)
class ChunkIndex:
    offsets: Array  # of headers
    starts: Array  # number of the first record of each chunk, and at the end the number of all

    @classmethod
    def of(cls, offsets: list[int], counts: list[int]) -> ChunkIndex:
        starts = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(np.asarray(counts, np.int64), out=starts[1:])
        return cls(np.asarray(offsets, np.int64), starts)


def read_header(source: Source, offset: int) -> ChunkHeader:
    available = source.stamp.size - offset
    buffer, position = source.at(offset, min(HEADER.size, available))
    return parse_header(buffer, position, available)


def read_payload(source: Source, offset: int, header: ChunkHeader, *, verify: bool) -> Payload:
    """The records of the chunk at ``offset``, its checksum compared unless that was done before."""
    buffer, position = source.at(offset + HEADER.size, header.size)
    if verify or header.compression is not Compression.NONE:
        stored = memoryview(buffer)[position : position + header.size]
        if len(stored) < header.size:
            raise ChunkDamage(f"{len(stored)} of {header.size} bytes of payload could be read")
        if verify:
            header.verify(stored)
        if header.compression is not Compression.NONE:
            try:
                buffer, position = expand(header.compression, stored), 0
            except ExpansionFailed as failure:
                raise ChunkDamage(str(failure)) from None
    size = len(buffer) if header.compression is not Compression.NONE else header.size
    return Payload(buffer, position, size, header.records)


def hop(path: str, source: Source) -> ChunkIndex:
    offsets: list[int] = []
    counts: list[int] = []
    offset = 0
    while offset < source.stamp.size:
        try:
            header = read_header(source, offset)
        except ChunkDamage as damage:
            raise Damage(path, len(offsets), offset, str(damage)).error() from None
        offsets.append(offset)
        counts.append(header.records)
        offset += HEADER.size + header.size
    return ChunkIndex.of(offsets, counts)


def salvage(
    path: str, source: Source, watch: Callable[[int], None] = lambda offset: None
) -> tuple[ChunkIndex, list[Damage]]:
    """All chunks that are whole, and what is wrong with the others. ``watch`` receives the offset that was reached."""
    offsets: list[int] = []
    counts: list[int] = []
    damages: list[Damage] = []
    offset, size = 0, source.stamp.size
    budget = _RESYNC_BUDGET * size
    while offset < size:
        watch(offset)
        header = None
        try:
            header = read_header(source, offset)
            read_payload(source, offset, header, verify=True)
            offsets.append(offset)
            counts.append(header.records)
            offset += HEADER.size + header.size
        except ChunkDamage as damage:
            records = header.records if header else None
            damages.append(Damage(path, len(offsets) + len(damages), offset, str(damage), records))
            offset, budget = _next_chunk(source, offset, header, budget)
    watch(size)
    return ChunkIndex.of(offsets, counts), damages


def _next_chunk(source: Source, offset: int, header: ChunkHeader | None, budget: int) -> tuple[int, int]:
    """Where to continue after damage at ``offset`` (the end of the file if nothing more is found), and the budget left."""
    if header is not None and _leads_on(source, offset, header):
        return offset + HEADER.size + header.size, budget
    place = offset
    while budget > 0 and (place := source.find(MAGIC_BYTES, place + 1)) >= 0:
        try:
            found = read_header(source, place)
            if _leads_on(source, place, found):
                return place, budget
            budget -= found.size
            read_payload(source, place, found, verify=True)
            return place, budget
        except ChunkDamage:
            continue
    return source.stamp.size, budget


def _leads_on(source: Source, offset: int, header: ChunkHeader) -> bool:
    """Whether another chunk, or the end of the file, comes right where this header says."""
    behind = offset + HEADER.size + header.size
    return behind == source.stamp.size or source.peek(behind, len(MAGIC_BYTES)) == MAGIC_BYTES
