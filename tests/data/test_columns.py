"""Many records at once: columns of readers, and ``Dataset.map_batches``."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pliant.core.errors import InvalidRequest
from pliant.data import Dataset, RecordError, open_reader
from pliant.data.columns import Lists, columns_of, cut, joined, take
from pliant.data.stream import Item

RECORDS: list[dict[str, Any]] = [
    {"id": n, "x": n / 4, "tags": list(range(n % 4)), "pair": [n, -n], "name": f"n{n}", "gap": None if n % 3 else n}
    for n in range(57)
]


def plain(column: Any) -> list[Any]:
    return [one.tolist() if isinstance(one, np.ndarray) else one for one in column]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """The records in two files of several row groups."""
    paths = []
    for number, part in enumerate((RECORDS[:40], RECORDS[40:])):
        paths.append(str(tmp_path / f"{number}.parquet"))
        pq.write_table(pa.Table.from_pylist(part), paths[-1], row_group_size=7)
    return paths


def test_columns_of_parquet_are_those_of_its_records_in_the_order_asked_for(files: list[str]) -> None:
    reader = open_reader(files)
    chance = random.Random(3)
    for indices in (range(57), [5], [56, 0, 39, 40, 0], chance.sample(range(57), 30)):
        found = reader.fetch_columns(indices)
        assert isinstance(found["tags"], Lists)
        assert found["id"].dtype == np.int64
        records = reader.fetch(indices)
        for name in RECORDS[0]:
            assert plain(found[name]) == [record[name] for record in records], name
    assert reader.fetch_columns([]) == {}
    with pytest.raises(IndexError):
        reader.fetch_columns([57])


def test_columns_of_any_records_are_arrays_lists_of_numbers_or_lists() -> None:
    found = columns_of(RECORDS)
    for name in RECORDS[0]:
        assert plain(found[name]) == [record[name] for record in RECORDS], name
    assert isinstance(found["x"], np.ndarray)
    assert isinstance(found["pair"], Lists)
    assert isinstance(found["gap"], list)
    assert plain(columns_of([np.ones(2), np.zeros(2)])) == [[1, 1], [0, 0]]
    assert columns_of([b"a", b"b"]) == [b"a", b"b"]
    with pytest.raises(InvalidRequest, match="different fields"):
        columns_of([{"a": 1}, {"b": 1}])


def test_lists_are_padded_cut_taken_and_joined() -> None:
    lists = Lists.of([[1, 2, 3], [], [4], [5, 6]])
    assert lists.padded(2, fill=-1).tolist() == [[1, 2], [-1, -1], [4, -1], [5, 6]]
    assert lists.padded(0).shape == (4, 0)
    some = cut(lists, 1, 4)
    assert plain(some) == [[], [4], [5, 6]]
    assert some.padded(3).tolist() == [[0, 0, 0], [4, 0, 0], [5, 6, 0]]
    assert plain(take(some, np.array([2, 0, 2]))) == [[5, 6], [], [5, 6]]
    assert plain(joined([some, cut(lists, 0, 1)])) == [[], [4], [5, 6], [1, 2, 3]]
    assert plain(joined([np.array([1]), ["a"]])) == [1, "a"]
    assert lists[-1].tolist() == [5, 6]
    assert Lists.of([[], []]).padded(2, fill=7).tolist() == [[7, 7], [7, 7]]
    with pytest.raises(IndexError):
        lists[4]


def test_map_batches_gives_what_map_gives() -> None:
    def double(batch: dict[str, Any]) -> Any:
        return {"x": batch["x"] * 2, "tags": batch["tags"].padded(3)}, batch["id"]

    sizes = []

    def counted(batch: dict[str, Any]) -> Any:
        sizes.append(len(batch["id"]))
        return double(batch)

    rows = list(Dataset.of(RECORDS).filter(lambda r: r["id"] % 2 == 0).map_batches(counted, size=10))
    assert sizes == [10, 10, 9]
    assert [(f["x"], f["tags"].tolist(), label) for f, label in rows] == [
        (r["x"] * 2, [*r["tags"], 0, 0, 0][:3], r["id"]) for r in RECORDS if r["id"] % 2 == 0
    ]


def test_a_function_that_fails_is_called_alone_and_one_of_another_length_is_refused() -> None:
    class Named:
        def consumed(self, position: int) -> None: ...

        def describe(self, position: int) -> tuple[str, int]:
            return f"file record {position}", position

    items: list[Item] = [(record, ((Named(), record["id"]),)) for record in RECORDS]

    def reciprocal(batch: dict[str, Any]) -> Any:
        if (batch["id"] == 41).any():
            raise ValueError("no 41")
        return batch["id"]

    with pytest.raises(RecordError, match=r"(?s)41.*no 41"):
        list(Dataset(lambda: iter(items)).map_batches(reciprocal))
    with pytest.raises(InvalidRequest, match="made 3 values of 57 records"):
        list(Dataset.of(RECORDS).map_batches(lambda batch: batch["id"][:3]))
    with pytest.raises(InvalidRequest, match="returned a int"):
        list(Dataset.of(RECORDS).map_batches(lambda batch: 5))
    with pytest.raises(InvalidRequest, match="invalid batch size 0"):
        Dataset.of(RECORDS).map_batches(lambda batch: batch, size=0)
