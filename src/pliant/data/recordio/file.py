"""One RecordIO file: its chunks, checked once each, and the records of any range of it.

A chunk's checksum is compared the first time the chunk is read and not again while the file stays open: the bytes are mapped, so
a second look would see the same pages. Expanded chunks and the places of their records are kept in a cache that all files of a
reader share.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from threading import Lock

import numpy as np

from pliant.data import index_cache
from pliant.data.files import PathLike
from pliant.data.recordio.chunk import ChunkDamage, ChunkHeader
from pliant.data.recordio.index import ChunkIndex, Damage, hop, read_header, read_payload, salvage
from pliant.data.recordio.payload import Payload
from pliant.data.recordio.source import open_source

_WORTH_CACHING = 256  # chunks; fewer are hopped in less time than an index is opened


class PayloadCache:
    """The chunks used last, up to a number of bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._payloads: OrderedDict[tuple[str, int], Payload] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple[str, int]) -> Payload | None:
        with self._lock:
            payload = self._payloads.get(key)
            if payload is not None:
                self._payloads.move_to_end(key)
            return payload

    def put(self, key: tuple[str, int], payload: Payload) -> None:
        with self._lock:
            if key in self._payloads:
                return
            self._payloads[key] = payload
            self._used += payload.cost + 256
            while self._used > self._limit and len(self._payloads) > 1:
                _, oldest = self._payloads.popitem(last=False)
                self._used -= oldest.cost + 256

    def clear(self) -> None:
        with self._lock:
            self._payloads.clear()
            self._used = 0


class RecordFile:
    def __init__(
        self,
        path: str,
        cache: PayloadCache,
        *,
        skip_corrupt: bool = False,
        index_dir: PathLike | None = None,
        keep_index: bool = True,
    ) -> None:
        self.path = path
        self.skipped: list[Damage] = []
        self._cache = cache
        self._source = open_source(path)
        if skip_corrupt:
            index, self.skipped = salvage(path, self._source)
        else:
            index = self._indexed(index_dir) if keep_index else hop(path, self._source)
        self._offsets: list[int] = index.offsets.tolist()
        self._starts: list[int] = index.starts.tolist()
        self._verified = bytearray(len(self._offsets))

    def _indexed(self, directory: PathLike | None) -> ChunkIndex:
        place = index_cache.index_path(self.path, directory)
        if place is None:
            return hop(self.path, self._source)
        if (arrays := index_cache.load(place, "recordio", self._source.stamp)) is not None:
            return ChunkIndex(*arrays)
        index = hop(self.path, self._source)
        if directory is not None or len(index.offsets) >= _WORTH_CACHING:
            index_cache.save(place, "recordio", self._source.stamp, [index.offsets, index.starts])
        return index

    def __len__(self) -> int:
        return self._starts[-1]

    @property
    def chunks(self) -> int:
        return len(self._offsets)

    @property
    def size(self) -> int:
        """In bytes."""
        return self._source.stamp.size

    def header(self, chunk: int) -> ChunkHeader:
        try:
            header = read_header(self._source, self._offsets[chunk])
            expected = self._starts[chunk + 1] - self._starts[chunk]
            if header.records != expected:  # the file changed under an index that was thought current
                raise ChunkDamage(f"the header says {header.records} records, the index {expected}")
        except ChunkDamage as damage:
            raise self._damage(chunk, damage).error() from None
        return header

    def payload(self, chunk: int) -> Payload:
        key = (self.path, chunk)
        if (known := self._cache.get(key)) is not None:
            return known
        header = self.header(chunk)
        try:
            payload = read_payload(self._source, self._offsets[chunk], header, verify=not self._verified[chunk])
        except ChunkDamage as damage:
            raise self._damage(chunk, damage).error() from None
        self._verified[chunk] = 1
        self._cache.put(key, payload)
        return payload

    def spans(self, start: int, stop: int) -> Iterator[tuple[Payload, int, int]]:
        """The chunks that hold records [start, stop), each with the range of its own records."""
        chunk = bisect_right(self._starts, start) - 1
        while start < stop:
            first, behind = self._starts[chunk], self._starts[chunk + 1]
            if start < behind:  # not so for a chunk without records
                yield self.payload(chunk), start - first, min(stop, behind) - first
            start = max(start, behind)
            chunk += 1

    def gather(self, positions: list[int]) -> list[bytes]:
        """Single records in the order asked for, each chunk visited once."""
        if len(positions) == 1:
            chunk = bisect_right(self._starts, positions[0]) - 1
            return self.payload(chunk).pick([positions[0] - self._starts[chunk]])
        places = np.asarray(positions, np.int64)
        chunks = np.searchsorted(self._starts, places, side="right") - 1
        order = np.argsort(chunks, kind="stable")
        result = [b""] * len(positions)
        cuts = np.flatnonzero(np.diff(chunks[order])) + 1
        for group in np.split(order, cuts):
            chunk = int(chunks[group[0]])
            picked = self.payload(chunk).pick((places[group] - self._starts[chunk]).tolist())
            for place, record in zip(group.tolist(), picked, strict=True):
                result[place] = record
        return result

    def close(self) -> None:
        self._source.close()

    def _damage(self, chunk: int, damage: ChunkDamage) -> Damage:
        return Damage(self.path, chunk, self._offsets[chunk], str(damage))
