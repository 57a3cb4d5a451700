from __future__ import annotations

import io
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from rich.console import Console

from pliant.cli.render.final_report import print_final_report
from pliant.core.job import Failure, Phase
from pliant.core.status import CheckpointStatus, DatasetStatus, JobStatus
from pliant.core.summary import JobSummary
from pliant.handles.job_handle import JobHandle


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


def report_of(status: JobStatus) -> str:
    written = io.StringIO()
    handle = cast(JobHandle, SimpleNamespace(logs_at="logs: here"))
    print_final_report(Console(file=written, width=300), handle, JobSummary(status))
    return written.getvalue()


def test_a_success_without_its_last_checkpoint_says_so() -> None:
    good = CheckpointStatus("/saved", written=4, last_step=400, last_time=5.0, failures=1, reason="no space left")
    text = report_of(JobStatus("job", Phase.SUCCEEDED, checkpoints=(good,)))
    assert "pliant | newest checkpoint: of step 400, in /saved (1 checkpoint failed)\n" in text
    assert "warning" not in text
    bad = replace(good, failures=3, failures_in_a_row=2, hint="free space in /saved")
    text = report_of(JobStatus("job", Phase.SUCCEEDED, checkpoints=(bad,)))
    assert "pliant | warning: the last checkpoint could not be written to /saved: no space left\n" in text
    assert "pliant | what to do: free space in /saved\n" in text
    none = CheckpointStatus("/saved", failures=1, failures_in_a_row=1, reason="no space left")
    assert "newest checkpoint: none, in /saved" in report_of(JobStatus("job", Phase.SUCCEEDED, checkpoints=(none,)))


def test_an_error_that_no_program_wrote_names_no_output() -> None:
    failure = Failure("worker-0", "Error", "checkpoints cannot be written to /x: no", "", 1.0, "/log", "use another")
    text = report_of(JobStatus("job", Phase.FAILED, first_failure=failure))
    assert "pliant | what to do: use another\n" in text
    assert "full output" not in text
    assert "full output: /log" in report_of(
        JobStatus("job", Phase.FAILED, first_failure=replace(failure, traceback="Traceback"))
    )
