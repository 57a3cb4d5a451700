from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any, cast

from rich.console import Console

from pliant.cli.handles.job_handle import JobHandle
from pliant.cli.render.final_report import print_final_report
from pliant.core.job import Phase
from pliant.core.status import DatasetStatus, JobStatus
from pliant.core.summary import JobSummary


def report(**dataset: Any) -> str:
    fields = {"records_done": 100, "records_total": 100, "shards_total": 10, "complete": True, **dataset}
    status = JobStatus("job", Phase.SUCCEEDED, "all workers finished", datasets=(DatasetStatus("train", **fields),))
    written = io.StringIO()
    handle = cast(JobHandle, SimpleNamespace(logs_at="logs: here"))
    print_final_report(Console(file=written, width=200), handle, JobSummary(status))
    return written.getvalue()


def test_each_exactly_once_is_said_only_where_it_was_computed_from_what_was_accepted() -> None:
    assert "train: 100 of 100 records, each exactly once\n" in report(exact=True)
    assert "train: 100 of 100 records, each exactly once in each of 2 epochs\n" in report(exact=True, epochs=2)
    assert "train: 100 of 100 records, NOT each exactly once" in report(exact=False)


def test_a_total_over_datasets_claims_nothing() -> None:
    assert "train: 100 of 100 records\n" in report(exact=False, shards_total=0)


def test_what_was_done_before_the_restored_position_is_told_apart() -> None:
    text = report(exact=True, records_restored=30)
    assert "train: 100 of 100 records (30 of them before the restored checkpoint), each exactly once\n" in text
