"""What is particular to one format."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.core.errors import CorruptData, InvalidRequest, NotFound
from pliant.data import RecordIOWriter, open_reader
from pliant.data.readers import lines
from pliant.data.readers.text import CsvReader, JsonLinesReader


def test_an_unknown_format_says_what_is_known(tmp_path: Path) -> None:
    (tmp_path / "a.xyz").write_text("?")
    with pytest.raises(InvalidRequest, match=r"recordio \(\.rio, \.recordio\).*parquet.*jsonl"):
        open_reader(tmp_path / "a.xyz")
    with pytest.raises(InvalidRequest, match="known: recordio"):
        open_reader(tmp_path / "a.xyz", format="exotic")


def test_a_file_without_a_known_suffix_is_told_by_its_first_bytes(tmp_path: Path) -> None:
    with RecordIOWriter(tmp_path / "data-00000") as writer:
        writer.write(b"x")
    assert list(open_reader(tmp_path / "data-00000")) == [b"x"]


def test_a_path_without_files_and_mixed_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no file found at"):
        open_reader(tmp_path / "nothing.rio")
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "b.jsonl").write_text("1\n")
    with pytest.raises(InvalidRequest, match="several formats"):
        open_reader(tmp_path)
    with pytest.raises(InvalidRequest, match="more than once"):
        open_reader([tmp_path / "a.csv", tmp_path / "a.csv"])


def test_an_unknown_option_is_refused_with_those_that_exist(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    with pytest.raises(InvalidRequest, match="delimiter"):
        open_reader(tmp_path / "a.csv", separator=";")


def test_importing_the_package_imports_no_heavy_library() -> None:
    heavy = ("torch", "pyarrow", "tensorflow", "sqlalchemy", "numba", "fsspec")
    program = f"import sys, pliant.data; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(
        st.lists(st.text(st.sampled_from('ab",;\n\r é'), max_size=6), min_size=2, max_size=2).filter(any), max_size=200
    ),
    block=st.sampled_from([1, 7, 64, 1 << 20]),
)
def test_csv_is_cut_where_the_csv_module_cuts_it(
    rows: list[list[str]], block: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    import csv

    path = tmp_path_factory.mktemp("csv") / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["h1", "h2"], *rows])
    with path.open(newline="", encoding="utf-8") as file:
        expected = [row for row in csv.reader(file) if row][1:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_BLOCK", block)
        reader = CsvReader(path, header=True)
        assert [list(row.values()) for row in reader] == expected


def test_csv_columns_can_be_chosen_and_tsv_is_understood(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("\ufeffa\tb\tc\n1\t2\t3\n")
    reader = open_reader(tmp_path / "a.tsv", columns=["c", "a"])
    assert list(reader) == [{"c": "3", "a": "1"}]
    assert reader.metadata.column_names == ("c", "a")
    with pytest.raises(InvalidRequest, match="no column z"):
        list(open_reader(tmp_path / "a.tsv", columns=["z"]))


def test_csv_without_a_header_gives_lists(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2\n3,4")
    assert list(open_reader(tmp_path / "a.csv", header=False)) == [["1", "2"], ["3", "4"]]


def test_a_csv_record_with_too_few_fields_is_named_and_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n" + "1,2\n" * 5 + "1\n" + "1,2\n")
    reader = open_reader(tmp_path / "a.csv")
    assert reader[6] == {"a": "1", "b": "2"}
    with pytest.raises(CorruptData, match=r"a\.csv: record 5 has 1 fields"):
        list(reader)


def test_a_line_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("1\n" * 70 + "{oops\n")
    with pytest.raises(CorruptData, match="record 70 is not JSON"):
        open_reader(tmp_path / "a.jsonl")[70]


def test_a_large_text_file_is_never_held_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tracemalloc

    path = tmp_path / "a.jsonl"
    with path.open("w") as file:
        for i in range(200_000):
            file.write(json.dumps({"i": i, "pad": "x" * 100}) + "\n")
    monkeypatch.setattr(lines, "_BLOCK", 1 << 16)
    tracemalloc.start()
    reader = JsonLinesReader(path)
    assert (len(reader), reader[150_000]["i"]) == (200_000, 150_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < path.stat().st_size / 10


def test_the_line_index_is_kept_and_built_again_when_the_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("1\n2\n")
    assert list(JsonLinesReader(path, index_dir=tmp_path)) == [1, 2]
    assert any(p.name.endswith(".pliant-index") for p in tmp_path.iterdir())
    path.write_text("1\n2\n3\n")
    assert list(JsonLinesReader(path, index_dir=tmp_path)) == [1, 2, 3]


def test_parquet_reads_only_the_columns_and_row_groups_it_needs(tmp_path: Path) -> None:
    table = pa.table({"x": range(100), "y": [f"{i}" for i in range(100)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=10)
    reader = open_reader(tmp_path / "a.parquet", columns=["y"])
    assert list(reader.read(15, 17)) == [{"y": "15"}, {"y": "16"}]
    assert reader.metadata.column_types == {"y": "string"}
    assert list(reader._groups) == [(0, 1)]  # type: ignore[attr-defined]
    with pytest.raises(InvalidRequest, match="it has: x, y"):
        len(open_reader(tmp_path / "a.parquet", columns=["z"]))


@pytest.mark.parametrize("name", ["a.parquet", "a.npy", "a.npz", "a.array_record"])
def test_a_file_that_is_not_what_its_name_says_is_damage(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"this is something else entirely, and long enough for any header" * 10)
    with pytest.raises(CorruptData, match="cannot be read as"):
        len(open_reader(tmp_path / name))


def test_numpy_files_with_objects_or_uneven_arrays_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}, {}]), allow_pickle=True)
    np.savez(tmp_path / "b.npz", x=np.zeros(3), y=np.zeros(4))
    with pytest.raises(CorruptData, match=r"a\.npy"):
        len(open_reader(tmp_path / "a.npy"))
    with pytest.raises(CorruptData, match="the same length"):
        len(open_reader(tmp_path / "b.npz"))


def database(folder: Path, statement: str, rows: list[tuple[object, ...]]) -> str:
    with sqlite3.connect(folder / "a.db") as connection:
        connection.execute(statement)
        connection.executemany(f"insert into t values ({','.join('?' * len(rows[0]))})", rows)
    connection.close()
    return f"sqlite:///{folder / 'a.db'}"


def test_a_table_is_read_in_the_order_of_its_key_from_any_place(tmp_path: Path) -> None:
    rows = [(f"k{i:05d}", i) for i in range(3500)]
    url = database(tmp_path, "create table t (k text primary key, v integer)", rows[::-1])  # type: ignore[arg-type]
    reader = open_reader(url, table="t", columns=["v"])
    assert [row["v"] for row in reader.read(990, 2010)] == list(range(990, 2010))
    assert [row["v"] for row in reader.fetch([3499, 0])] == [3499, 0]


def test_a_table_without_a_usable_key_is_refused(tmp_path: Path) -> None:
    url = database(tmp_path, "create table t (a integer, b integer)", [(1, 1), (1, 2)])
    with pytest.raises(InvalidRequest, match="key=…"):
        len(open_reader(url, table="t"))
    with pytest.raises(InvalidRequest, match="must be unique"):
        len(open_reader(url, table="t", key="a"))
    assert len(open_reader(url, table="t", key="b")) == 2
    with pytest.raises(NotFound, match="tables: t"):
        len(open_reader(url, table="u"))


def test_a_local_parquet_file_is_read_by_arrow_itself(tmp_path: Path) -> None:
    """Its threads may outlive the interpreter, and abort the process if they hold anything of Python then."""
    import gc
    import io

    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": list(range(10))}), path)
    reader = open_reader(str(path))
    assert [row["x"] for row in reader.fetch([3, 4])] == [3, 4]
    held = [one for one in gc.get_objects() if type(one) is io.BufferedReader and one.name == str(path)]
    reader.close()
    assert not held
