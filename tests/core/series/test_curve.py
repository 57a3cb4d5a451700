"""One value over time, in constant memory."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.core.series.curve import Curve, CurveRecorder, Point, by_step, since, thinned

STEPS_OF_TIME = st.one_of(st.floats(-30.0, 30.0), st.sampled_from([0.2, 1.0, 5.0, 3600.0, 1e6]))
VALUES = st.floats(-9e18, 9e18)
SAMPLES = st.lists(st.tuples(STEPS_OF_TIME, st.integers(0, 1000), VALUES), min_size=1, max_size=300)
CAPACITY = st.integers(1, 40)

Samples = list[tuple[float, int, float]]


def filled(samples: Samples, capacity: int) -> CurveRecorder:
    recorder, time = CurveRecorder(capacity), 1e9
    for passed, step, value in samples:
        time += passed
        recorder.add(time, step, value)
    return recorder


def check(curve: Curve, values: list[float]) -> None:
    """What holds of every curve of these samples."""
    assert all(earlier.time < later.time for earlier, later in itertools.pairwise(curve))
    assert all(point.minimum <= point.mean <= point.maximum for point in curve)
    assert sum(point.count for point in curve) == len(values)
    assert min(point.minimum for point in curve) == min(values)
    assert max(point.maximum for point in curve) == max(values)
    mean = sum(point.mean * (point.count / len(values)) for point in curve)
    assert mean == pytest.approx(
        sum(value / len(values) for value in values), rel=1e-6, abs=1e-6 * max(map(abs, values)) + 1e-9
    )


@given(SAMPLES, CAPACITY)
def test_a_curve_is_bounded_and_has_minimum_maximum_mean_and_number_of_all_samples(
    samples: Samples, capacity: int
) -> None:
    curve = filled(samples, capacity).points
    assert len(curve) <= capacity
    assert curve[-1].step == samples[-1][1]
    check(curve, [value for _, _, value in samples])


@given(SAMPLES, CAPACITY, CAPACITY)
def test_so_is_one_that_gets_less_room_or_is_continued_by_another_master(
    samples: Samples, before: int, after: int
) -> None:
    half = len(samples) // 2
    first = filled(samples[:half], before) if half else CurveRecorder(before)
    second = CurveRecorder(after, first.points)
    second.limit(after)
    time = 1e9 + sum(passed for passed, _, _ in samples[:half])
    for passed, step, value in samples[half:]:
        time += passed
        second.add(time, step, value)
    assert len(second.points) <= after
    check(second.points, [value for _, _, value in samples])


@given(SAMPLES, CAPACITY)
def test_a_thinned_curve_has_all_samples_still(samples: Samples, most: int) -> None:
    curve = thinned(filled(samples, 300).points, most)
    assert len(curve) <= most
    check(curve, [value for _, _, value in samples])


@given(SAMPLES, st.integers(1, 300), CAPACITY)
def test_a_reader_who_asks_for_news_only_has_all_samples_once(
    samples: Samples, asked_after: int, capacity: int
) -> None:
    have = filled(samples[:asked_after], capacity).points
    news = since(filled(samples, capacity).points, have[-1].time)
    joined = (*(point for point in have if point.time < news[0].time), *news)
    if joined[0].time <= have[0].time:  # else older points were merged into the first of the news
        assert sum(point.count for point in joined) == len(samples)
    assert all(earlier.time < later.time for earlier, later in itertools.pairwise(joined))


@given(SAMPLES)
def test_by_step_each_step_is_there_once_and_the_repetition_counts(samples: Samples) -> None:
    points = [Point.of(float(at), step, value) for at, (_, step, value) in enumerate(samples)]
    curve = by_step(points)
    assert all(earlier.step < later.step for earlier, later in itertools.pairwise(curve))
    assert curve[-1] == points[-1]


def test_a_long_job_is_drawn_evenly() -> None:
    recorder = CurveRecorder(512)
    for second in range(200_000):
        recorder.add(1e9 + second, second, float(second))
    widths = {later.time - earlier.time for earlier, later in itertools.pairwise(recorder.points)}
    assert len(widths - {512.0}) <= 1  # the first begins within a bucket
    assert 256 < len(recorder.points) <= 512
