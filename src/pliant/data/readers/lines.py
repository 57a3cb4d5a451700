"""Where the records of a text file begin, without ever holding the file: the base of the CSV and JSON-lines readers.

One pass over the file in blocks finds the ends of lines. For CSV an end of line counts only outside quotes, which is so where the
number of quotes before it is even (a doubled quote inside a quoted field keeps that true). The index holds the place of every
64th record, so it takes an eighth of a byte per record, and a range is read from the mark before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pliant.core.errors import CorruptData
from pliant.data import index_cache
from pliant.data.files import PathLike, open_binary, stamp
from pliant.data.index_cache import Array

EVERY = 64  # records between marks
_BLOCK = 4 << 20  # bytes
_WORTH_CACHING = 64 << 20  # bytes of text; less is scanned in a tenth of a second
MAX_RANGE_BYTES = 4 << 30  # read at once: 64 records of 64 MiB
_NEWLINE, _RETURN = 10, 13


@dataclass(frozen=True, slots=True)
class LineIndex:
    marks: Array  # byte offset of records 0, 64, 128, …
    count: int
    end: int  # of the last record, in bytes


def line_index(path: str, *, quote: str | None, skip: int, directory: PathLike | None) -> LineIndex:
    """The index of a file, from the cache if it is current. ``skip``: records at the start that are no data (a header)."""
    version = stamp(path)
    kind = f"lines {quote or ''}{skip}"
    place = index_cache.index_path(path, directory)
    if place is not None:
        arrays = index_cache.load(place, kind, path, version, lambda found: _is_index(found, version.size))
        if arrays is not None:
            marks, numbers = arrays
            return LineIndex(marks, int(numbers[0]), int(numbers[1]))
    index = _scan(path, quote, skip)
    if place is not None and (directory is not None or version.size >= _WORTH_CACHING):
        index_cache.save(place, kind, version, [index.marks, np.array([index.count, index.end], np.int64)])
    return index


def _is_index(arrays: list[Array], size: int) -> bool:
    """Whether these can be the marks, the number of records and their end in a file of ``size`` bytes."""
    if len(arrays) != 2 or len(arrays[1]) != 2:
        return False
    marks, (count, end) = arrays[0], arrays[1].tolist()
    fits = 0 <= count <= size and 0 <= end <= size and len(marks) == -(-count // EVERY)
    return fits and index_cache.is_rising(marks, max(end, 1))


def _scan(path: str, quote: str | None, skip: int) -> LineIndex:
    marks: list[Array] = []
    seen = -skip
    end = 0
    for starts, behind in _records(path, ord(quote) if quote else None):
        end = behind
        numbers = np.arange(seen, seen + len(starts))
        marks.append(starts[(numbers >= 0) & (numbers % EVERY == 0)])
        seen += len(starts)
    return LineIndex(np.concatenate(marks) if marks else np.empty(0, np.int64), max(seen, 0), end)


def _records(path: str, quote: int | None) -> Iterator[tuple[Array, int]]:
    """Starts of the records that end in each block, and where the last of them ends. Empty lines are no records."""
    position = begin = 0  # of the block, and of the record that is being read
    odd = 0  # quotes seen so far, modulo 2
    before = _NEWLINE  # the byte in front of the block
    with open_binary(path) as file:
        while block := file.read(_BLOCK):
            data = np.frombuffer(block, np.uint8)
            ends = np.flatnonzero(data == _NEWLINE)
            if quote is not None:
                quotes = np.flatnonzero(data == quote)
                ends = ends[(np.searchsorted(quotes, ends) + odd) % 2 == 0]
                odd = (odd + len(quotes)) % 2
            if len(ends):
                starts = np.concatenate([[begin], ends[:-1] + position + 1])
                lengths = ends + position - starts
                last = np.where(ends > 0, data[ends - 1], before)
                full = (lengths > 1) | ((lengths == 1) & (last != _RETURN))
                begin = position + int(ends[-1]) + 1
                yield starts[full], begin
            before = int(data[-1])
            position += len(block)
    rest = position - begin
    if rest > 1 or (rest == 1 and before != _RETURN):
        yield np.array([begin], np.int64), position


def read_lines(path: str, index: LineIndex, start: int, stop: int) -> tuple[bytes, int]:
    """The bytes from the mark before record ``start`` to one behind ``stop``, and how many records to leave out."""
    begin, end = byte_range(index, start, stop)
    if end - begin > MAX_RANGE_BYTES:
        raise CorruptData(
            f"{path}: {stop - start} records from {start} on have {end - begin:,} bytes",
            hint="check that the file has line ends, and that quotes in it are closed",
        )
    with open_binary(path) as file:
        file.seek(begin)
        return file.read(end - begin), start % EVERY


def byte_range(index: LineIndex, start: int, stop: int) -> tuple[int, int]:
    behind = -(-stop // EVERY)
    end = int(index.marks[behind]) if behind < len(index.marks) else index.end
    return int(index.marks[start // EVERY]), end
