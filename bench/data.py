"""How fast records come off a warm page cache: RecordIO beside ArrayRecord, Parquet, TFRecord-like loops, MDS and a plain copy.

    python bench/data.py [--quick] [--rounds N] [--json] [--no-mds] [--cpu] [--chunks] [--dir FOLDER]

1e6 records of 100 B and 1e5 of 10 KB; all in sequence, and 200 random ranges of 512. Every run opens its file anew, so RecordIO's
checksums are compared in every run (``again`` rows: the same open reader a second time). The cases take turns, and the median of
the rounds counts. What matters are the ratios within one run.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq
from array_record.python import array_record_module as array_record
from harness import finish, machine, peer_environment
from rich.console import Console
from rich.table import Table

from pliant.data import MapDataset, RecordIOReader, RecordIOWriter, records_of
from pliant.data.contract import DataReader

RANGES, RANGE = 200, 512
Case = Callable[[], int]  # gives the number of records it read
clock = time.perf_counter


def count(records: Iterable[Any]) -> int:
    number = 0
    for _ in records:
        number += 1
    return number


class Data:
    """One set of records, and where the ranges begin."""

    def __init__(self, folder: Path, records: int, size: int, vary: bool = False) -> None:
        self.folder, self.number, self.size, self.vary = folder, records, size, vary
        generator = random.Random(7)
        self.starts = [generator.randrange(records - RANGE) for _ in range(RANGES)]

    def __iter__(self) -> Iterator[bytes]:
        generator = random.Random(1)
        block = generator.randbytes(self.size * 2)
        for _ in range(self.number):
            at = generator.randrange(self.size)
            length = generator.randrange(self.size // 2, self.size * 3 // 2) if self.vary else self.size
            yield block[at : at + min(length, 2 * self.size - at)] if self.vary else block[at : at + length]

    def path(self, name: str) -> str:
        return str(self.folder / f"{name}-{self.size}{'-vary' if self.vary else ''}")


# --- RecordIO


def write_recordio(data: Data, **options: Any) -> str:
    path = data.path(f"recordio{options.get('max_chunk_bytes', '')}") + ".rio"
    with RecordIOWriter(path, **options) as writer:
        writer.write_all(data)
    return path


def recordio_cases(data: Data, path: str) -> dict[str, tuple[Case, Case]]:
    kept = RecordIOReader(path)

    def ranges(reader: RecordIOReader, **how: Any) -> int:
        return sum(len(reader.read(start, start + RANGE, **how)) for start in data.starts)

    def views(reader: RecordIOReader) -> int:
        return sum(len(reader.read(at, min(at + 256, data.number), copy=False)) for at in range(0, data.number, 256))

    return {
        "recordio": (lambda: count(RecordIOReader(path)), lambda: ranges(RecordIOReader(path))),
        "recordio, again": (lambda: count(kept), lambda: ranges(kept)),
        "recordio, views": (lambda: views(RecordIOReader(path)), lambda: ranges(RecordIOReader(path), copy=False)),
    }


# --- peers


def array_record_cases(data: Data, group: int) -> dict[str, tuple[Case, Case]]:
    path = data.path(f"array{group}") + ".array_record"
    writer = array_record.ArrayRecordWriter(path, f"group_size:{group},uncompressed")
    for record in data:
        writer.write(record)
    writer.close()

    def sequence() -> int:
        reader = array_record.ArrayRecordReader(path)
        return sum(count(reader.read(a, min(a + 8192, data.number))) for a in range(0, data.number, 8192))

    def ranges() -> int:
        reader = array_record.ArrayRecordReader(path, "readahead_buffer_size:0,max_parallelism:0")
        return sum(len(reader.read(start, start + RANGE)) for start in data.starts)

    return {f"array_record, groups of {group}": (sequence, ranges)}


def parquet_cases(data: Data) -> dict[str, tuple[Case, Case]]:
    path = data.path("parquet") + ".parquet"
    table = pa.table({"record": pa.array(list(data), pa.binary())})
    pq.write_table(table, path, row_group_size=8192, compression="none", use_dictionary=False)
    del table

    def sequence() -> int:
        return sum(count(b.column(0).to_pylist()) for b in pq.ParquetFile(path).iter_batches(8192))

    def ranges() -> int:
        file, found = pq.ParquetFile(path), 0
        for start in data.starts:
            first, last = start // 8192, (start + RANGE - 1) // 8192
            table = file.read_row_groups(list(range(first, last + 1)))
            found += len(table.column(0).slice(start - first * 8192, RANGE).to_pylist())
        return found

    return {"parquet, row groups of 8192": (sequence, ranges)}


def tfrecord_cases(data: Data) -> dict[str, tuple[Case, Case]]:
    """u64 length, u32 CRC of it, bytes, u32 CRC of them; the CRCs unmasked, which costs nothing."""
    path = data.path("tfrecord")
    offsets: list[int] = []
    with open(path, "wb") as file:
        for record in data:
            offsets.append(file.tell())
            length = struct.pack("<Q", len(record))
            file.write(length + struct.pack("<I", google_crc32c.value(length)) + record)
            file.write(struct.pack("<I", google_crc32c.value(record)))
    unpack, unpack_crc, crc = struct.Struct("<Q4x").unpack_from, struct.Struct("<I").unpack_from, google_crc32c.value

    def loop(position: int, records: int, view: mmap.mmap, check: bool) -> Iterator[bytes]:
        for _ in range(records):
            end = position + 12 + unpack(view, position)[0]
            record = view[position + 12 : end]
            if check and crc(record) != unpack_crc(view, end)[0]:
                raise ValueError("damaged")
            yield record
            position = end + 4

    def open_map() -> mmap.mmap:
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def sequence(check: bool) -> int:
        view, position, number, end = open_map(), 0, 0, os.path.getsize(path)
        while position < end:
            behind = position + 12 + unpack(view, position)[0]
            record = view[position + 12 : behind]
            if check and crc(record) != unpack_crc(view, behind)[0]:
                raise ValueError("damaged")
            position = behind + 4
            number += 1
        return number

    def ranges(check: bool) -> int:
        view = open_map()
        return sum(len(list(loop(offsets[start], RANGE, view, check))) for start in data.starts)

    return {
        "bare loop, CRC": (lambda: sequence(True), lambda: ranges(True)),
        "bare loop, no CRC": (lambda: sequence(False), lambda: ranges(False)),
    }


def copy_cases(data: Data) -> dict[str, tuple[Case, Case]]:
    """The limit: the same bytes copied in pieces of 256 KiB out of one warm buffer."""
    source, piece = bytearray(64 << 20), 256 << 10
    target, view = bytearray(piece), memoryview(source)

    def copied(records: int) -> Case:
        def run() -> int:
            for at in range(0, records * data.size, piece):
                place = at % len(source)
                target[:] = view[place : place + piece]
            return records

        return run

    return {"memory copy": (copied(data.number), copied(RANGES * RANGE))}


MDS_SCRIPT = """
import json, sys, time, statistics, random
from streaming import MDSWriter
from streaming.base.local import LocalDataset
folder, number, size, ranges, width, rounds = sys.argv[1], *map(int, sys.argv[2:7])
block = random.Random(1).randbytes(2 * size)
with MDSWriter(out=folder, columns={"record": "bytes"}, size_limit=1 << 26) as out:
    for i in range(number):
        out.write({"record": block[i % size : i % size + size]})
