"""The curves of a job (``core/series``): throughput, loss and other metrics, what each node used."""

from __future__ import annotations

from typing import Any

from pliant.core.series.job_series import JobSeries

MARGIN_S = 5.0


def series_document(series: JobSeries) -> dict[str, Any]:
    return {"available": True, **series.to_json()}


def newest_time(series: JobSeries) -> float:
    """Who has this needs, later, what there is since then: samples come in order of time, but for a little."""
    curves = [series.records_per_second, series.steps_per_second, series.workers, *series.metrics.values()]
    curves += [curve for node in series.nodes.values() for curve in (node.cpu, node.memory_mb)]
    return max(0.0, max((curve[-1].time for curve in curves if curve), default=0.0) - MARGIN_S)
