from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.core.errors import InvalidRequest
from pliant.core.shards.datasets import MAX_RECORDS, DatasetSpec, Extent, FilePart, Layout, ShardType


def defined(**fields: Any) -> DatasetSpec:
    spec = DatasetSpec.from_json({"name": "train", "shard_size": 10, **fields})
    spec.check()
    return spec


def extents(spec: DatasetSpec) -> list[tuple[str, int, int]]:
    layout = Layout(spec)
    return [(e.name, e.start, e.end) for e in map(layout.extent, range(layout.shards))]


def test_a_size_is_cut_into_ranges_of_which_the_last_is_shorter() -> None:
    assert extents(defined(size=25)) == [("train", 0, 10), ("train", 10, 20), ("train", 20, 25)]


@pytest.mark.parametrize(("size", "shards"), [(0, 0), (1, 1), (9, 1), (10, 1), (11, 2)])
def test_there_are_as_many_shards_as_it_takes(size: int, shards: int) -> None:
    assert Layout(defined(size=size)).shards == shards


def test_a_shard_never_spans_two_files_and_empty_files_have_none() -> None:
    files = [["empty", 0, 0], ["a", 0, 12], ["none", 5, 5], ["b", 100, 103], ["last", 7, 7]]
    spec = defined(files=files)
    assert extents(spec) == [("a", 0, 10), ("a", 10, 12), ("b", 100, 103)]
    assert Layout(spec).records == 15


def test_files_that_are_all_empty_are_a_dataset_of_nothing() -> None:
    layout = Layout(defined(files=[["a", 3, 3]]))
    assert (layout.records, layout.shards) == (0, 0)


def test_explicit_indices_come_with_their_shard() -> None:
    layout = Layout(defined(indices=[5, 3, 5, 99, 0], shard_size=2))
    assert [layout.indices(layout.extent(n)) for n in range(layout.shards)] == [(5, 3), (5, 99), (0,)]


def test_a_range_has_no_list_of_indices() -> None:
    layout = Layout(defined(size=30))
    assert layout.indices(layout.extent(0)) == ()


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=8),
    st.integers(1, 60),
)
def test_shards_of_files_are_all_their_records_in_order(counts: list[tuple[int, int]], shard_size: int) -> None:
    files = [[f"f{i}", start, start + count] for i, (start, count) in enumerate(counts)]
    covered = [
        (n, r) for n, start, end in extents(defined(files=files, shard_size=shard_size)) for r in range(start, end)
    ]
    assert covered == [(f"f{i}", r) for i, (start, count) in enumerate(counts) for r in range(start, start + count)]


def test_the_last_shard_of_the_largest_dataset_is_computed_at_once() -> None:
    layout = Layout(defined(size=MAX_RECORDS, shard_size=1000))
    assert layout.extent(layout.shards - 1) == Extent("train", MAX_RECORDS - MAX_RECORDS % 1000, MAX_RECORDS)


@pytest.mark.parametrize(
    "fields",
    [
        {"size": 7, "epochs": 3, "shuffle": True, "seed": -4, "skip_parked": True},
        {"files": [["a b/ü.csv", 3, 9]], "type": "eval", "lease_floor": 7},
        {"indices": [4, 4, 2], "type": "predict", "shuffle_records": True, "epoch_barrier": True},
        {"stream": True},
        {"size": 1, "type": "train_end", "max_failures": 1, "max_timeouts": 2},
    ],
)
def test_a_definition_survives_json(fields: dict[str, Any]) -> None:
    spec = defined(**fields)
    again = DatasetSpec.from_json(json.loads(json.dumps(spec.to_json())))
    assert again == spec
    assert again.layout_fields() == spec.layout_fields()


