"""From samples to settled rates, and how sure they are."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.core.errors import InvalidRequest
from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.history import StepParts
from pliant.core.planning.periods import MAX_BATCHES, MAX_PERIODS, MAX_SAME, PeriodBook


def workers(count: int) -> dict[str, Any]:
    return Configuration(Shape(count)).to_json()


class Stream:
    """Feeds a book one sample each 5 s."""

    def __init__(self, book: PeriodBook | None = None) -> None:
        self.book = book or PeriodBook()
        self.now, self.records = 1000.0, 0.0

    def run(self, count: int, rates: list[float] | float, samples: int = 0, **more: Any) -> None:
        values = rates if isinstance(rates, list) else [rates] * samples
        for rate in values:
            self.now += 5.0
            self.records += rate * 5.0
            self.book.observe(self.now, configuration=workers(count), records=self.records, **more)


def test_what_comes_right_after_a_change_is_cut_off() -> None:
    stream = Stream()
    stream.run(2, [0.0, 0.0, 20.0, 50.0, 80.0] + [100.0] * 20)
    assert stream.book.settling_since is None
    (period,) = stream.book.periods()
    assert period.rate == pytest.approx(100.0)
    assert period.configuration.worker.replicas == 2


def test_a_change_ends_the_period_and_settling_begins() -> None:
    stream = Stream()
    stream.run(2, 100.0, 30)
    stream.run(4, 100.0, 1)
    assert stream.book.settling_since == stream.now
    assert [period.configuration.worker.replicas for period in stream.book.periods()] == [2]
    stream.run(4, 200.0, 20)
    assert [round(period.rate) for period in stream.book.periods()] == [100, 200]


def test_nodes_that_still_start_up_yield_no_rate() -> None:
    stream = Stream()
    stream.run(4, 50.0, 50, ready=False)
    assert stream.book.periods() == ()
    assert stream.book.settling_since == stream.now
    stream.run(4, 100.0, 20)
    assert [round(period.rate) for period in stream.book.periods()] == [100]


def test_a_rate_that_looked_settled_too_early_is_forgotten_once_it_shifts() -> None:
    stream = Stream()
    stream.run(4, 50.0, 12)
    stream.run(4, 100.0, 16)
    (period,) = stream.book.periods()
    assert period.rate == pytest.approx(100.0, rel=0.05)


def test_time_without_a_record_never_settles_but_lumps_do_in_the_end() -> None:
    stream = Stream()
    stream.run(1, 0.0, 100)
    assert stream.book.periods() == ()
    stream = Stream()
    stream.run(1, [0.0, 0.0, 0.0, 0.0, 0.0, 600.0] * 20)
    assert [period.rate for period in stream.book.periods()] == pytest.approx([100.0, 100.0], rel=0.1)


def test_the_parts_of_a_step_are_averaged_over_the_settled_time() -> None:
    stream = Stream()
    stream.run(1, 100.0, 10)
    stream.run(1, 100.0, 10, parts={"data": 0.5, "compute": 0.25})
    stream.run(1, 100.0, 10, parts={"data": 0.25, "compute": 0.75})
    assert stream.book.periods()[-1].parts == StepParts(0.375, 0.5)


def test_a_count_that_falls_and_time_that_stands_still_yield_no_rate() -> None:
    stream = Stream()
    stream.run(1, 100.0, 20)
    before = stream.book.snapshot()
    stream.book.observe(stream.now, configuration=workers(1), records=1e9)
    assert stream.book.snapshot() == before
    stream.records = 0.0
    stream.run(1, 100.0, 20)
    assert [round(period.rate) for period in stream.book.periods()] == [100, 100]
    with pytest.raises(InvalidRequest):
        stream.book.observe(stream.now + 1, configuration=workers(1), records=-1)


def test_memory_is_bounded_however_long_the_job_runs() -> None:
    book = PeriodBook(max_period_s=1e9)
    stream = Stream(book)
    stream.run(1, 100.0, 5000)
    assert len(book.snapshot()["batches"]) < MAX_BATCHES
    assert book.periods()[-1].samples > 4900
    for count in range(1, 80):
        for _ in range(MAX_SAME + 1):
            stream.run(count, 10.0 * count, 12)
            stream.run(100, 1000.0, 12)
    assert len(book.periods()) <= MAX_PERIODS + 1
    assert sum(period.configuration.worker.replicas == 100 for period in book.periods()) <= MAX_SAME + 1


def test_a_long_stretch_is_several_periods_so_that_the_last_is_about_the_present() -> None:
    stream = Stream()
    stream.run(1, 100.0, 200)
    assert len(stream.book.periods()) >= 3
    assert all(period.ended - period.began <= 310 for period in stream.book.periods())


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_the_interval_by_the_standard_error_covers_the_true_rate_also_of_samples_that_depend_on_each_other(
    correlation: float,
) -> None:
    rng = random.Random(7)
    hits = 0
    for _ in range(200):
        stream = Stream(PeriodBook(max_period_s=1e9))
        rates, deviation = [], rng.gauss(0.0, 5.0)
        for _ in range(150):
            deviation = correlation * deviation + rng.gauss(0.0, 5.0) * (1 - correlation**2) ** 0.5
            rates.append(100.0 + deviation)
        stream.run(1, rates)
        period = stream.book.periods()[-1]
        hits += abs(period.rate - 100.0) <= 1.645 * period.error
    assert hits >= 0.82 * 200


samples = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from([0.0, 10.0, 11.0, 50.0]), st.booleans(), st.floats(0.5, 30.0)),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(samples, st.integers(0, 59))
def test_a_restored_book_behaves_like_the_original(stream: list[tuple[int, float, bool, float]], cut: int) -> None:
    book, other = PeriodBook(), PeriodBook()
    now, records = 0.0, 0.0
    for index, (count, rate, ready, seconds) in enumerate(stream):
        now, records = now + seconds, records + rate * seconds
        arguments: dict[str, Any] = {"configuration": workers(count), "records": records, "ready": ready}
        if index == cut:
            other.restore(json.loads(json.dumps(book.snapshot())))
        for machine in [book] if index < cut else [book, other]:
            machine.apply("observe", now, json.loads(json.dumps(arguments)))
    if cut < len(stream):
        assert other.snapshot() == book.snapshot()
        assert other.periods() == book.periods()
    for period in book.periods():
        assert period.rate > 0
        assert period.error >= 0
        assert period.began < period.ended
