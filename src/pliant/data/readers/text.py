"""CSV and JSON lines: text files read by range, never whole. ``lines`` knows where their records are."""

from __future__ import annotations

import csv
import io
import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

from pliant.core.errors import CorruptData, InvalidRequest
from pliant.data.contract import Metadata, PartReader
from pliant.data.files import PathLike, Paths, expand, open_binary
from pliant.data.readers.lines import EVERY, LineIndex, byte_range, line_index, read_lines

_BLOCK = 1024  # records read at once
_BLOCK_BYTES = 256 << 20  # of a block; of more, 64 records are read at once
_HEADER_BYTES = 1 << 20  # where the names of columns have to end


class _TextReader(PartReader):
    """What the two have in common: an index per file, and a range of records cut out of its text."""

    _quote: str | None = None
    _header_records = 0

    def __init__(self, paths: Paths, *, encoding: str = "utf-8", index_dir: PathLike | None = None) -> None:
        try:
            splits = "\n".encode(encoding) == b"\n"
        except LookupError:
            raise InvalidRequest(f"unknown encoding {encoding!r}", hint="use utf-8, latin-1, …") from None
        if not splits:
            raise InvalidRequest(
                f"text in {encoding} cannot be split at line ends", hint="convert the file to UTF-8 first"
            )
        self._paths = expand(paths)
        self._encoding = encoding
        self._index_dir = index_dir

    @cached_property
    def _indexes(self) -> list[LineIndex]:
        return [
            line_index(path, quote=self._quote, skip=self._header_records, directory=self._index_dir)
            for path in self._paths
        ]

    def create_shards(self) -> Mapping[str, int]:
        return {path: index.count for path, index in zip(self._paths, self._indexes, strict=True)}

    def read_part(self, number: int, start: int, stop: int) -> Iterable[Any]:
        first = behind = start
        while behind < stop:
            first, behind = behind, self._behind(number, behind, stop)
            raw, skip = read_lines(self._paths[number], self._indexes[number], first, behind)
            try:
                text = raw.decode(self._encoding)
            except UnicodeDecodeError as error:
                place = f"{self._paths[number]}: records {first} to {behind}"
                raise CorruptData(f"{place} are not valid {self._encoding}: {error}") from error
            found = list(islice(self._parse(number, first, skip, text), behind - first))
            if len(found) < behind - first:
                raise CorruptData(
                    f"{self._paths[number]}: changed since it was indexed: record {first + len(found)} is missing"
                )
            yield from found

    def _behind(self, number: int, first: int, stop: int) -> int:
        """The end of the block to read next: of a thousand records, or of few that are large."""
        behind = min(first + _BLOCK, stop)
        begin, end = byte_range(self._indexes[number], first, behind)
        return behind if end - begin <= _BLOCK_BYTES else min(first + EVERY, stop)

    @abstractmethod
    def _parse(self, number: int, first: int, skip: int, text: str) -> Iterator[Any]:
        """The records in a text, of which ``skip`` are not wanted and the one behind them is record ``first`` of the file."""


class JsonLinesReader(_TextReader):
    """A record is the value on a line."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (JsonLinesReader, self._paths, {"encoding": self._encoding, "index_dir": self._index_dir})

    @property
    def metadata(self) -> Metadata:
        return Metadata("jsonl")

    def _parse(self, number: int, first: int, skip: int, text: str) -> Iterator[Any]:
        lines = (line for line in text.split("\n") if line and line != "\r")
        for record, line in enumerate(islice(lines, skip, None), first):
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                raise CorruptData(f"{self._paths[number]}: record {record} is not JSON: {error}") from error


class CsvReader(_TextReader):
    """A record is a dict by column name, or a list where the file has no header. All values are text."""

    def __init__(
        self,
        paths: Paths,
        *,
        columns: Sequence[str] | None = None,
        header: bool = True,
        delimiter: str = ",",
        quotechar: str = '"',
        encoding: str = "utf-8",
        index_dir: PathLike | None = None,
    ) -> None:
        super().__init__(paths, encoding=encoding, index_dir=index_dir)
        if len(quotechar) != 1 or not quotechar.isascii() or len(delimiter) != 1:
            raise InvalidRequest("delimiter and quotechar must be one character each")
        if columns is not None and not header:
            raise InvalidRequest("columns cannot be selected by name in a CSV file without a header")
        self._quote = quotechar
        self._header = header
        self._header_records = int(header)
        self._columns = list(columns) if columns is not None else None
        self._form = {"delimiter": delimiter, "quotechar": quotechar}

    def __reduce__(self) -> tuple[Any, ...]:
        options = {
            **self._form,
            "columns": self._columns,
            "header": self._header,
            "encoding": self._encoding,
            "index_dir": self._index_dir,
        }
        return _reopen, (CsvReader, self._paths, options)

    @property
    def metadata(self) -> Metadata:
        return Metadata("csv", tuple(self._columns or self._names[0]))

    @cached_property
    def _names(self) -> list[list[str]]:
        """The header of each file."""
        if not self._header:
            return [[] for _ in self._paths]
        return [self._read_names(path) for path in self._paths]

    def _read_names(self, path: str) -> list[str]:
        with open_binary(path) as raw:
            beginning = raw.read(_HEADER_BYTES + 1)
        cut = beginning.rfind(b"\n") + 1 if len(beginning) > _HEADER_BYTES else len(beginning)
        try:
            if not cut:
                raise ValueError(f"no line ends in the first {_HEADER_BYTES:,} bytes")
            names = next(self._rows(path, beginning[:cut].decode(self._encoding)), [])
        except ValueError as error:
            raise CorruptData(f"{path}: its header cannot be read: {error}") from None
        if names:
            names[0] = names[0].removeprefix("\ufeff")
        if unknown := [name for name in self._columns or [] if name not in names]:
            raise InvalidRequest(f"{path} has no column {', '.join(unknown)}", hint=f"it has: {', '.join(names)}")
        return names

    def _parse(self, number: int, first: int, skip: int, text: str) -> Iterator[Any]:
        path, names = self._paths[number], self._names[number]
        wanted = [(name, names.index(name)) for name in self._columns or names]
        for record, row in enumerate(islice(self._rows(path, text, f"records from {first} on: "), skip, None), first):
            if not self._header:
                yield row
            elif len(row) != len(names):
                raise CorruptData(f"{path}: record {record} has {len(row)} fields, the header has {len(names)}")
            else:
                yield {name: row[place] for name, place in wanted}

    def _rows(self, path: str, text: str, where: str = "") -> Iterator[list[str]]:
        rows = csv.reader(io.StringIO(text, newline=""), **self._form)  # type: ignore[arg-type]
        try:
            yield from filter(None, rows)
        except csv.Error as error:
            raise CorruptData(f"{path}: cannot be read as CSV: {where}{error}") from error


def _reopen(kind: type[_TextReader], paths: list[str], options: dict[str, Any]) -> _TextReader:
    return kind(paths, **options)
