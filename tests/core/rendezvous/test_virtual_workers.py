from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.core.errors import InvalidRequest
from pliant.core.rendezvous.virtual_workers import hosted_counts, share_missing, weighted_counts

seats = st.integers(1, 200)
worlds = st.integers(1, 50)
weights = st.lists(st.one_of(st.just(0.0), st.floats(1e-9, 1e9), st.integers(1, 9)), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("virtual_workers", "workers", "expected"),
    [
        (8, 1, [8]),
        (8, 4, [2, 2, 2, 2]),
        (8, 3, [3, 3, 2]),
        (3, 5, [1, 1, 1, 0, 0]),
        (10**12, 2, [5 * 10**11, 5 * 10**11]),
    ],
)
def test_the_first_ranks_host_one_more_seat_when_the_seats_do_not_divide(
    virtual_workers: int, workers: int, expected: list[int]
) -> None:
    assert hosted_counts(virtual_workers, workers) == expected


@given(seats, worlds)
def test_no_worker_hosts_over_one_seat_more_than_another(virtual_workers: int, workers: int) -> None:
    counts = hosted_counts(virtual_workers, workers)
    assert max(counts) - min(counts) <= 1


def test_workers_beyond_the_seats_are_spares() -> None:
    assert hosted_counts(2, 4) == [1, 1, 0, 0]


@given(seats, worlds)
def test_equal_weights_deal_the_seats_as_if_there_were_none(virtual_workers: int, workers: int) -> None:
    assert weighted_counts(virtual_workers, [0.1] * workers) == hosted_counts(virtual_workers, workers)


@given(seats, weights.filter(any))
def test_weighted_seats_always_add_up_and_leave_out_nobody_who_can_be_seated(
    virtual_workers: int, weights: list[float]
) -> None:
    counts = weighted_counts(virtual_workers, weights)
    positive = [count for count, weight in zip(counts, weights, strict=True) if weight > 0]
    assert sum(counts) == virtual_workers == sum(positive)
    assert min(counts) >= 0
    if virtual_workers >= len(positive):
        assert min(positive) >= 1


@given(seats, weights.filter(any))
def test_a_heavier_worker_never_hosts_fewer_seats(virtual_workers: int, weights: list[float]) -> None:
    counts = weighted_counts(virtual_workers, weights)
    by_weight = sorted(zip(weights, counts, strict=True))
    for (light, few), (heavy, many) in itertools.pairwise(by_weight):
        assert light == heavy or few <= many


@pytest.mark.parametrize(
    ("virtual_workers", "weights", "expected"),
    [
        (8, [3, 1], [6, 2]),
        (8, [1.0, 1.0, 2.0], [2, 2, 4]),
        (10, [1, 1, 1], [4, 3, 3]),
        (8, [1000, 1, 1], [6, 1, 1]),
        (8, [1, 0, 1], [4, 0, 4]),
        (2, [10, 1, 1], [2, 0, 0]),
        (2, [1, 1, 1], [1, 1, 0]),
    ],
)
def test_seats_follow_the_weights_by_largest_remainder(
    virtual_workers: int, weights: list[float], expected: list[int]
) -> None:
    assert weighted_counts(virtual_workers, weights) == expected


@pytest.mark.parametrize("bad", [0, -1, True, 1.5, "8"])
def test_seats_and_workers_must_be_whole_numbers_of_at_least_one(bad: int) -> None:
    with pytest.raises(InvalidRequest, match="virtual_workers"):
        hosted_counts(bad, 1)
    with pytest.raises(InvalidRequest, match="workers"):
        hosted_counts(1, bad)
    with pytest.raises(InvalidRequest, match="virtual_workers"):
        weighted_counts(bad, [1.0])


@pytest.mark.parametrize("weights", [[], [0.0, 0.0], [1.0, -1.0], [math.nan], [math.inf, 1.0], [True]])
def test_weights_that_mean_nothing_are_refused(weights: list[float]) -> None:
    with pytest.raises(InvalidRequest, match="weight"):
        weighted_counts(8, weights)


def test_missing_units_go_to_workers_by_their_weights_and_none_to_a_spare() -> None:
    assert share_missing(8, [[0], [1], [], []], [4, 2, 1, 1]) == [[2, 3, 4], [5], [6], [7]]
    assert share_missing(4, [[], [0], []], [1, 1, 0]) == [[1, 2], [3], []]


@given(st.integers(1, 40), st.data())
def test_every_missing_unit_is_computed_once_whatever_the_weights(total: int, data: st.DataObject) -> None:
    owners = data.draw(st.lists(st.integers(-1, 3), min_size=total, max_size=total))
    done = [[unit for unit, owner in enumerate(owners) if owner == rank] for rank in range(4)]
    weights = data.draw(st.lists(st.integers(0, 5), min_size=4, max_size=4).filter(any))
    shares = share_missing(total, done, weights)
    assert sorted(unit for share in shares for unit in share) == [u for u, owner in enumerate(owners) if owner < 0]
    assert all(weights[rank] for rank, share in enumerate(shares) if share)
