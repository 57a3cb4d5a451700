"""What a node used, in constant memory."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.core.planning.series import HOUR_S, MAX_BUCKETS, MINUTE_S, RAW, RAW_S, UsageSeries

STEPS = st.one_of(st.floats(-30.0, 30.0), st.sampled_from([1.0, 5.0, 60.0, 3600.0, 100_000.0]))
SAMPLES = st.lists(st.tuples(STEPS, st.floats(0.0, 64.0), st.floats(0.0, 1e6), st.floats(0.0, 1.0)), min_size=1)


def filled(samples: list[tuple[float, float, float, float]], start: float = 1e6) -> UsageSeries:
    series, time = UsageSeries(), start
    for step, cpu, memory, throttled in samples:
        time += step
        series.add(time, cpu=cpu, memory_mb=memory, throttled=throttled)
    return series


@given(SAMPLES)
def test_the_mean_over_a_whole_life_and_its_peak_are_those_of_all_samples(
    samples: list[tuple[float, float, float, float]],
) -> None:
    series = filled(samples)
    whole = series.since(float("-inf"))
    assert whole is not None
    assert whole.samples == len(samples)
    assert whole.cpu == pytest.approx(sum(sample[1] for sample in samples) / len(samples), abs=1e-6)
    assert whole.memory_mb == pytest.approx(sum(sample[2] for sample in samples) / len(samples), abs=1e-3)
    assert whole.throttled == pytest.approx(sum(sample[3] for sample in samples) / len(samples), abs=1e-6)
    assert whole.memory_max == series.peak_memory_mb == max(sample[2] for sample in samples)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1.0, 7.0, 61.0, 3599.0]))
def test_the_number_of_buckets_is_bounded_and_their_times_rise(seed: int, step: float) -> None:
    source = random.Random(seed)
    series = filled([(source.uniform(-step / 2, 2 * step), 1.0, 1.0, 0.0) for _ in range(3000)])
    starts = [bucket.start for bucket in series.buckets()]
    assert len(series) == len(starts) <= MAX_BUCKETS
    assert all(later > earlier for later, earlier in itertools.pairwise(starts))


def test_what_is_older_is_coarser_and_nothing_is_missing() -> None:
    series = UsageSeries()
    for second in range(0, 4 * 24 * 3600, 5):
        series.add(float(second), cpu=1.0 if second % 3600 else 9.0, memory_mb=100.0)
    lengths = [later.start - earlier.start for later, earlier in itertools.pairwise(series.buckets())]
    assert lengths.count(RAW_S) == RAW
    assert lengths.count(MINUTE_S) > 100
    assert lengths.count(HOUR_S) > 60
    assert sum(bucket.samples for bucket in series.buckets()) == 4 * 24 * 720
    assert max(bucket.busiest for bucket in series.buckets()) == 9.0


def test_a_window_is_of_the_last_minutes_only() -> None:
    series = UsageSeries()
    for second in range(600):
        series.add(
            float(second), cpu=4.0 if second < 300 else 1.0, memory_mb=10.0, throttled=0.5 if second < 300 else 0.0
        )
    lately = series.since(300.0)
    assert lately is not None
    assert (lately.cpu, lately.throttled, lately.samples) == (1.0, 0.0, 300)
    assert series.since(1000.0) is None


def test_a_quantile_is_of_means_of_five_seconds_and_follows_the_busiest() -> None:
    series = UsageSeries()
    assert series.cpu_quantile(0.95) == 0.0
    for second in range(200):
        series.add(float(second), cpu=8.0 if second >= 180 else 2.0, memory_mb=0.0)
    assert series.cpu_quantile(0.5) == 2.0
    assert series.cpu_quantile(0.95) == 8.0, "a tenth of the time"
    assert series.cpu_quantile(0.95, since=0.0) == 8.0
    assert series.cpu_quantile(0.0) == 2.0
    steady = UsageSeries()
    for second in range(200):
        steady.add(float(second), cpu=second % 5, memory_mb=0.0)
    assert steady.cpu_quantile(0.99) == 2.0, "one second is not a load"


def test_samples_of_a_clock_that_was_set_back_count_in_the_newest_bucket() -> None:
    series = UsageSeries()
    series.add(1000.0, cpu=1.0, memory_mb=1.0)
    series.add(10.0, cpu=3.0, memory_mb=500.0)
    series.add(1001.0, cpu=2.0, memory_mb=1.0)
    (bucket,) = series.buckets()
    assert (bucket.start, bucket.end, bucket.samples, bucket.cpu) == (1000.0, 1001.0, 3, 2.0)
    assert bucket.memory_max == 500.0
