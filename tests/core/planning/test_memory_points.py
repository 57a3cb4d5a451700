"""Memory against records: thinned out, and what the journal keeps of it."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.core.errors import InvalidRequest
from pliant.core.job import JobBook
from pliant.core.job_state import JobState, Operation
from pliant.core.planning.algorithms.memory_forecast import forecast
from pliant.core.planning.history import NodeView
from pliant.core.planning.memory_points import MAX_MEMORY_POINTS, MemoryPoints
from pliant.core.planning.usage_book import MAX_NODES, PEAK_STEP, UsageBook


@given(st.lists(st.tuples(st.floats(0.0, 1e9), st.floats(0.0, 1e6)), max_size=300))
def test_points_are_few_ascending_and_true_and_the_peak_is_of_all(added: list[tuple[float, float]]) -> None:
    points = MemoryPoints()
    for records, memory in added:
        points.add(records, memory)
    assert len(points.points) <= MAX_MEMORY_POINTS
    assert all(later[0] > earlier[0] for earlier, later in itertools.pairwise(points.points))
    assert set(points.points) <= set(added)
    assert points.peak == max((memory for _, memory in added), default=0.0)


@given(st.integers(50, 3000), st.floats(1.0, 1000.0))
def test_points_stay_spread_over_all_records(count: int, step: float) -> None:
    points = MemoryPoints()
    for number in range(count):
        points.add(number * step, float(number))
    records = [at for at, _ in points.points]
    gaps = [later - earlier for earlier, later in itertools.pairwise(records)]
    assert records[0] == 0.0
    assert records[-1] >= 0.85 * (count - 1) * step
    assert max(gaps) <= 4 * min(gaps) + step


def test_a_dataset_that_was_restored_drops_the_points_ahead_of_it() -> None:
    points = MemoryPoints()
    for records in range(0, 100, 10):
        points.add(float(records), 100.0 + records)
    points.add(45.0, 300.0)
    assert [at for at, _ in points.points] == [0.0, 10.0, 20.0, 30.0, 40.0, 45.0]
    assert points.peak == 300.0


def grown(book: UsageBook, notes: int) -> None:
    for number in range(notes):
        records = 1000.0 * number
        memory = {"worker-0": [100.0 + number, 110.0 + number]}
        if book.has_news("worker-0", records, 110.0 + number):
            book.note(30.0 * number, records=records, memory=memory, gone=[])


def test_a_successor_forecasts_from_what_the_journal_has() -> None:
    state = JobState(job=JobBook(), usage=UsageBook())
    assert state.usage is not None
    grown(state.usage, 60)
    copy = JobState(job=JobBook(), usage=UsageBook())
    copy.restore(state.snapshot())
    assert copy.usage is not None
    noted = copy.usage.memory_of("worker-0")
    assert noted is not None
    assert 169.0 / PEAK_STEP <= noted.peak <= 169.0
    view = NodeView("worker-0", "worker", memory_mb=159.0, memory_limit_mb=1000.0, memory_points=noted.points)
    assert forecast(view, 100_000.0) == pytest.approx(259.0, rel=0.02)
    again = Operation(
        "usage", "note", 2000.0, {"records": 90_000.0, "memory": {"worker-0": [190.0, 200.0]}, "gone": []}
    )
    assert (state.apply(again), copy.apply(again)) == (None, None)
    assert json.loads(json.dumps(copy.usage.snapshot())) == json.loads(json.dumps(state.usage.snapshot()))


def test_notes_of_a_node_grow_with_the_logarithm_of_its_records() -> None:
    book, notes = UsageBook(), 0
    for number in range(20_000):
        if book.has_news("worker-0", 50.0 * number, 100.0):
            book.note(30.0 * number, records=50.0 * number, memory={"worker-0": [100.0, 100.0]}, gone=[])
            notes += 1
    assert notes < 300, "a week of looks, each half a minute"
    assert len(json.dumps(book.snapshot())) < 2000


def test_a_job_that_stands_still_has_no_news_unless_a_peak_rises() -> None:
    book = UsageBook()
    assert book.has_news("ps-0", 0.0, 50.0)
    book.note(0.0, records=0.0, memory={"ps-0": [50.0, 50.0]}, gone=[])
    assert not book.has_news("ps-0", 0.0, 50.5)
    assert book.has_news("ps-0", 0.0, 60.0)
    assert book.has_news("ps-0", 1.0, 50.0)


def test_nodes_that_are_gone_are_forgotten() -> None:
    book = UsageBook()
    book.note(0.0, records=0.0, memory={"ps-0": [50.0, 50.0], "ps-1": [60.0, 60.0]}, gone=[])
    book.note(1.0, records=0.0, memory={}, gone=["ps-0", "ps-7"])
    assert book.nodes() == {"ps-1"}
    assert book.memory_of("ps-0") is None


@pytest.mark.parametrize(
    ("records", "memory"),
    [
        (-1.0, {}),
        (0.0, {"ps-0": [1.0]}),
        (0.0, {"ps-0": [1.0, float("nan")]}),
        (0.0, {"ps-0": [float("inf"), 1.0]}),
        (0.0, {f"ps-{number}": [1.0, 1.0] for number in range(MAX_NODES + 1)}),
    ],
)
def test_what_cannot_be_memory_changes_nothing(records: float, memory: dict[str, list[float]]) -> None:
    book = UsageBook()
    with pytest.raises(InvalidRequest):
        book.note(0.0, records=records, memory=memory, gone=[])
    assert book.snapshot() == {"nodes": {}}