data = LocalDataset(local=folder)
starts = [random.Random(7).randrange(number - width) for _ in range(ranges)]
def sequence():
    for i in range(number): data[i]
def some():
    for s in starts:
        for i in range(s, s + width): data[i]
def median(run):
    took = []
    for _ in range(rounds):
        begin = time.perf_counter(); run(); took.append(time.perf_counter() - begin)
    return statistics.median(took)
print("RESULT " + json.dumps([number / median(sequence), ranges * width / median(some)]))
"""


def mds_rates(data: Data, rounds: int) -> tuple[float, float] | None:
    """MDS needs its own torch and much else, so it runs in an environment of its own, which is kept."""
    peer = peer_environment("mds", ["mosaicml-streaming"], "import streaming")
    if peer.python is None:
        print(f"MDS is not run: {peer.reason}", file=sys.stderr)
        return None
    numbers = map(str, (data.number, data.size, RANGES, RANGE, rounds))
    command = [str(peer.python), "-c", MDS_SCRIPT, data.path("mds"), *numbers]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    found = [line for line in outcome.stdout.splitlines() if line.startswith("RESULT ")]
    if not found:
        print(f"MDS did not run: {outcome.stderr[-300:]}", file=sys.stderr)
        return None
    first, second = json.loads(found[0].removeprefix("RESULT "))
    return first, second


# --- our pipeline over our reader


class BenchShard:
    name = ""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end

    def indices(self) -> range:
        return range(self.start, self.end)

    def progress(self, records: int) -> None: ...

    def done(self) -> None: ...


def pipeline_cases(data: Data, path: str) -> dict[str, tuple[Case, Case]]:
    def shards(reader: DataReader) -> Iterator[BenchShard]:
        for start in range(0, len(reader), 4096):
            yield BenchShard(start, min(start + 4096, len(reader)))

    def pipeline() -> int:
        reader = RecordIOReader(path)
        return count(records_of(shards(reader), reader))

    def by_map() -> int:
        dataset = MapDataset(RecordIOReader(path))
        return sum(len(dataset.__getitems__(range(start, start + RANGE))) for start in data.starts)

    return {"pipeline over recordio": (pipeline, by_map)}


# --- running


def measure(cases: dict[str, Case], rounds: int) -> dict[str, float]:
    """Records a second, median over rounds in which the cases take turns."""
    took: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds + 1):
        for name, case in cases.items():
            begin = clock()
            records = case()
            if number:  # the first round warms the page cache and is not counted
                took[name].append((clock() - begin) / records)
    return {name: 1 / statistics.median(times) for name, times in took.items()}


def run(data: Data, rounds: int, with_mds: bool) -> dict[str, list[float]]:
    path = write_recordio(data)
    cases = recordio_cases(data, path)
    cases |= pipeline_cases(data, path)
    for group in (256, 1):
        cases |= array_record_cases(data, group)
    cases |= parquet_cases(data) | tfrecord_cases(data) | copy_cases(data)
    sequence = measure({name: case[0] for name, case in cases.items()}, rounds)
    ranges = measure({name: case[1] for name, case in cases.items()}, rounds)
    rates = {name: [sequence[name], ranges[name]] for name in cases}
    if with_mds and not data.vary and (found := mds_rates(data, min(rounds, 3))):
        rates["MDS"] = list(found)
    return rates


def chunk_sweep(data: Data, rounds: int) -> dict[str, list[float]]:
    """For choosing the default chunk size."""
    cases: dict[str, tuple[Case, Case]] = {}
    for size in (16, 32, 64, 128, 256, 512, 1024, 4096):
        path = write_recordio(data, max_chunk_bytes=size << 10)
        cases[f"chunks of {size} KiB"] = recordio_cases(data, path)["recordio"]
    sequence = measure({name: case[0] for name, case in cases.items()}, rounds)
    ranges = measure({name: case[1] for name, case in cases.items()}, rounds)
    return {name: [sequence[name], ranges[name]] for name in cases}


def show(console: Console, title: str, rates: dict[str, list[float]]) -> None:
    table = Table("", "in sequence /s", "ratio", "ranges of 512 /s", "ratio", title=title)
    own = next(iter(rates.values()))
    for name, (sequence, ranges) in rates.items():
        table.add_row(name, f"{sequence:,.0f}", f"{sequence / own[0]:.2f}", f"{ranges:,.0f}", f"{ranges / own[1]:.2f}")
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records, three rounds")
    parser.add_argument("--json", action="store_true", help="print the result as JSON on standard output")
    parser.add_argument("--no-mds", action="store_true")
    parser.add_argument("--chunks", action="store_true", help="only compare chunk sizes")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dir", type=Path, help="where the files are made (and removed)")
    parser.add_argument("--only", help="one set of records: '100 B', '10 KB' or '50 to 150 B'")
    parser.add_argument("--cpu", action="store_true", help="count CPU time, for a machine that others use too")
    arguments = parser.parse_args()
    if arguments.cpu:
        global clock
        clock = time.process_time
    scale, rounds = (10, 3) if arguments.quick else (1, arguments.rounds)
    folder = Path(tempfile.mkdtemp(prefix="pliant-bench-", dir=arguments.dir))
    console = Console(width=110, stderr=True)
    results: dict[str, dict[str, list[float]]] = {}
    try:
        for title, number, size, vary in (
            ("100 B", 1_000_000, 100, False),
            ("10 KB", 100_000, 10_000, False),
            ("50 to 150 B", 1_000_000, 100, True),
        ):
            if arguments.only and arguments.only != title:
                continue
            data = Data(folder, number // scale, size, vary)
            results[title] = chunk_sweep(data, rounds) if arguments.chunks else run(data, rounds, not arguments.no_mds)
            show(console, f"{data.number:,} records of {title}", results[title])
            for made in folder.iterdir():
                shutil.rmtree(made) if made.is_dir() else made.unlink()
    finally:
        shutil.rmtree(folder)
    finish({"machine": machine(), "rounds": rounds, "records_per_second": results}, arguments.json)


if __name__ == "__main__":
    main()
