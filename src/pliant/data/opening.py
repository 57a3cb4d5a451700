"""From a path to a reader: by suffix, else by the first bytes, else an error that lists the known formats.

Readers are imported when they are chosen, so that ``import pliant.data`` needs none of their libraries.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, cast

from pliant.core.errors import InvalidRequest
from pliant.data.contract import DataReader
from pliant.data.files import PathLike, Paths, expand, open_binary

_READERS = {  # format: suffixes, and the class that reads it
    "recordio": ((".rio", ".recordio"), "recordio.reader:RecordIOReader"),
    "array_record": ((".array_record", ".arrayrecord"), "readers.array_record:ArrayRecordReader"),
    "parquet": ((".parquet", ".pq"), "readers.parquet:ParquetReader"),
    "csv": ((".csv", ".tsv"), "readers.text:CsvReader"),
    "jsonl": ((".jsonl", ".ndjson"), "readers.text:JsonLinesReader"),
    "numpy": ((".npy", ".npz"), "readers.numpy_files:NumpyReader"),
    "sql": ((), "readers.sql:SqlReader"),
}
_BEGINNINGS = {b"\x04\x03\x02\x01": "recordio", b"PAR1": "parquet", b"\x93NUM": "numpy"}
_DATABASES = ("sqlite", "postgresql", "mysql", "mariadb", "oracle", "mssql")


def known_formats() -> str:
    return ", ".join(f"{name} ({', '.join(suffixes) or 'a database URL'})" for name, (suffixes, _) in _READERS.items())


def open_reader(
    source: Paths | Sequence[Any],
    *,
    format: str | None = None,
    custom_data_reader: Callable[..., Any] | None = None,
    **options: Any,
) -> DataReader:
    """The reader for a file, folder, glob, list of files, database URL, or sequence in memory.

    ``format`` overrules the guess. ``custom_data_reader``: a user's function that is called with the source and the options
    and returns a reader of its own. Other options are those of the reader.
    """
    from pliant.data.readers.custom import CustomReader
    from pliant.data.readers.memory import MemoryReader

    if custom_data_reader is not None:
        made = custom_data_reader(source, **options)
        if isinstance(made, DataReader):
            return made
        is_sequence = hasattr(made, "__len__") and hasattr(made, "__getitem__") and not hasattr(made, "create_shards")
        return MemoryReader(made) if is_sequence else CustomReader(made)
    if isinstance(source, (str, os.PathLike)) or _is_paths(source):
        paths = cast(Paths, source)
        return _open(format or format_of(paths), paths, options)
    return MemoryReader(cast(Sequence[Any], source), **options)


def _is_paths(source: Any) -> bool:
    return isinstance(source, (list, tuple)) and bool(source) and all(isinstance(s, os.PathLike | str) for s in source)


def _open(format: str, paths: Paths, options: dict[str, Any]) -> DataReader:
    if format not in _READERS:
        raise InvalidRequest(f"unknown format {format!r}", hint=f"known: {known_formats()}")
    module, name = _READERS[format][1].split(":")
    kind = getattr(import_module(f"pliant.data.{module}"), name)
    if format == "csv" and "delimiter" not in options and all(f.endswith(".tsv") for f in expand(paths)):
        options = {**options, "delimiter": "\t"}
    try:
        inspect.signature(kind).bind(paths, **options)
    except TypeError as error:
        raise InvalidRequest(f"{name}: {error}", hint=f"signature: {name}{inspect.signature(kind)}") from None
    return cast(DataReader, kind(paths, **options))


def format_of(paths: Paths) -> str:
    if isinstance(paths, str) and "://" in paths and paths.split(":")[0].split("+")[0] in _DATABASES:
        return "sql"
    files = expand(paths)
    found = {_format_of_file(file): file for file in files}
    if len(found) > 1:
        what = ", ".join(f"{name} ({file})" for name, file in found.items())
        raise InvalidRequest(f"files of several formats cannot be opened together: {what}", hint="open them separately")
    return next(iter(found))


def _format_of_file(file: PathLike) -> str:
    name = os.fspath(file)
    for format, (suffixes, _) in _READERS.items():
        if suffixes and name.lower().endswith(suffixes):
            return format
    with open_binary(name) as opened:
        beginning = opened.read(4)
    if beginning in _BEGINNINGS:
        return _BEGINNINGS[beginning]
    raise InvalidRequest(
        f"cannot detect the format of {name} from its name or first bytes", hint=f"known: {known_formats()}"
    )
