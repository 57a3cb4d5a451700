"""One RecordIO file: its chunks, checked once each, and the records of any range of it.

A chunk's checksum is compared the first time the chunk is read and not again while the file stays open: the bytes are mapped, so
a second read would see the same pages. Expanded chunks and the offsets of their records are kept in a cache that all files of a
reader share.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from threading import Lock

import numpy as np

from pliant.data import index_cache
from pliant.data.contract import LazyBlock
from pliant.data.files import PathLike
from pliant.data.recordio.chunk import HEADER, ChunkDamage, ChunkHeader
from pliant.data.recordio.compression import Compression
from pliant.data.recordio.index import ChunkIndex, Damage, hop, read_header, read_payload, salvage
from pliant.data.recordio.payload import Payload
from pliant.data.recordio.source import OpenSources, Source

_MAX_PAYLOADS = 1024
_WORTH_CACHING = 256  # chunks; fewer are hopped in less time than an index is opened


class PayloadCache:
    """The chunks used last, up to a number of bytes and of chunks."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._payloads: OrderedDict[tuple[str, int], Payload] = OrderedDict()  # the last used is the last
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
            self._used += payload.cost
            while (self._used > self._limit or len(self._payloads) > _MAX_PAYLOADS) and len(self._payloads) > 1:
                self._used -= self._payloads.popitem(last=False)[1].cost

    def drop(self, path: str) -> None:
        """Forget the chunks of a file, which would keep it mapped."""
        with self._lock:
            for key in [key for key in self._payloads if key[0] == path]:
                self._used -= self._payloads.pop(key).cost

    def clear(self) -> None:
        with self._lock:
            self._payloads.clear()
            self._used = 0


class LazyRecords(LazyBlock):
    """Records that become ``bytes`` when they are iterated.

    An uncompressed chunk of a mapped file is also checked only then: the checksum brings the bytes into the cache of the core
    that is about to copy them. Doing it ahead, in the thread that reads ahead, cost a third more.
    """

    __slots__ = ("_chunk", "_file", "_held", "_start", "_stop")

    def __init__(self, file: RecordFile, chunk: int, start: int, stop: int, held: Payload | ChunkHeader) -> None:
        self._file = file
        self._chunk = chunk
        self._start = start
        self._stop = stop
        self._held = held

    def __len__(self) -> int:
        return self._stop - self._start

    def runs(self) -> Iterator[list[bytes]]:
        held = self._held
        payload = held if isinstance(held, Payload) else self._file.payload(self._chunk, held)
        return payload.runs(self._start, self._stop)


class RecordFile:
    def __init__(
        self,
        path: str,
        sources: OpenSources,
        cache: PayloadCache,
        *,
        skip_corrupt: bool = False,
        index_dir: PathLike | None = None,
        keep_index: bool = True,
    ) -> None:
        self.path = path
        self.skipped: list[Damage] = []
        self._sources = sources
        self._cache = cache
        source = sources.get(path)
        self._stamp = source.stamp
        self._has_gaps = skip_corrupt
        if skip_corrupt:
            index, self.skipped = salvage(path, source)
        else:
            index = self._indexed(source, index_dir) if keep_index else hop(path, source)
        self._offsets: list[int] = index.offsets.tolist()
        self._starts: list[int] = index.starts.tolist()
        self._verified = bytearray(len(self._offsets))

    def _indexed(self, source: Source, directory: PathLike | None) -> ChunkIndex:
        place = index_cache.index_path(self.path, directory)
        if place is None:
            return hop(self.path, source)
        size = source.stamp.size
        arrays = index_cache.load(place, "recordio", self.path, source.stamp, lambda found: _is_index(found, size))
        if arrays is not None:
            return ChunkIndex(*arrays)
        index = hop(self.path, source)
        if directory is not None or len(index.offsets) >= _WORTH_CACHING:
            index_cache.save(place, "recordio", source.stamp, [index.offsets, index.starts])
        return index

    @property
    def _source(self) -> Source:
        return self._sources.get(self.path, self._stamp)

    def __len__(self) -> int:
        return self._starts[-1]

    @property
    def chunks(self) -> int:
        return len(self._offsets)

    @property
    def size(self) -> int:
        """In bytes."""
        return self._stamp.size

    def header(self, chunk: int) -> ChunkHeader:
        try:
            header = read_header(self._source, self._offsets[chunk])
            expected = self._starts[chunk + 1] - self._starts[chunk]
            if header.records != expected:  # the file changed under an index that was thought current
                raise ChunkDamage(f"the header says {header.records} records, the index {expected}")
            behind = self._offsets[chunk] + HEADER.size + header.size
            following = self._offsets[chunk + 1] if chunk + 1 < len(self._offsets) else self._stamp.size
            if behind != following and not self._has_gaps:
                raise ChunkDamage(f"the chunk ends at byte {behind}, the index has the next one at {following}")
        except ChunkDamage as damage:
            raise self._damage(chunk, damage).error() from None
        return header

    def payload(self, chunk: int, header: ChunkHeader | None = None) -> Payload:
        key = (self.path, chunk)
        if (known := self._cache.get(key)) is not None:
            return known
        header = header or self.header(chunk)
        try:
            payload = read_payload(self._source, self._offsets[chunk], header, verify=not self._verified[chunk])
        except ChunkDamage as damage:
            raise self._damage(chunk, damage).error() from None
        self._verified[chunk] = 1
        self._cache.put(key, payload)
        return payload

    def spans(self, start: int, stop: int) -> Iterator[tuple[Payload, int, int]]:
        """The payloads that hold records [start, stop), each with the range of its own records."""
        for chunk, first, behind in self._chunks(start, stop):
            yield self.payload(chunk), first, behind

    def prepare(self, start: int, stop: int) -> Iterator[LazyRecords]:
        """The same, with all that waits or takes long done now, and what is fast from the mapped file left for later."""
        for chunk, first, behind in self._chunks(start, stop):
            header = self.header(chunk)
            mapped = self._source.will_need(self._offsets[chunk], HEADER.size + header.size)
            lazy = mapped and header.compression is Compression.NONE
            yield LazyRecords(self, chunk, first, behind, header if lazy else self.payload(chunk, header))

    def _chunks(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        chunk = bisect_right(self._starts, start) - 1
        while start < stop:
            first, behind = self._starts[chunk], self._starts[chunk + 1]
            if start < behind:  # not so for a chunk without records
                yield chunk, start - first, min(stop, behind) - first
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

    def _damage(self, chunk: int, damage: ChunkDamage) -> Damage:
        return Damage(self.path, chunk, self._offsets[chunk], str(damage))


def _is_index(arrays: list[index_cache.Array], size: int) -> bool:
    """Whether these can be the chunks of a file of ``size`` bytes. That each is where the index says is seen when it is read."""
    if len(arrays) != 2 or len(arrays[1]) != len(arrays[0]) + 1:
        return False
    offsets, starts = arrays
    begins = offsets[0] == 0 if len(offsets) else size == 0
    return bool(begins and index_cache.is_rising(offsets, size) and starts[0] == 0 and (np.diff(starts) >= 0).all())
