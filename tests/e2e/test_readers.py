"""A job that is killed in the middle reads through every reader, and each record still counts once."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from array_record.python import array_record_module

from pliant.data import RecordIOWriter
from pliant.testing.jobs import LocalJob

pytestmark = pytest.mark.e2e

RECORDS = 240

PROGRAM = """
import json, os, sys, time
import pliant

def number(record):
    if isinstance(record, bytes):
        return int(record)
    return int(record["id"]) if isinstance(record, dict) else int(record[0])

job = pliant.connect()
with open(f"{sys.argv[2]}/{job.node}.{os.getpid()}", "w", buffering=1) as seen:
    for name, source in json.loads(sys.argv[1]).items():
        options = {"table": "samples"} if name == "sql" else {}
        for record in job.dataset(source, name=name, shard_size=8, shuffle=True, prefetch=32, reader_options=options):
            seen.write(f"{name} {number(record)}\\n")
            time.sleep(0.005)
"""


def make_sources(folder: Path) -> dict[str, str]:
    """The same records in every format; where there are files, in two of them."""
    ids = list(range(RECORDS))
    halves = [ids[: RECORDS // 3], ids[RECORDS // 3 :]]
    for name in ("recordio", "array_record", "parquet", "csv", "jsonl", "npy"):
        (folder / name).mkdir()
    for part, numbers in enumerate(halves):
        with RecordIOWriter(folder / "recordio" / f"{part}.rio", max_chunk_bytes=64) as writer:
            writer.write_all(str(i).encode() for i in numbers)
        array = array_record_module.ArrayRecordWriter(
            str(folder / "array_record" / f"{part}.array_record"), "group_size:4"
        )
        for i in numbers:
            array.write(str(i).encode())
        array.close()
        pq.write_table(pa.table({"id": numbers}), folder / "parquet" / f"{part}.parquet", row_group_size=16)
        (folder / "csv" / f"{part}.csv").write_text("id\n" + "".join(f"{i}\n" for i in numbers))
        (folder / "jsonl" / f"{part}.jsonl").write_text("".join(json.dumps({"id": i}) + "\n" for i in numbers))
        np.save(folder / "npy" / f"{part}.npy", np.array(numbers).reshape(-1, 1))
    with sqlite3.connect(folder / "table.db") as database:
        database.execute("create table samples (id integer primary key)")
        database.executemany("insert into samples values (?)", [(i,) for i in ids])
    database.close()
    sources = {name: str(folder / name) for name in ("recordio", "array_record", "parquet", "csv", "jsonl", "npy")}
    return {**sources, "sql": f"sqlite:///{folder / 'table.db'}"}


def test_a_killed_worker_loses_no_record_of_any_reader(tmp_path: Path) -> None:
    data, seen = tmp_path / "data", tmp_path / "seen"
    data.mkdir()
    seen.mkdir()
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    sources = make_sources(data)
    with LocalJob(tmp_path, [sys.executable, str(program), json.dumps(sources), str(seen)], workers=2) as job:
        for turn in range(1, len(sources) + 1):
            job.wait_for_progress(turn * RECORDS - RECORDS // 2)  # in the middle of each format
            job.kill_program(f"worker-{turn % 2}")
        assert job.wait() == 0
        accepted = Counter(
            (row.dataset, row.name, row.ordinal, place) for row in job.audit() for place in range(row.begin, row.end)
        )
        done = {dataset["name"]: dataset["records_done"] for dataset in job.summary()["datasets"]}
    assert done == dict.fromkeys(sources, RECORDS)
    assert set(accepted.values()) == {1}, "none twice"
    assert Counter(dataset for dataset, *_ in accepted) == dict.fromkeys(sources, RECORDS), "none missing"
    read = Counter(line for path in seen.iterdir() for line in path.read_text().splitlines())
    assert set(read) == {f"{name} {i}" for name in sources for i in range(RECORDS)}
