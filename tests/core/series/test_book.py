"""What is recorded of a whole job."""

from __future__ import annotations

import json
import math

import pytest

from pliant.core.errors import CorruptData
from pliant.core.series import book as module
from pliant.core.series.book import ALL_NODE_POINTS, MAX_METRICS, MAX_NODES, SeriesBook
from pliant.core.series.job_series import JobSeries


def small_job() -> SeriesBook:
    book = SeriesBook()
    for second in range(10):
        book.records_per_second.add(1e9 + second, second, 100.0 + second)
        book.workers.add(1e9 + second, second, 2.0)
        book.add_metric(1e9 + second, second, "accuracy", second / 10)
        book.add_metric(1e9 + second, second, "loss", 1 / (second + 1))
        book.add_usage(1e9 + second, second, "worker-0", cpu=0.5, memory_mb=100.0, limits=(2.0, 512.0))
    return book


def test_series_survive_being_json() -> None:
    found = small_job().series("mine", 1e9 + 10)
    assert list(found.metrics) == ["loss", "accuracy"]
    again = JobSeries.from_json(json.loads(json.dumps(found.to_json())))
    assert again.to_json() == found.to_json()
    assert again.nodes["worker-0"].memory_limit_mb == 512.0
    assert [point.step for point in again.metrics["loss"]] == list(range(10))


def test_a_book_continues_where_another_ended() -> None:
    second = SeriesBook()
    second.restore(small_job().series("mine", 1e9 + 10))
    second.add_metric(1e9 + 11, 11, "loss", 0.01)
    curve = second.series("mine", 1e9 + 11).metrics["loss"]
    assert [point.step for point in curve] == [*range(10), 11]
    assert second.last_step_of("loss") == 11
    assert second.last_step_of("unknown") is None


@pytest.mark.parametrize(
    "change",
    [
        {"time": "now"},
        {"metrics": {"loss": {"time": [1.0], "step": [], "mean": [1.0], "min": [1.0], "max": [1.0], "count": [1]}}},
        {"nodes": {"worker-0": 1}},
        {"workers": {"time": [math.nan]}},
    ],
)
def test_a_damaged_file_is_said_to_be_one(change: dict[str, object]) -> None:
    with pytest.raises(CorruptData):
        JobSeries.from_json({**small_job().series("mine", 0.0).to_json(), **change})


def test_what_is_not_a_finite_number_is_no_point_and_a_diverging_loss_is_one() -> None:
    book = SeriesBook()
    assert not book.add_metric(1.0, 1, "loss", math.nan)
    assert not book.add_metric(1.0, 1, "loss", -math.inf)
    assert book.add_metric(1.0, 1, "loss", 1e300)
    value = json.loads(json.dumps(book.series("mine", 1.0).to_json()))
    assert JobSeries.from_json(value).metrics["loss"][0].mean == 9e18


def test_names_of_metrics_are_bounded_and_the_rest_is_named() -> None:
    book = SeriesBook()
    taken = [book.add_metric(1.0, 1, f"metric{number}", 1.0) for number in range(MAX_METRICS + 30)]
    assert taken.count(True) == MAX_METRICS
    assert not book.add_metric(1.0, 1, "x" * 1000, 1.0)
    found = book.series("mine", 1.0)
    assert len(found.metrics) == MAX_METRICS
    assert f"metric{MAX_METRICS}" in found.left_out[0]
    assert len(found.left_out) <= module.MAX_LEFT_OUT


def test_a_thousand_nodes_and_their_replacements_take_no_more_room_than_a_few() -> None:
    book = SeriesBook()
    for second in range(60):
        for number in range(MAX_NODES if second < 59 else MAX_NODES + 50):
            book.add_usage(1e9 + second, 0, f"worker-{number}", cpu=1.0, memory_mb=2.0, limits=(0.0, 0.0))
    found = book.series("large", 0.0)
    assert len(found.nodes) == MAX_NODES
    assert "worker-1049" in found.nodes
    assert found.points <= ALL_NODE_POINTS
    assert "50 nodes" in found.left_out[0]


def test_what_is_kept_with_an_ended_job_of_a_cluster_fits() -> None:
    book = SeriesBook()
    for second in range(2000):
        for name in range(MAX_METRICS):
            book.add_metric(1e9 + second, second, f"m{name}", 1.0)
    for number in range(500):
        for second in range(40):
            book.add_usage(1e9 + second, 0, f"worker-{number}", cpu=1.0, memory_mb=2.0, limits=(0.0, 0.0))
    whole = book.series("large", 0.0)
    kept = whole.within(4000)
    assert kept.points <= 4000
    assert len(kept.metrics) == MAX_METRICS
    assert "worker-499" in kept.nodes
    assert f"of {len(whole.nodes)} nodes" in kept.left_out[-1]
    assert len(json.dumps(kept.to_json())) < 300_000
    assert small_job().series("mine", 0.0).within(4000) == small_job().series("mine", 0.0)
