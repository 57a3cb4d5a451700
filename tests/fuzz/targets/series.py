"""The file that keeps a job's series."""

from __future__ import annotations

import json
from pathlib import Path

from pliant.core.series.book import SeriesBook
from pliant.core.series.event_log import file_of
from pliant.master.series_file import parse_series


class Fuzz:
    name = "series"

    def seeds(self) -> list[bytes]:
        book = SeriesBook()
        for step in range(5):
            book.add_metric(1e9 + step, step, "loss", 1 / (step + 1))
            book.add_usage(1e9 + step, step, "worker-0", cpu=0.5, memory_mb=64.0, limits=(1.0, 128.0))
        return [json.dumps(book.series("mine", 1e9).to_json()).encode()]

    def check(self, data: bytes, folder: Path) -> None:
        series = parse_series(data, "the file")
        SeriesBook().restore(series)
        file_of(series.within(100))
        series.to_json()
