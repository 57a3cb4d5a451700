"""Look into data files and convert them.

    pliant data pack images/ -o train.rio
    pliant data info train.rio
    pliant data verify train.rio

Exit codes: 0 fine, 1 a file is damaged, 2 a mistake in the command.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from pliant.core.errors import InvalidRequest
from pliant.data import DataReader, RecordIOReader, RecordIOWriter, open_reader
from pliant.data.files import expand
from pliant.data.opening import format_of
from pliant.data.packing import ImageFolder, pack_row, read_tolerantly
from pliant.data.recordio.check import FileReport, describe, verify_file

DAMAGED = 1  # exit code

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

Skip = Annotated[bool, typer.Option("--skip-corrupt", help="Leave out what is damaged, and say how much that was.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")]
Compressor = Annotated[str, typer.Option(help="none, snappy or gzip.")]
ChunkBytes = Annotated[
    int | None, typer.Option(help="Most bytes of records in a chunk; default: chosen by record size.")
]


class Kind(StrEnum):
    AUTO = "auto"
    IMAGES = "images"
    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    RECORDIO = "recordio"


class Show(StrEnum):
    TEXT = "text"
    HEX = "hex"
    RAW = "raw"
    LENGTH = "length"


@app.command()
def pack(
    source: Annotated[
        list[str], typer.Argument(help="CSV, JSON lines, Parquet or RecordIO files, or a folder of images.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The RecordIO file to write.")],
    kind: Annotated[Kind, typer.Option("--from", help="Format of the source, if its name does not say.")] = Kind.AUTO,
    compressor: Compressor = "none",
    max_chunk_bytes: ChunkBytes = None,
    skip_corrupt: Skip = False,
) -> None:
    """Pack other formats into one RecordIO file. Rows become JSON; images keep their path, class and label."""
    reader = _open_source(source, kind, skip_corrupt)
    records, skipped = _records(reader, 0, len(reader), skip_corrupt)
    with RecordIOWriter(output, compressor=compressor, max_chunk_bytes=max_chunk_bytes) as writer:
        for record in _with_progress(records, len(reader), "packing"):
            writer.write(pack_row(record))
    print(f"{output}: {writer.records} records in {writer.chunks} chunks, {output.stat().st_size} bytes")
    _report_skipped(skipped)


def _open_source(source: list[str], kind: Kind, skip_corrupt: bool) -> DataReader:
    only = source[0] if len(source) == 1 else None
    if kind is Kind.IMAGES or (kind is Kind.AUTO and only and _has_folders_only(only)):
        if only is None:
            raise InvalidRequest("images are packed from one folder at a time")
        return ImageFolder(only)
    format = format_of(source) if kind is Kind.AUTO else kind.value
    if format == "recordio":
        return RecordIOReader(source, skip_corrupt=skip_corrupt)
    return open_reader(source, format=format)


def _records(reader: DataReader, start: int, stop: int, skip_corrupt: bool) -> tuple[Iterable[Any], list[str]]:
    """The records, and a list that will hold what had to be left out when they have been read."""
    skipped = [str(damage) for damage in reader.skipped] if isinstance(reader, RecordIOReader) else []
    if not skip_corrupt:
        return reader.read(start, stop), skipped
    return read_tolerantly(reader, start, stop, lambda error: skipped.append(error.message)), skipped


def _has_folders_only(path: str) -> bool:
    return os.path.isdir(path) and not any(entry.is_file() for entry in os.scandir(path))


@app.command()
def info(
    paths: Annotated[list[str], typer.Argument(help="RecordIO files, folders or globs.")], as_json: AsJson = False
) -> None:
    """What is in RecordIO files: records, chunks, compression, sizes. Reads headers only."""
    found = [describe(path) for path in expand(paths)]
    if as_json:
        print(json.dumps([report.to_json() for report in found], indent=2))
        return
    table = Table("file", "records", "chunks", "bytes", "compression", "dialect", "largest chunk")
    for report in found:
        numbers = (f"{n:,}" for n in (report.records, report.chunks, report.size))
        table.add_row(
            report.path,
            *numbers,
            ", ".join(report.compressions),
            ", ".join(report.dialects),
            f"{report.largest_chunk:,}",
        )
    if len(found) > 1:
        table.add_row("all", f"{sum(r.records for r in found):,}", f"{sum(r.chunks for r in found):,}")
    Console(markup=False).print(table)


@app.command()
def cat(
    paths: Annotated[list[str], typer.Argument(help="Files of any format that Pliant reads.")],
    start: Annotated[int, typer.Option(min=0, help="Number of the first record to show.")] = 0,
    count: Annotated[int | None, typer.Option("--count", "-n", min=0, help="How many to show; default: all.")] = None,
    show: Annotated[
        Show, typer.Option("--as", help="text: as text where it is text; raw: the bytes, nothing between them.")
    ] = Show.TEXT,
    skip_corrupt: Skip = False,
) -> None:
    """Print records, one a line."""
    reader = _open_source(paths, Kind.AUTO, skip_corrupt)
    stop = len(reader) if count is None else min(len(reader), start + count)
    records, skipped = _records(reader, min(start, stop), stop, skip_corrupt)
    for record in records:
        _print_record(record, show)
    sys.stdout.flush()
    _report_skipped(skipped)


def _print_record(record: Any, show: Show) -> None:
    raw = pack_row(record)
    if show is Show.RAW:
        sys.stdout.buffer.write(raw)
    elif show is Show.LENGTH:
        print(len(raw))
    elif show is Show.HEX:
        print(raw.hex())
    else:
        text = raw.decode("utf-8", "backslashreplace")
        print("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text))


@app.command()
def verify(
    paths: Annotated[list[str], typer.Argument(help="RecordIO files, folders or globs.")], as_json: AsJson = False
) -> None:
    """Check every byte of RecordIO files and name every damaged chunk. Exit code 1 if there is one."""
    files = expand(paths)
    total = sum(os.path.getsize(path) for path in files if os.path.exists(path))
    reports: list[FileReport] = []
    with _bar() as progress:
        task = progress.add_task("checking", total=total)
        before = 0
        for path in files:
            report = verify_file(path, lambda offset, before=before: progress.update(task, completed=before + offset))  # type: ignore[misc]
            reports.append(report)
            before += report.size
    if as_json:
        print(json.dumps([report.to_json() for report in reports], indent=2))
    else:
        for report in reports:
            state = f"{len(report.damages)} damaged chunks" if report.damages else "intact"
            print(f"{report.path}: {state}, {report.records} records in {report.chunks} good chunks")
            for damage in report.damages:
                lost = "" if damage.records is None else f" ({damage.records} records)"
                print(f"  chunk {damage.chunk} at byte {damage.offset}: {damage.reason}{lost}")
    if any(report.damages for report in reports):
        raise typer.Exit(DAMAGED)


@app.command()
def split(
    paths: Annotated[list[str], typer.Argument(help="RecordIO files, folders or globs.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write into.")],
    parts: Annotated[
        int | None, typer.Option(min=1, help="Number of files, of about equal numbers of records.")
    ] = None,
    records: Annotated[int | None, typer.Option(min=1, help="Number of records per file.")] = None,
    compressor: Compressor = "none",
    max_chunk_bytes: ChunkBytes = None,
    skip_corrupt: Skip = False,
) -> None:
    """Cut RecordIO files into several, by number of files or of records."""
    if (parts is None) == (records is None):
        raise InvalidRequest("give exactly one of --parts and --records")
    reader = RecordIOReader(paths, skip_corrupt=skip_corrupt)
    total = len(reader)
    cuts = _cuts(total, parts) if parts is not None else [*range(0, total, records or 1), total]
    output.mkdir(parents=True, exist_ok=True)
    stream = iter(_with_progress(reader, total, "splitting"))
    for number, (first, behind) in enumerate(pairwise(cuts)):
        path = output / f"part-{number:05d}-of-{len(cuts) - 1:05d}.rio"
        with RecordIOWriter(path, compressor=compressor, max_chunk_bytes=max_chunk_bytes) as writer:
            for _ in range(behind - first):
                writer.write(next(stream))
        print(f"{path}: {writer.records} records")
    _report_skipped([str(damage) for damage in reader.skipped])


def _cuts(total: int, parts: int) -> list[int]:
    return [total * number // parts for number in range(parts + 1)]


def _bar() -> Progress:
    """On the error stream, so that what is printed can be piped; quiet where that is no terminal."""
    console = Console(stderr=True, markup=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _with_progress(records: Iterable[Any], total: int, what: str) -> Iterator[Any]:
    with _bar() as progress:
        task = progress.add_task(what, total=total)
        for number, record in enumerate(records):
            if number % 1024 == 0:
                progress.update(task, completed=number)
            yield record
        progress.update(task, completed=total)


def _report_skipped(skipped: list[str]) -> None:
    if skipped:
        for line in skipped:
            print(f"skipped: {line}", file=sys.stderr)
        print(f"{len(skipped)} damaged parts were skipped", file=sys.stderr)
