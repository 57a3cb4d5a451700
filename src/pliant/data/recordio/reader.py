"""Many RecordIO files as one sequence of ``bytes``.

Records come out as ``bytes``: they can be compared, hashed, decoded and kept, and with the checksum already in the cache the copy
costs a third of a microsecond for 10 KB. ``read(…, copy=False)`` returns ``memoryview`` slices of the mapped file instead, for
code that can use them; they keep the map alive as long as they live.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, overload

from pliant.data.contract import Metadata, PartReader, is_run
from pliant.data.files import PathLike, Paths, expand
from pliant.data.recordio.file import PayloadCache, RecordFile
from pliant.data.recordio.index import Damage
from pliant.data.recordio.payload import Payload
from pliant.data.recordio.source import OpenSources

_CACHE_BYTES = 64 << 20


class RecordIOReader(PartReader):
    """``RecordIOReader("train/*.rio")``: a file, a folder, a glob or a list of them.

    ``skip_corrupt``: check everything on opening, leave damaged chunks out and list them in ``skipped``.
    ``index_dir``: where indexes of large files are stored; without it, hidden beside them. ``keep_index=False``: nowhere.
    """

    def __init__(
        self,
        paths: Paths,
        *,
        skip_corrupt: bool = False,
        index_dir: PathLike | None = None,
        keep_index: bool = True,
        cache_bytes: int = _CACHE_BYTES,
    ) -> None:
        self._paths = expand(paths)
        self._options: dict[str, Any] = {
            "skip_corrupt": skip_corrupt,
            "index_dir": index_dir,
            "keep_index": keep_index,
        }
        self._cache_bytes = cache_bytes
        self._cache = PayloadCache(cache_bytes)
        self._sources = OpenSources(self._cache.drop)
        self.files = [RecordFile(path, self._sources, self._cache, **self._options) for path in self._paths]

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to another process (a DataLoader's worker), a reader opens its files again there."""
        return _reopen, (self._paths, self._options, self._cache_bytes)

    @property
    def skipped(self) -> list[Damage]:
        return [damage for file in self.files for damage in file.skipped]

    @property
    def metadata(self) -> Metadata:
        return Metadata("recordio")

    def create_shards(self) -> Mapping[str, int]:
        return {file.path: len(file) for file in self.files}

    @overload
    def read(self, start: int, stop: int, *, copy: Literal[True] = True) -> list[bytes]: ...
    @overload
    def read(self, start: int, stop: int, *, copy: Literal[False]) -> list[memoryview]: ...
    def read(self, start: int, stop: int, *, copy: bool = True) -> list[bytes] | list[memoryview]:
        """Records ``[start, stop)`` over all files. Only the chunks that hold them are touched."""
        self._check(start, stop)
        spans = self._spans(start, stop)
        if not copy:
            return [view for payload, a, b in spans for view in payload.views(a, b)]
        records: list[bytes] = []
        for payload, a, b in spans:
            records += payload.take(a, b)
        return records

    def blocks(self, indices: Sequence[int], size: int) -> Iterator[tuple[int, Iterable[bytes]]]:
        """Neighbours come chunk by chunk, whatever ``size`` is: they take no memory before they are iterated."""
        if not is_run(indices):
            yield from super().blocks(indices, size)
            return
        self._check(indices.start, max(indices.start, indices.stop))
        for number, first, behind in self.parts.spans(indices.start, indices.stop):
            for lazy in self.files[number].prepare(first, behind):
                yield len(lazy), lazy

    def read_part(self, number: int, start: int, stop: int) -> Iterable[bytes]:
        return chain.from_iterable(p.iterate(a, b) for p, a, b in self.files[number].spans(start, stop))

    def gather_part(self, number: int, positions: list[int]) -> Sequence[bytes]:
        return self.files[number].gather(positions)

    def __iter__(self) -> Iterator[bytes]:
        return chain.from_iterable(payload.iterate(a, b) for payload, a, b in self._spans(0, len(self)))

    def _spans(self, start: int, stop: int) -> Iterator[tuple[Payload, int, int]]:
        for number, first, behind in self.parts.spans(start, stop):
            yield from self.files[number].spans(first, behind)

    def close(self) -> None:
        self._cache.clear()
        self._sources.close()


def _reopen(paths: list[str], options: dict[str, Any], cache_bytes: int) -> RecordIOReader:
    return RecordIOReader(paths, cache_bytes=cache_bytes, **options)
