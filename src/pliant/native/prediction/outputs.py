"""Predictions as one file: RecordIO (a row is JSON, or the bytes that the processor returned), Parquet, CSV or JSON lines.

The file appears whole or not at all: until then everything is in a folder beside it, of the job's own. CSV spreads a list over
columns ``prediction_0``, ``prediction_1``, …
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from pliant.core.errors import InvalidRequest
from pliant.data.errors import MissingLibrary
from pliant.data.recordio.writer import RecordIOWriter
from pliant.files.atomic import atomic_path

FORMATS = {".rio": "recordio", ".recordio": "recordio", ".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl"}
BLOCK = 8192  # rows of a group in Parquet


def format_of(path: Path, given: str = "") -> str:
    name = given.lower() or FORMATS.get(path.suffix.lower(), "")
    if name not in set(FORMATS.values()):
        known = ", ".join(FORMATS)
        what = f"--output-format {given!r}" if given else f"the suffix of {path.name!r}"
        raise InvalidRequest(f"{what} is not a prediction format", hint=f"use one of the suffixes {known}")
    return name


def parts_folder(output: Path, job: str) -> Path:
    """Where a job keeps what is not yet the output."""
    return output.with_name(f".{output.name}.{job}.parts")


def write_output(path: Path, given: str, rows: Iterable[bytes], parts: Path | None = None) -> None:
    """``parts``: a folder on the same disk, for the file while it is written."""
    write = {"recordio": _recordio, "parquet": _parquet, "csv": _csv, "jsonl": _jsonl}[format_of(path, given)]
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path, folder=parts) as temporary:
        write(temporary, iter(rows))


def _recordio(path: Path, rows: Iterator[bytes]) -> None:
    with RecordIOWriter(path) as writer:
        writer.write_all(rows)


def _jsonl(path: Path, rows: Iterator[bytes]) -> None:
    with path.open("wb") as file:
        file.writelines(row + b"\n" for row in rows)


def _csv(path: Path, rows: Iterator[bytes]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer: csv.DictWriter[str] | None = None
        for row in map(_spread, map(_as_json, rows)):
            if writer is None:
                writer = csv.DictWriter(file, list(row))
                writer.writeheader()
            _check_columns(row, list(writer.fieldnames))
            writer.writerow(row)


def _parquet(path: Path, rows: Iterator[bytes]) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingLibrary("Parquet", "pyarrow") from None
    writer = None
    columns: list[str] = []
    try:
        while block := [_as_json(row) for row in islice(rows, BLOCK)]:
            columns = columns or list(block[0])
            for row in block:
                _check_columns(row, columns)
            try:
                table = pa.Table.from_pylist(block, schema=writer.schema if writer is not None else None)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
                first = block[0].get("id")
                raise InvalidRequest(
                    f"rows from {first} on have values of different types than earlier rows: {error}"
                ) from None
            if writer is None:
                writer = pq.ParquetWriter(path, table.schema)
            writer.write_table(table)
        if writer is None:
            pq.write_table(pa.table({"id": pa.array([], pa.int64())}), path)
    finally:
        if writer is not None:
            writer.close()


def _check_columns(row: dict[str, Any], columns: list[str]) -> None:
    if list(row) != columns:
        raise InvalidRequest(
            f"row {row.get('id')} has columns {', '.join(row)}, earlier rows have {', '.join(columns)}",
            hint="the processor must return the same columns for all records, or use an output file *.jsonl",
        )


def _as_json(row: bytes) -> dict[str, Any]:
    try:
        value = json.loads(row)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InvalidRequest(
            "the processor returned bytes, which only RecordIO can hold", hint="use an output file *.rio"
        )
    return value


def _spread(row: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, list):
            flat |= {f"{name}_{i}": one for i, one in enumerate(value)}
        else:
            flat[name] = value
    return flat
