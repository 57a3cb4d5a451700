"""Parquet files: a record is a dict of the chosen columns. Whole row groups are read, because they are what Parquet stores.

The row groups used last stay in memory (four, or as many as fit into 64 MiB), so records that are neighbours cost one read. Random
access over many row groups costs a row group each: pack such data into RecordIO first (``pliant data pack``).

Threads of Arrow never hold what belongs to Python: one that releases it while the interpreter ends would abort the process. So
local files are opened by Arrow itself, and remote ones, which only fsspec can read, are read without its threads.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import accumulate
from threading import Lock
from typing import Any

import numpy as np

from pliant.core.errors import CorruptData, InvalidRequest, PliantError
from pliant.data.columns import Column, Lists, joined, take
from pliant.data.contract import Metadata, PartReader
from pliant.data.errors import MissingLibrary
from pliant.data.files import Paths, expand, is_remote, open_binary
from pliant.files.regular import open_regular

_GROUPS_KEPT = 4
_BYTES_KEPT = 64 << 20  # of row groups beyond those
MAX_GROUP_BYTES = 16 << 30  # of a row group after expansion, as it declares
_BLOCK = 1024  # rows turned into dicts at once


@contextmanager
def _damage(where: str) -> Iterator[None]:
    """What Arrow raises for damage, as ours: errors of its own, of the system, and of Python for values that it cannot hold."""
    from pyarrow import ArrowException

    try:
        yield
    except PliantError:
        raise
    except (ArrowException, OSError, ValueError, OverflowError, TypeError, KeyError, MemoryError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise CorruptData(f"{where}: {error!s:.1000}") from error


def _rows_of(group: Any, name: str) -> int:
    """The number of rows of a group whose sizes are possible, before anything is allocated for it.

    Its columns are not looked at here: pyarrow ends the process (``std::terminate``) where their metadata is damaged, while
    ``read_row_group`` raises.
    """
    if group.num_rows < 0:
        raise ValueError(f"{name} declares {group.num_rows} rows")
    if not 0 <= group.total_byte_size <= MAX_GROUP_BYTES:
        raise ValueError(f"{name} declares {group.total_byte_size:,} bytes; write smaller row groups")
    return int(group.num_rows)


class _File:
    def __init__(self, path: str) -> None:
        try:
            from pyarrow import OSFile
            from pyarrow.parquet import ParquetFile
        except ImportError:
            raise MissingLibrary("Parquet", "pyarrow") from None
        with _damage(f"{path}: cannot be read as Parquet"):
            self.remote = is_remote(path)
            if not self.remote:
                open_regular(path).close()  # Arrow would wait at a FIFO
            self.file = ParquetFile(open_binary(path) if self.remote else OSFile(path, "rb"))
            self.schema = self.file.schema_arrow
            stored = self.file.metadata
            rows = [_rows_of(stored.row_group(i), f"row group {i}") for i in range(stored.num_row_groups)]
        self.starts = [0, *accumulate(rows)]


class ParquetReader(PartReader):
    def __init__(self, paths: Paths, *, columns: str | Sequence[str] | None = None) -> None:
        self._paths = expand(paths)
        if isinstance(columns, str):
            columns = [columns]
        if columns is not None and not (isinstance(columns, list | tuple) and all(isinstance(c, str) for c in columns)):
            raise InvalidRequest(f"columns is {columns!r}", hint="pass a list of column names")
        self._columns = list(columns) if columns is not None else None
        self._groups: OrderedDict[tuple[int, int], Any] = OrderedDict()
        self._columns_of: dict[tuple[int, int], dict[str, Column]] = {}  # of groups that are there
        self._bytes = 0
        self._lock = Lock()  # over the cache and the files, which pyarrow does not share between threads

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._paths, self._columns)

    @cached_property
    def _files(self) -> list[_File]:
        files = [_File(path) for path in self._paths]
        for path, file in zip(self._paths, files, strict=True):
            known = file.schema.names
            if unknown := [name for name in self._columns or [] if name not in known]:
                raise InvalidRequest(f"{path} has no column {', '.join(unknown)}", hint=f"it has: {', '.join(known)}")
        return files

    @cached_property
    def metadata(self) -> Metadata:
        schema = self._files[0].schema
        names = tuple(self._columns or schema.names)
        return Metadata("parquet", names, {name: str(schema.field(name).type) for name in names})

    def create_shards(self) -> Mapping[str, int]:
        return {path: file.starts[-1] for path, file in zip(self._paths, self._files, strict=True)}

    def read_part(self, number: int, start: int, stop: int) -> Iterable[dict[str, Any]]:
        starts = self._files[number].starts
        while start < stop:
            group = bisect_right(starts, start) - 1
            behind = min(stop, starts[group + 1], start + _BLOCK)
            table = self._group(number, group)
            with _damage(f"{self._paths[number]}: rows {start} to {behind} (row group {group})"):
                rows = table.slice(start - starts[group], behind - start).to_pylist()
            yield from rows
            start = behind

    def gather_part(self, number: int, positions: list[int]) -> Sequence[dict[str, Any]]:
        starts = self._files[number].starts
        by_group: dict[int, list[int]] = {}
        for slot, place in enumerate(positions):
            by_group.setdefault(bisect_right(starts, place) - 1, []).append(slot)
        found: list[dict[str, Any]] = [{}] * len(positions)
        for group, slots in by_group.items():
            table = self._group(number, group)
            with _damage(f"{self._paths[number]}: rows of row group {group}"):
                rows = table.take([positions[slot] - starts[group] for slot in slots]).to_pylist()
            for slot, row in zip(slots, rows, strict=True):
                found[slot] = row
        return found

    def fetch_columns(self, indices: Sequence[int]) -> dict[str, Column]:
        if not len(indices):
            return {}
        wanted = np.asarray(indices, np.int64)
        self._check(int(wanted.min()), int(wanted.max()) + 1)
        starts, names = self._group_starts
        groups = np.searchsorted(starts, wanted, "right") - 1
        order = np.argsort(groups, kind="stable")
        parts: list[dict[str, Column]] = []
        for at in np.flatnonzero(np.diff(groups[order], prepend=-1)):
            group = groups[order[at]]
            chosen = wanted[order[at:][groups[order[at:]] == group]] - starts[group]
            columns = self._group_columns(*names[group])
            parts.append({name: take(column, chosen) for name, column in columns.items()})
        back = np.empty(order.size, np.int64)
        back[order] = np.arange(order.size)
        return {name: take(joined([part[name] for part in parts]), back) for name in parts[0]}

    @cached_property
    def _group_starts(self) -> tuple[Any, list[tuple[int, int]]]:
        """The global index at which each row group that has rows begins, and which it is."""
        starts, names = [], []
        for number, file in enumerate(self._files):
            for group, first in enumerate(file.starts[:-1]):
                if file.starts[group + 1] > first:
                    starts.append(self.parts.starts[number] + first)
                    names.append((number, group))
        return np.array(starts, np.int64), names

    def _group_columns(self, number: int, group: int) -> dict[str, Column]:
        table = self._group(number, group)
        with self._lock:
            if (found := self._columns_of.get((number, group))) is None:
                with _damage(f"{self._paths[number]}: row group {group}"):
                    found = {name: _column(table.column(name)) for name in table.column_names}
                if (number, group) in self._groups:
                    self._columns_of[number, group] = found
            return found

    def _group(self, number: int, group: int) -> Any:
        with self._lock:
            if (number, group) in self._groups:
                self._groups.move_to_end((number, group))
                return self._groups[number, group]
            opened = self._files[number]
            with _damage(f"{self._paths[number]}: row group {group}"):
                table = opened.file.read_row_group(group, columns=self._columns, use_threads=not opened.remote)
                expected = opened.starts[group + 1] - opened.starts[group]
                if table.num_rows != expected:
                    raise ValueError(f"it has {table.num_rows} rows, {expected} are declared")
                table.validate(full=True)
            self._groups[number, group] = table
            self._bytes += table.nbytes
            while len(self._groups) > _GROUPS_KEPT and self._bytes > _BYTES_KEPT:
                oldest, gone = self._groups.popitem(last=False)
                self._columns_of.pop(oldest, None)
                self._bytes -= gone.nbytes
            return table

    def close(self) -> None:
        self._groups.clear()
        self._columns_of.clear()
        self._bytes = 0
        for file in self.__dict__.get("_files", []):
            file.file.close(force=True)


def _column(stored: Any) -> Column:
    """Arrow's column as an array, as lists of numbers, or as a list of what else there is."""
    from pyarrow import types

    array = stored.combine_chunks()
    if array.null_count == 0:
        if _is_number(array.type):
            return np.asarray(array.to_numpy(zero_copy_only=False))
        if types.is_list(array.type) or types.is_large_list(array.type):
            numbers = array.flatten()
            if _is_number(numbers.type) and numbers.null_count == 0:
                offsets = array.offsets.to_numpy().astype(np.int64)
                return Lists(np.asarray(numbers.to_numpy(zero_copy_only=False)), offsets - offsets[0])
    values: list[Any] = array.to_pylist()
    return values


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _reopen(paths: list[str], columns: Sequence[str] | None) -> ParquetReader:
    return ParquetReader(paths, columns=columns)
