"""Inspect and convert data files.

    pliant data pack images/ -o train.rio
    pliant data info train.rio
    pliant data verify train.rio

Exit code: 0 success, 1 a file is corrupt, 2 a usage error.
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
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from pliant.cli.render.console import EscapingConsole
from pliant.cli.render.terminal import say
from pliant.core.errors import InvalidRequest
from pliant.core.plurals import counted
from pliant.data import DataReader, RecordIOReader, RecordIOWriter, open_reader
from pliant.data.files import expand
from pliant.data.opening import format_of
from pliant.data.packing import ImageFolder, pack_row, read_tolerantly
from pliant.data.recordio.check import FileReport, describe, verify_file

DAMAGED = 1  # exit code

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

Skip = Annotated[bool, typer.Option("--skip-corrupt", help="Skip corrupt data and report how much was skipped.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Compressor = Annotated[str, typer.Option(help="none, snappy or gzip.")]
ChunkBytes = Annotated[int | None, typer.Option(help="Maximum bytes of records per chunk. [default: by record size]")]


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
        list[str], typer.Argument(help="CSV, JSON Lines, Parquet or RecordIO files, or a directory of images.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The RecordIO file to write.")],
    kind: Annotated[Kind, typer.Option("--from", help="Source format, if the file name does not show it.")] = Kind.AUTO,
    compressor: Compressor = "none",
    max_chunk_bytes: ChunkBytes = None,
    skip_corrupt: Skip = False,
    as_json: AsJson = False,
) -> None:
    """Pack other formats into one RecordIO file. Rows become JSON; images keep their path, class and label."""
    reader = _open_source(source, kind, skip_corrupt)
    records, skipped = _records(reader, 0, len(reader), skip_corrupt)
    with RecordIOWriter(output, compressor=compressor, max_chunk_bytes=max_chunk_bytes) as writer:
        for record in _with_progress(records, len(reader), "packing"):
            writer.write(pack_row(record))
    size = output.stat().st_size
    if as_json:
        print(json.dumps({"file": str(output), "records": writer.records, "chunks": writer.chunks, "bytes": size}))
    else:
        say(f"{output}: {writer.records} records in {writer.chunks} chunks, {size} bytes")
    _report_skipped(skipped)


def _open_source(source: list[str], kind: Kind, skip_corrupt: bool) -> DataReader:
    only = source[0] if len(source) == 1 else None
    if kind is Kind.IMAGES or (kind is Kind.AUTO and only and _has_folders_only(only)):
        if only is None:
            raise InvalidRequest("images can be packed from only one directory at a time")
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
    paths: Annotated[list[str], typer.Argument(help="RecordIO files, directories or globs.")], as_json: AsJson = False
) -> None:
    """Show records, chunks, compression and sizes of RecordIO files. Reads headers only."""
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
    EscapingConsole().print(table)


@app.command()
def cat(
    paths: Annotated[list[str], typer.Argument(help="Files in any supported format.")],
    start: Annotated[int, typer.Option(min=0, help="Index of the first record to show.")] = 0,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=0, help="Number of records to show. [default: all]")
    ] = None,
    show: Annotated[
        Show, typer.Option("--as", help="text: decoded where possible; raw: bytes without separators.")
    ] = Show.TEXT,
    skip_corrupt: Skip = False,
    as_json: AsJson = False,
) -> None:
    """Print records, one per line. With --json, each is an object with the record as `value`."""
    reader = _open_source(paths, Kind.AUTO, skip_corrupt)
    stop = len(reader) if count is None else min(len(reader), start + count)
    records, skipped = _records(reader, min(start, stop), stop, skip_corrupt)
    for record in records:
        if as_json:
            print(json.dumps({"value": _shown(record, Show.TEXT if show is Show.RAW else show)}))
        elif show is Show.RAW:
            sys.stdout.buffer.write(pack_row(record))
        else:
            say(str(_shown(record, show)))
    sys.stdout.flush()
    _report_skipped(skipped)


def _shown(record: Any, show: Show) -> str | int:
    raw = pack_row(record)
    if show is Show.LENGTH:
        return len(raw)
    if show is Show.HEX:
        return raw.hex()
    text = raw.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@app.command()
def verify(
    paths: Annotated[list[str], typer.Argument(help="RecordIO files, directories or globs.")], as_json: AsJson = False
) -> None:
    """Verify RecordIO files and list every corrupt chunk. Exits 1 if there are any."""
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
            state = f"{counted(len(report.damages), 'corrupt chunk')}" if report.damages else "intact"
            say(f"{report.path}: {state}, {report.records} records in {report.chunks} good chunks")
            for damage in report.damages:
                lost = "" if damage.records is None else f" ({damage.records} records)"
                say(f"  chunk {damage.chunk} at byte {damage.offset}: {damage.reason}{lost}")
    if any(report.damages for report in reports):
        raise typer.Exit(DAMAGED)


@app.command()
def split(
    paths: Annotated[list[str], typer.Argument(help="RecordIO files, directories or globs.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Output directory.")],
    parts: Annotated[
        int | None, typer.Option(min=1, help="Number of output files (about equal record counts).")
    ] = None,
    records: Annotated[int | None, typer.Option(min=1, help="Records per output file.")] = None,
    compressor: Compressor = "none",
    max_chunk_bytes: ChunkBytes = None,
    skip_corrupt: Skip = False,
    as_json: AsJson = False,
) -> None:
    """Split RecordIO files by number of files or by records per file."""
    if (parts is None) == (records is None):
        raise InvalidRequest("specify exactly one of --parts and --records")
    reader = RecordIOReader(paths, skip_corrupt=skip_corrupt)
    total = len(reader)
    cuts = _cuts(total, parts) if parts is not None else [*range(0, total, records or 1), total]
    output.mkdir(parents=True, exist_ok=True)
    stream = iter(_with_progress(reader, total, "splitting"))
    written: list[dict[str, Any]] = []
    for number, (first, behind) in enumerate(pairwise(cuts)):
        path = output / f"part-{number:05d}-of-{len(cuts) - 1:05d}.rio"
        with RecordIOWriter(path, compressor=compressor, max_chunk_bytes=max_chunk_bytes) as writer:
            for _ in range(behind - first):
                writer.write(next(stream))
        written.append({"file": str(path), "records": writer.records})
        if not as_json:
            say(f"{path}: {writer.records} records")
    if as_json:
        print(json.dumps(written, indent=1))
    _report_skipped([str(damage) for damage in reader.skipped])


def _cuts(total: int, parts: int) -> list[int]:
    return [total * number // parts for number in range(parts + 1)]


def _bar() -> Progress:
    """On the error stream, so that what is printed can be piped; quiet where that is no terminal."""
    console = EscapingConsole(stderr=True)
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
            say(f"skipped: {line}", to_stderr=True)
        say(f"skipped {counted(len(skipped), 'corrupt part')}", to_stderr=True)
