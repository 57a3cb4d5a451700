"""The series of an ended job, in the ConfigMap beside its summary."""

from __future__ import annotations

import json

from pliant.core.job import Phase
from pliant.core.series.book import SeriesBook
from pliant.core.status import JobStatus
from pliant.core.summary import JobSummary
from pliant.handles.kubernetes.summary import read_remains
from pliant.master.series_file import parse_series
from pliant.platforms.kubernetes.elastic_job import MAX_SUMMARY, _summary_data
from pliant.platforms.kubernetes.names import SERIES_KEY, SUMMARY_KEY


def test_the_series_have_a_key_of_their_own_and_are_left_out_first() -> None:
    book = SeriesBook()
    book.add_metric(1e9, 1, "loss", 0.5)
    summary = JobSummary(JobStatus("mine", Phase.SUCCEEDED)).to_json()
    series = book.series("mine", 1e9).to_json()
    data = _summary_data({**summary, "events": [], "series": series})
    assert "series" not in json.loads(data[SUMMARY_KEY])
    remains = read_remains({"data": data})
    assert remains.summary is not None
    assert parse_series(remains.series, "there").metrics["loss"][0].mean == 0.5
    large = {**summary, "reason": "x" * (MAX_SUMMARY - len(json.dumps(summary, indent=1)) - 100)}
    assert SERIES_KEY in _summary_data({**summary, "series": series})
    assert SERIES_KEY not in _summary_data({**large, "series": series})
    assert SERIES_KEY not in _summary_data(summary)
    assert read_remains({"data": _summary_data(large)}).series == ""
