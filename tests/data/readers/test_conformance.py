"""One suite for every reader: what holds for one holds for all."""

from __future__ import annotations

import json
import pickle
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pliant.core.errors import InvalidRequest
from pliant.data import DataReader, MapDataset, OutOfRange, RecordIOReader, RecordIOWriter, RecordRange, open_reader
from pliant.data.contract import ShardRange
from pliant.data.packing import ImageFolder, pack_image
from pliant.data.readers.custom import CustomReader

SIZES = (130, 1, 70)  # records of three files, more than one mark of the line index in the first
TOTAL = sum(SIZES)
ROWS = [{"id": str(i), "text": f'line "{i}",\n{"x" * (i % 7)}'} for i in range(TOTAL)]


def parts() -> Iterator[tuple[int, list[dict[str, str]]]]:
    start = 0
    for number, size in enumerate(SIZES):
        yield number, ROWS[start : start + size]
        start += size


@dataclass
class Case:
    reader: DataReader
    expected: list[Any]
    parts: int = 3


def recordio(folder: Path) -> Case:
    for number, rows in parts():
        with RecordIOWriter(folder / f"{number}.rio", max_chunk_bytes=200) as writer:
            writer.write_all(row["text"].encode() for row in rows)
    return Case(open_reader(folder), [row["text"].encode() for row in ROWS])


def recordio_snappy(folder: Path) -> Case:
    for number, rows in parts():
        with RecordIOWriter(folder / f"{number}.rio", max_chunk_bytes=200, compressor="snappy") as writer:
            writer.write_all(row["text"].encode() for row in rows)
    return Case(open_reader(folder), [row["text"].encode() for row in ROWS])


def array_record(folder: Path) -> Case:
    library = pytest.importorskip("array_record.python.array_record_module")
    for number, rows in parts():
        writer = library.ArrayRecordWriter(str(folder / f"{number}.array_record"), "group_size:8")
        for row in rows:
            writer.write(row["text"].encode())
        writer.close()
    return Case(open_reader(folder), [row["text"].encode() for row in ROWS])


def parquet(folder: Path) -> Case:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for number, rows in parts():
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{number}.parquet", row_group_size=32)
    return Case(open_reader(str(folder / "*.parquet")), ROWS)


def csv_files(folder: Path) -> Case:
    for number, rows in parts():
        lines = ["id,text\r\n"]
        for row in rows:
            lines.append('{},"{}"\r\n'.format(row["id"], row["text"].replace('"', '""')))
            lines.append("\r\n" if int(row["id"]) % 5 == 0 else "")
        (folder / f"{number}.csv").write_bytes("".join(lines).encode())
    return Case(open_reader(folder), ROWS)


def jsonl(folder: Path) -> Case:
    for number, rows in parts():
        (folder / f"{number}.jsonl").write_text("\n".join(json.dumps(row) + "\n" * (number % 2) for row in rows))
    return Case(open_reader(folder), ROWS)


def npy(folder: Path) -> Case:
    values = np.arange(TOTAL * 3).reshape(TOTAL, 3)
    start = 0
    for number, size in enumerate(SIZES):
        np.save(folder / f"{number}.npy", values[start : start + size])
        start += size
    return Case(open_reader(folder), [row.tolist() for row in values])


def npz(folder: Path) -> Case:
    x, y = np.arange(TOTAL * 2.0).reshape(TOTAL, 2), np.arange(TOTAL)
    np.savez(folder / "all.npz", x=x, y=y)
    expected = [{"x": x[i].tolist(), "y": int(y[i])} for i in range(TOTAL)]
    return Case(open_reader(folder / "all.npz"), expected, parts=1)


def sql(folder: Path) -> Case:
    with sqlite3.connect(folder / "data.db") as database:
        database.execute("create table samples (id integer primary key, text text)")
        database.executemany("insert into samples values (?, ?)", [(i * 3, row["text"]) for i, row in enumerate(ROWS)])
    database.close()
    reader = open_reader(f"sqlite:///{folder / 'data.db'}", table="samples", columns=["text"])
    return Case(reader, [{"text": row["text"]} for row in ROWS], parts=1)


def memory(folder: Path) -> Case:
    return Case(open_reader(ROWS), ROWS, parts=1)


def images(folder: Path) -> Case:
    expected = []
    for label, name in enumerate(("cat", "dog")):
        (folder / name).mkdir()
        for i in range(5):
            (folder / name / f"{i}.png").write_bytes(b"image %d" % i)
            expected.append(pack_image(f"{name}/{i}.png", name, label, b"image %d" % i))
    return Case(ImageFolder(folder), expected, parts=1)


class Own(DataReader):
    """The least that a user must write."""

    def create_shards(self) -> dict[str, int]:
        return {f"part {number}": len(rows) for number, rows in parts()}

    def read_records(self, shard: ShardRange) -> Iterator[Any]:
        rows = {f"part {number}": rows for number, rows in parts()}[shard.name]
        yield from rows[shard.start : shard.end]


class Foreign:
    """As written for ElasticDL: names with (start, count), tasks with shard_name."""

    def create_shards(self) -> dict[str, tuple[int, int]]:
        return {"a": (100, 50), "b": (0, TOTAL - 50)}

    def read_records(self, task: Any) -> Iterator[Any]:
        first = {"a": -100, "b": 50}[task.shard_name]
        yield from ROWS[first + task.start : first + task.end]