@pytest.mark.parametrize(
    "change",
    [
        {"epochs": 2},
        {"max_failures": 1},
        {"max_timeouts": 1},
        {"skip_parked": True},
        {"lease_floor": 30},
        {"epoch_barrier": True},
        {"type": "eval"},
        {"seed": 4},
    ],
)
def test_what_does_not_change_which_records_a_shard_has_is_no_part_of_its_layout(change: dict[str, Any]) -> None:
    assert defined(**{"size": 5, **change}).layout_fields() == defined(size=5).layout_fields()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"size": 6}, "size"),
        ({"shard_size": 9}, "shard_size"),
        ({"shuffle": False}, "shuffle, seed"),
        ({"shuffle_records": True}, "shuffle_records"),
        ({"seed": 1}, "seed"),
    ],
)
def test_what_changes_the_meaning_of_a_position_is_named(change: dict[str, Any], named: str) -> None:
    first = defined(size=5, shuffle=True).layout_fields()
    other = defined(**{"size": 5, "shuffle": True, **change}).layout_fields()
    assert ", ".join(name for name in first if first[name] != other[name]) == named


def test_files_and_indices_are_told_apart_without_being_repeated() -> None:
    ways: list[dict[str, Any]] = [
        {"files": [["a", 0, 5]]},
        {"files": [["a", 1, 6]]},
        {"files": [["b", 0, 5]]},
        {"indices": [1, 2, 3, 4, 5]},
        {"indices": [5, 4, 3, 2, 1]},
    ]
    texts = [defined(**way).layout_fields() for way in ways]
    assert all(texts.count(text) == 1 for text in texts)
    assert len(str(defined(indices=list(range(10_000))).layout_fields())) < 500


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"size": 5, "stream": True},
        {"size": 5, "indices": [1]},
        {"indices": []},
        {"size": -1},
        {"size": MAX_RECORDS + 1},
        {"size": 5, "shard_size": 0},
        {"size": 5, "shard_size": -3},
        {"size": 5, "epochs": 0},
        {"size": 5, "epochs": 1 << 40},
        {"size": 5, "max_failures": 0},
        {"size": 5, "max_timeouts": 0},
        {"size": 5, "lease_floor": 0},
        {"size": 5, "lease_floor": float("nan")},
        {"size": 5, "lease_floor": float("inf")},
        {"size": 5, "lease_floor": 10**400},
        {"size": 5, "name": ""},
        {"size": 5, "name": "a\nb"},
        {"size": 5, "name": "x" * 201},
        {"size": 5, "type": "training"},
        {"size": 5, "colour": "red"},
        {"files": [["a", 5, 4]]},
        {"files": [["a", -1, 4]]},
        {"files": [["", 0, 4]]},
        {"files": [["a", 0, MAX_RECORDS + 1]]},
        {"indices": [3, -1]},
        {"indices": [MAX_RECORDS]},
        {"stream": True, "epochs": 2},
        {"stream": True, "shuffle": True},
    ],
    ids=str,
)
def test_what_cannot_be_a_dataset_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        defined(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"size": "5"},
        {"size": 5.0},
        {"size": True},
        {"size": 5, "shard_size": 2.5},
        {"size": 5, "shard_size": None},
        {"size": 5, "name": 7},
        {"size": 5, "name": None},
        {"size": 5, "seed": "x"},
        {"size": 5, "shuffle": "no"},
        {"size": 5, "lease_floor": "300"},
        {"size": 5, "type": 3},
        {"size": 5, "type": ["train"]},
        {"files": "abc"},
        {"files": [["a", 0]]},
        {"files": [["a", 0, "9"]]},
        {"files": [["a", 0, 2.7]]},
        {"files": [7]},
        {"files": None},
        {"indices": [1.5]},
        {"indices": "123"},
        {"indices": {"1": 2}},
    ],
    ids=str,
)
def test_a_value_of_the_wrong_type_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        defined(**fields)


@pytest.mark.parametrize("value", [{}, {"name": "train", "size": 3}, {"shard_size": 3, "size": 3}])
def test_a_name_and_a_shard_size_are_needed(value: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="lacks"):
        DatasetSpec.from_json(value)


def test_the_error_names_dataset_field_and_value() -> None:
    with pytest.raises(InvalidRequest, match=r"dataset 'train': epochs is 0; allowed: 1 to"):
        defined(size=5, epochs=0)


def test_files_become_parts_and_the_type_a_shard_type() -> None:
    spec = defined(files=[["a", 1, 4]], type="eval")
    assert spec.files == (FilePart("a", 1, 4),)
    assert spec.type is ShardType.EVAL
