"""ArrayRecord files, through Google's library. Local to it means a file name, so remote files are copied first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from pliant.core.errors import CorruptData
from pliant.data.contract import Metadata, PartReader
from pliant.data.errors import MissingLibrary
from pliant.data.files import Paths, expand, local_path

_BLOCK = 4096  # records read at once when going through a part
# No read-ahead threads of the library's own: ranges are read as asked for, and our pipeline reads ahead.
_DIRECT = "readahead_buffer_size:0,max_parallelism:0"


class ArrayRecordReader(PartReader):
    def __init__(self, paths: Paths, *, options: str = _DIRECT) -> None:
        self._paths = expand(paths)
        self._option = options

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._paths, self._option)

    @cached_property
    def _files(self) -> list[Any]:
        try:
            from array_record.python.array_record_module import ArrayRecordReader as Library
        except ImportError:
            raise MissingLibrary("ArrayRecord", "array-record") from None
        files: list[Any] = []
        for path in self._paths:
            try:
                file = Library(local_path(path), self._option)
            except RuntimeError as error:
                raise CorruptData(f"{path}: cannot be read as ArrayRecord: {error}") from error
            if not file.ok():
                raise CorruptData(f"{path}: cannot be read as ArrayRecord")
            files.append(file)
        return files

    @property
    def metadata(self) -> Metadata:
        return Metadata("array_record")

    def create_shards(self) -> Mapping[str, int]:
        return {path: file.num_records() for path, file in zip(self._paths, self._files, strict=True)}

    def read_part(self, number: int, start: int, stop: int) -> Iterable[bytes]:
        for first in range(start, stop, _BLOCK):
            yield from self._call(number, first, min(first + _BLOCK, stop))

    def gather_part(self, number: int, positions: list[int]) -> Sequence[bytes]:
        return self._call(number, positions)

    def _call(self, number: int, *what: Any) -> Sequence[bytes]:
        try:
            found: Sequence[bytes] = self._files[number].read(*what)
        except (RuntimeError, IndexError) as error:
            raise CorruptData(f"{self._paths[number]}: records {what}: {error}") from error
        return found

    def close(self) -> None:
        for file in self.__dict__.get("_files", []):
            file.close()


def _reopen(paths: list[str], options: str) -> ArrayRecordReader:
    return ArrayRecordReader(paths, options=options)
