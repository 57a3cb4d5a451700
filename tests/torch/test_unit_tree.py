"""The canonical tree: whoever adds what, in whatever order, adds the same numbers in the same grouping."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.torch.gradients.unit_tree import Node, UnitTree, hosted_units


def in_tree(units: list[str], first: int = 0, size: int | None = None) -> str:
    """The definition: the two halves of the next power of two, as far as they go."""
    if size is None:
        size = 1 << (len(units) - 1).bit_length()
    if size == 1:
        return units[first]
    left, middle = in_tree(units, first, size // 2), first + size // 2
    return f"({left}+{in_tree(units, middle, size // 2)})" if middle < len(units) else left


def count_up(tree: UnitTree, units: list[int]) -> dict[Node, str]:
    """As a worker does: one unit after the other."""
    sums: dict[Node, str] = {}
    for unit in units:
        value, node = str(unit), tree.leaf(unit)
        merged, final = tree.climb(node, sums)
        for sibling in merged:
            other = sums.pop(sibling)
            value = f"({other}+{value})" if sibling.at % 2 == 0 else f"({value}+{other})"
        sums[final] = value
    return sums


def combine(tree: UnitTree, parts: list[dict[Node, str]]) -> str:
    everything = sorted(((node, value) for part in parts for node, value in part.items()), key=lambda p: p[0].first)
    values = [value for _, value in everything]
    for left, right in tree.merges([node for node, _ in everything]):
        values[left] = f"({values[left]}+{values[right]})"
    return values[0]


@pytest.mark.parametrize("units", range(1, 40))
def test_one_worker_adds_up_along_the_tree(units: int) -> None:
    tree = UnitTree(units)
    assert count_up(tree, list(range(units))) == {tree.root: in_tree(list(map(str, range(units))))}


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 40), st.integers(1, 8), st.randoms(use_true_random=False))
def test_any_partition_and_any_order_add_up_along_the_tree(units: int, workers: int, chance: random.Random) -> None:
    tree = UnitTree(units)
    shares: list[list[int]] = [[] for _ in range(workers)]
    for unit in chance.sample(range(units), units):
        chance.choice(shares).append(unit)
    parts = [count_up(tree, share) for share in shares]
    assert combine(tree, parts) == in_tree(list(map(str, range(units))))
    for share, part in zip(shares, parts, strict=True):
        assert tree.complete(share) == sorted(part, key=lambda node: node.first)


@given(st.integers(1, 200), st.data())
def test_neighbouring_units_make_few_partial_sums(units: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, units - 1))
    last = data.draw(st.integers(first, units - 1))
    count = last - first + 1
    assert len(UnitTree(units).complete(range(first, last + 1))) <= max(1, 2 * math.ceil(math.log2(count + 1)) - 1)


def test_partial_sums_that_leave_units_out_are_refused() -> None:
    tree = UnitTree(6)
    with pytest.raises(ValueError, match="do not make up"):
        tree.merges(tree.complete([0, 1, 3, 4, 5]))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any))
def test_each_unit_is_hosted_once_by_as_many_as_were_asked_for(counts: list[int]) -> None:
    hosted = hosted_units(tuple(counts))
    assert [len(units) for units in hosted] == counts
    assert sorted(unit for units in hosted for unit in units) == list(range(sum(counts)))


def test_workers_host_units_that_make_few_partial_sums() -> None:
    tree = UnitTree(7)
    assert [len(tree.complete(units)) for units in hosted_units((3, 2, 2))] == [1, 1, 1]
