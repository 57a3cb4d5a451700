"""The decisions without I/O: who writes what, what is kept, what a file's header may say."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from pliant.checkpoint import layout
from pliant.checkpoint.manifest import parse
from pliant.checkpoint.retention import RetentionPolicy
from pliant.checkpoint.slicing import MIN_SPLIT_BYTES, TensorSize, divide
from pliant.core.errors import CorruptData

extents = st.lists(
    st.tuples(st.sampled_from([1, 2, 4, 8, 16]), st.one_of(st.integers(0, 5), st.integers(0, 3_000_000))), max_size=12
).map(lambda sizes: [TensorSize(f"t{i}", item, count) for i, (item, count) in enumerate(sizes)])


@given(extents, st.integers(1, 9))
def test_every_element_is_in_exactly_one_part(sizes: list[TensorSize], parts: int) -> None:
    division = divide(sizes, parts)
    assert len(division) == parts
    for extent in sizes:
        pieces = sorted((p.begin, p.end, p.whole) for part in division for p in part if p.name == extent.name)
        assert pieces[0][0] == 0
        assert pieces[-1][1] == extent.elements
        assert all(left[1] == right[0] for left, right in pairwise(pieces))
        assert [whole for _, _, whole in pieces] == ([True] if len(pieces) == 1 else [False] * len(pieces))


@given(extents, st.integers(1, 9))
def test_parts_differ_by_no_more_than_a_small_tensor(sizes: list[TensorSize], parts: int) -> None:
    bytes_of = {extent.name: extent.item_bytes for extent in sizes}
    totals = [sum((p.end - p.begin) * bytes_of[p.name] for p in part) for part in divide(sizes, parts)]
    assert max(totals) - min(totals) <= MIN_SPLIT_BYTES + 128


steps = st.sets(st.integers(0, 200), max_size=30)


@given(good=steps, bad=steps, last=st.integers(1, 5), every=st.integers(0, 20))
def test_the_newest_and_every_nth_are_kept_and_nothing_unknown_deleted(
    good: set[int], bad: set[int], last: int, every: int
) -> None:
    bad = bad - good
    doomed = set(RetentionPolicy(last, every).to_delete(good, bad))
    assert doomed <= good | bad
    newest = sorted(good)[-last:]
    assert doomed.isdisjoint(newest)
    assert doomed.isdisjoint(step for step in good if every and step % every == 0)
    assert {s for s in good - doomed if not (every and s % every == 0)} == {
        s for s in newest if not (every and s % every == 0)
    }
    if good:
        assert doomed & bad == {step for step in bad if step < max(good)}
    else:
        assert not doomed


def test_the_safetensors_library_reads_our_header(tmp_path: Path) -> None:
    tensors = {"b": torch.arange(3, dtype=torch.int8), "a": torch.randn(2, 3), "empty": torch.empty(0, 4)}
    names = {torch.int8: "I8", torch.float32: "F32"}
    placed = layout.arrange(layout.Entry(n, names[t.dtype], tuple(t.shape)) for n, t in tensors.items())
    data = b"".join(tensors[e.name].numpy().tobytes() for e in placed)
    path = tmp_path / "x.safetensors"
    path.write_bytes(layout.encode(placed, {"format": "pt"}) + data)
    loaded = load_file(path)
    assert all(loaded[name].equal(tensor) for name, tensor in tensors.items())


def test_we_read_the_header_of_the_safetensors_library(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file({"a": torch.randn(2, 3), "b": torch.ones(5, dtype=torch.bfloat16)}, path)
    found = parse(memoryview(path.read_bytes()), "x")
    assert {(e.name, e.dtype, e.shape) for e in found.entries} == {("a", "F32", (2, 3)), ("b", "BF16", (5,))}


@given(st.data())
def test_a_damaged_header_is_refused_and_nothing_else(data: st.DataObject) -> None:
    placed = layout.arrange([layout.Entry("a", "F32", (2, 3)), layout.Entry("b", "U8", (5,))])
    content = bytearray(layout.encode(placed, {"format": "pt"}) + bytes(29))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, 200))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    with suppress(CorruptData):
        parse(memoryview(bytes(content)), "x")


def test_a_file_of_the_wrong_length_is_refused() -> None:
    header = layout.encode(layout.arrange([layout.Entry("a", "F32", (2,))]), {})
    with pytest.raises(CorruptData, match="its header declares"):
        parse(memoryview(header + bytes(7)), "x")