def own(folder: Path) -> Case:
    return Case(open_reader(folder, custom_data_reader=lambda path: Own()), ROWS)


def foreign(folder: Path) -> Case:
    return Case(open_reader("x", custom_data_reader=lambda path: Foreign()), ROWS, parts=2)


def remote(make: Callable[[Path], Case]) -> Callable[[Path], Case]:
    """The same files, in fsspec's memory file system."""

    def made(folder: Path) -> Case:
        import fsspec

        local = make(folder)
        fs = fsspec.filesystem("memory")
        where = f"/{folder.name}-{make.__name__}"
        fs.put(str(folder), where, recursive=True)
        return Case(open_reader(f"memory://{where}/*.*"), local.expected, local.parts)

    made.__name__ = f"remote_{make.__name__}"
    return made


LOCAL = [recordio, recordio_snappy, array_record, parquet, csv_files, jsonl, npy, npz]
OTHER = [sql, memory, images, own, foreign]


@pytest.fixture(params=[*LOCAL, *OTHER, *map(remote, LOCAL)], ids=lambda make: make.__name__)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    made: Case = request.param(tmp_path)
    yield made
    made.reader.close()


def plain(value: Any) -> Any:
    """NumPy's values as Python's, to compare."""
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def plains(values: Any) -> list[Any]:
    return [plain(value) for value in values]


def test_it_has_the_records_in_order(case: Case) -> None:
    assert len(case.reader) == len(case.expected)
    assert plains(case.reader) == case.expected


def test_its_parts_are_named_and_add_up(case: Case) -> None:
    shards = case.reader.create_shards()
    assert (len(shards), sum(shards.values())) == (case.parts, len(case.expected))


def test_the_records_of_all_parts_are_those_of_the_whole(case: Case) -> None:
    found: list[Any] = []
    for name, size in case.reader.create_shards().items():
        for start in range(0, size, 37):
            found += case.reader.read_records(RecordRange(name, start, min(start + 37, size)))
    assert plains(found) == case.expected


def test_any_range_is_read(case: Case) -> None:
    total = len(case.expected)
    for start, stop in ((0, 0), (0, 1), (3, 9), (total - 1, total), (total // 3, total)):
        assert plains(case.reader.read(start, stop)) == case.expected[start:stop]


def test_single_records_are_found_by_global_index(case: Case) -> None:
    total = len(case.expected)
    for index in (0, total // 2, total - 1, -1):
        assert plain(case.reader[index]) == case.expected[index]
    assert plains(case.reader[1:6:2]) == case.expected[1:6:2]


def test_records_are_fetched_together_in_the_order_asked_for(case: Case) -> None:
    total = len(case.expected)
    wanted = [total - 1, 0, 0, total // 2, 3, 4, 5, 2]
    assert plains(case.reader.fetch(wanted)) == [case.expected[i] for i in wanted]
    assert case.reader.fetch([]) == []


def read_shard(reader: DataReader, shard: RecordRange) -> list[Any]:
    """As the pipeline does it."""
    return [plain(record) for _, block in reader.blocks(reader.positions(shard), 10) for record in block]


def test_a_shard_can_list_its_records(case: Case) -> None:
    name = next(iter(case.reader.create_shards()))
    assert read_shard(case.reader, RecordRange(name, 0, 3, indices=(2, 0))) == [case.expected[2], case.expected[0]]


def test_a_shard_of_a_part_counts_within_it_and_one_of_a_dataset_over_all(case: Case) -> None:
    *before, name = case.reader.create_shards().items()
    first = sum(size for _, size in before)
    assert read_shard(case.reader, RecordRange(name[0], 0, name[1])) == case.expected[first:]
    assert read_shard(case.reader, RecordRange("the dataset", 1, len(case.expected))) == case.expected[1:]


def test_what_is_not_there_is_an_error(case: Case) -> None:
    total = len(case.expected)
    for ask in (
        lambda: case.reader[total],
        lambda: case.reader[-total - 1],
        lambda: list(case.reader.read(0, total + 1)),
    ):
        with pytest.raises(OutOfRange):
            ask()
    with pytest.raises(OutOfRange):
        case.reader.positions(RecordRange("the dataset", 0, total + 1))


def test_its_metadata_names_the_format(case: Case) -> None:
    assert case.reader.metadata.format


def test_it_says_where_a_record_is(case: Case) -> None:
    names = list(case.reader.create_shards())
    assert case.reader.locate(0) == (names[0], 0)
    assert case.reader.locate(len(case.expected) - 1)[0] == names[-1]


def test_it_can_be_sent_to_a_worker_process(case: Case) -> None:
    copy = pickle.loads(pickle.dumps(case.reader))  # noqa: S301  (as torch does with a dataset)
    assert plain(copy[1]) == case.expected[1]
    copy.close()


def test_it_serves_a_map_style_dataset(case: Case) -> None:
    dataset = MapDataset(case.reader, lambda record: [plain(record)])
    assert len(dataset) == len(case.expected)
    assert dataset[2] == [case.expected[2]]
    assert dataset.__getitems__([1, 0]) == [[case.expected[1]], [case.expected[0]]]


def test_a_foreign_object_without_the_methods_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="create_shards and no read_records"):
        CustomReader(object())


def test_the_reader_of_records_is_the_reader_of_shards(tmp_path: Path) -> None:
    with RecordIOWriter(tmp_path / "a.rio") as writer:
        writer.write(b"x")
    assert isinstance(open_reader(tmp_path / "a.rio"), RecordIOReader)
