"""What parameter servers did lately."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.core.planning.counter_rate import CounterRate
from pliant.core.planning.node_summary import MAX_PARTITION_LOADS, NodeSummary, mean_parts
from pliant.core.planning.server_load import ServerLoad
from pliant.core.planning.time_spent import TimeShares


def test_a_rate_is_that_of_the_window_and_starts_anew_with_another_run() -> None:
    rate = CounterRate(window_s=10.0, spacing_s=1.0)
    assert rate.per_second is None
    for second in range(100):
        rate.read(float(second), 5.0 * second if second < 50 else 250.0 + 20.0 * (second - 50))
    assert rate.per_second == 20.0
    rate.read(100.0, 7.0)
    assert rate.per_second is None
    rate.read(102.0, 11.0)
    assert rate.per_second == 2.0


@given(st.lists(st.tuples(st.floats(-5.0, 50.0), st.floats(0.0, 1e12)), max_size=200))
def test_readings_are_bounded_and_no_rate_is_negative(readings: list[tuple[float, float]]) -> None:
    rate, time = CounterRate(window_s=10.0, spacing_s=1.0), 0.0
    for step, total in readings:
        time += step
        rate.read(time, total)
        assert len(rate._readings) <= 12
        assert (rate.per_second or 0.0) >= 0.0


def test_a_server_is_summed_up_by_its_rates_and_its_heaviest_partitions() -> None:
    load = ServerLoad()
    for second in range(3):
        load.report(
            float(second),
            rows=100,
            queue=2,
            requests=10 * second,
            bytes_in=1000 * second,
            bytes_out=500 * second,
            partition_load={number: (number + 1) / 500 for number in range(30)},
        )
    assert (load.rows, load.queue, load.requests_per_second, load.bytes_per_second) == (100, 2, 10.0, 1500.0)
    assert len(load.partitions) == MAX_PARTITION_LOADS
    assert load.partitions[0] == (29, 30 / 500)


def test_a_summary_makes_the_view_of_a_node_with_what_the_books_know() -> None:
    shares = TimeShares(30.0, data=0.25, peers=0.5, unit_s=0.1)
    summary = NodeSummary(cpu=1.5, memory_peak_mb=300.0, unit_seconds=0.1, shares=shares, rows=7)
    view = summary.view("worker-1", "worker", virtual_workers=4, age_s=60.0, host="a")
    assert (view.name, view.role, view.cpu, view.memory_peak_mb, view.rows) == ("worker-1", "worker", 1.5, 300.0, 7)
    assert (view.virtual_workers, view.age_s, view.host, view.unit_seconds) == (4, 60.0, "a", 0.1)
    assert summary.parts is not None
    assert (summary.parts.data, summary.parts.peers, summary.parts.compute) == (0.25, 0.5, 0.25)
    assert NodeSummary().parts is None


def test_the_parts_of_all_workers_are_weighted_by_the_time_they_are_of() -> None:
    long = NodeSummary(shares=TimeShares(30.0, data=0.5, peers=0.0))
    short = NodeSummary(shares=TimeShares(10.0, data=0.1, peers=0.8))
    parts = mean_parts([long, short, NodeSummary()])
    assert parts is not None
    assert (parts.data, parts.peers, parts.compute) == pytest.approx((0.4, 0.2, 0.4))
    assert mean_parts([NodeSummary()]) is None
