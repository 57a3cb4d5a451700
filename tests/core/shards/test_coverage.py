from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from pliant.core.shards.coverage import Coverage

Ranges = list[tuple[int, int]]


def covered(ranges: Ranges) -> Coverage:
    coverage = Coverage()
    for begin, end in ranges:
        coverage.add(begin, end)
    return coverage


def is_each_once(ranges: Ranges, end: int) -> bool:
    return Counter(point for a, b in ranges for point in range(a, b)) == Counter(range(end))


def test_ranges_that_tile_are_exact_in_any_order_and_sizes() -> None:
    dice = Random(3)
    for _ in range(100):
        end = dice.randint(1, 1000)
        cuts = sorted({0, end, *(dice.randint(0, end) for _ in range(dice.randint(0, 30)))})
        ranges = list(pairwise(cuts))
        dice.shuffle(ranges)
        assert covered(ranges).is_once((0, end))


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)).map(lambda r: (min(r), max(r))), max_size=6))
def test_the_sum_says_what_counting_every_point_says(ranges: Ranges) -> None:
    assert covered(ranges).is_once((0, 6)) == is_each_once(ranges, 6)


def test_a_double_is_found_though_a_gap_of_the_same_size_makes_the_number_of_records_right() -> None:
    assert not covered([(0, 10), (0, 10), (20, 30)]).is_once((0, 30))
    assert covered([(0, 10), (10, 20), (20, 30)]).is_once((0, 30))


def test_a_range_is_taken_away_by_its_opposite() -> None:
    assert covered([(0, 30), (20, 10), (10, 20)]).is_once((0, 30))


def test_it_continues_from_its_fingerprint_and_has_no_bound() -> None:
    first = covered([(0, 10), (25, 1 << 70)])
    again = Coverage(first.fingerprint)
    again.add(10, 25)
    assert again.is_once((0, 1 << 70))
    assert not again.is_once((0, (1 << 70) + 1))
