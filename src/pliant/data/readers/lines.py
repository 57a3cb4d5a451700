"""Where the records of a text file begin, without ever holding the file: the base of the CSV and JSON-lines readers.

One pass over the file in blocks finds the ends of lines. For CSV an end of line counts only outside quotes, which is so where the
number of quotes before it is even (a doubled quote inside a quoted field keeps that true). The index holds the place of every
64th record, so it takes an eighth of a byte per record, and a range is read from the mark before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pliant.data import index_cache
from pliant.data.files import PathLike, open_binary, stamp
from pliant.data.index_cache import Array

EVERY = 64  # records between marks
_BLOCK = 4 << 20  # bytes
_WORTH_CACHING = 64 << 20  # bytes of text; less is scanned in a tenth of a second
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
    if place is not None and (arrays := index_cache.load(place, kind, version)) is not None:
        marks, numbers = arrays
        return LineIndex(marks, int(numbers[0]), int(numbers[1]))
    index = _scan(path, quote, skip)
    if place is not None and (directory is not None or version.size >= _WORTH_CACHING):
        index_cache.save(place, kind, version, [index.marks, np.array([index.count, index.end], np.int64)])
    return index


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
    first = start // EVERY
    behind = -(-stop // EVERY)
    begin = int(index.marks[first])
    end = int(index.marks[behind]) if behind < len(index.marks) else index.end
    with open_binary(path) as file:
        file.seek(begin)
        return file.read(end - begin), start - first * EVERY
