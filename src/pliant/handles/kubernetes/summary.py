"""What an ended job of a cluster left: the ConfigMap that its master wrote, with the audit and the last events."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from pliant.core.errors import CorruptData
from pliant.core.summary import JobSummary
from pliant.platforms.kubernetes.elastic_job_status import status_of_resource
from pliant.platforms.kubernetes.kinds import Object
from pliant.platforms.kubernetes.names import SERIES_KEY, SUMMARY_KEY


@dataclass(frozen=True, slots=True)
class Remains:
    """The summary is None if the master could not write one."""

    summary: JobSummary | None = None
    audit: dict[str, Any] | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    series: str = ""  # JSON


def read_remains(config_map: Object | None) -> Remains:
    data = (config_map or {}).get("data") or {}
    text = data.get(SUMMARY_KEY)
    if not text:
        return Remains()
    try:
        value: dict[str, Any] = json.loads(text)
        summary = JobSummary.from_json(value)
    except (ValueError, RecursionError, CorruptData):  # its ElasticJob says how it ended
        return Remains()
    return Remains(summary, value.get("audit"), value.get("events") or [], data.get(SERIES_KEY) or "")


def summary_of(job: Object, remains: Remains, now: float) -> JobSummary:
    """Of an ended job: what its master left, else what its ElasticJob says."""
    return remains.summary or JobSummary(status_of_resource(job, now))
