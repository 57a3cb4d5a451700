from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.core.errors import InvalidRequest
from pliant.core.shards.permutation import Permutation, mix, round_keys


@pytest.mark.parametrize("sizes", [range(0, 40), range(40, 3001, 37), range(1020, 1030), range(2990, 3001)])
def test_every_number_below_the_size_comes_once(sizes: range) -> None:
    for size in sizes:
        order = Permutation(size, "any", size)
        assert sorted(order[i] for i in range(size)) == list(range(size))


@given(st.integers(0, 3000), st.integers())
def test_every_number_comes_once_whatever_the_seed(size: int, seed: int) -> None:
    order = Permutation(size, seed)
    assert {order[i] for i in range(len(order))} == set(range(size))


def test_a_trillion_elements_are_distinct_and_in_range_wherever_sampled() -> None:
    size = 10**12
    order = Permutation(size, 5, "shards", 0)
    places = [*range(5000), *range(size // 2, size // 2 + 5000), *range(size - 5000, size)]
    values = {order[i] for i in places}
    assert len(values) == len(places)
    assert min(values) >= 0
    assert max(values) < size


def test_a_sample_of_a_trillion_elements_is_spread_over_all_of_them() -> None:
    size, samples, bins = 10**12, 20_000, 100
    order = Permutation(size, 5, "shards", 0)
    counts = [0] * bins
    for i in range(samples):
        counts[order[i] * bins // size] += 1
    expected = samples / bins
    assert sum((count - expected) ** 2 / expected for count in counts) < 180


@pytest.mark.parametrize("size", [1000, 3000])
def test_neighbours_do_not_stay_neighbours(size: int) -> None:
    order = Permutation(size, 1)
    assert sum(abs(order[i] - order[i + 1]) == 1 for i in range(size - 1)) < 20


@pytest.mark.parametrize("size", [50, 1024, 1025, 10**12])
def test_another_key_gives_another_order(size: int) -> None:
    orders = {
        tuple(Permutation(size, seed, "shards", epoch)[i] for i in range(20)) for seed in (0, 1) for epoch in (0, 1)
    }
    assert len(orders) == 4


def test_a_trillion_elements_take_no_memory() -> None:
    tracemalloc.start()
    try:
        order = Permutation(10**12, 1)
        assert order[10**12 - 1] < 10**12
        assert tracemalloc.get_traced_memory()[1] < 20_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("index", [-1, 7, 10**30])
def test_an_index_outside_is_an_index_error(index: int) -> None:
    with pytest.raises(IndexError):
        Permutation(7)[index]


def test_nothing_can_be_taken_from_an_order_of_nothing() -> None:
    assert len(Permutation(0)) == 0
    with pytest.raises(IndexError):
        Permutation(0)[0]


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        Permutation(-1)


def test_the_order_is_the_same_in_every_release() -> None:
    assert [mix(v) for v in (0, 1, 2**64 - 1)] == [0, 6238072747940578789, 13029008266876403067]
    assert round_keys(7, "shards", 0) == (
        18067866747649670293,
        9686716947968822386,
        5199248140652002158,
        17933058919792401589,
    )
    assert [Permutation(10, 0, "shards", 0)[i] for i in range(10)] == [5, 1, 9, 3, 7, 6, 2, 8, 0, 4]
    assert [Permutation(1024, 1, "a")[i] for i in range(5)] == [951, 87, 999, 121, 638]
    assert [Permutation(1025, 1, "a")[i] for i in range(5)] == [782, 434, 333, 112, 483]
    large = Permutation(10**12, 42, "shards", 3)
    assert [large[i] for i in (0, 1, 2, 10**12 - 1)] == [635588540541, 343556939196, 493976013714, 331239531994]
