"""The list of jobs: one line each, in 100 columns, with what matters of why a job failed."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from pliant.cli.render.job_list import age, job_list, progress, why
from pliant.core.job import Phase
from pliant.core.status import JobStatus, Progress, RoleStatus
from pliant.handles.job_handle import JobView
from pliant.handles.local import LocalJob
from pliant.master.job_dir import JobDir

REASON = "worker-12 failed 4 times (limit 3); 1 worker left, minimum 2"
ERROR = "exit code 1: RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x784 and 783x10)"
FAILED = JobStatus(
    "a-very-long-name-of-a-job-that-somebody-made-up-2026-11-18",
    Phase.FAILED,
    REASON,
    f"{REASON}: {ERROR}",
    started_at=1e9,
    ended_at=1e9 + 36_000,
    roles=(RoleStatus("worker", 2, 16, 16, ready=3, succeeded=1),),
    progress=Progress(step=999, total_steps=1000),
)
DONE = JobStatus("digits", Phase.SUCCEEDED, "all workers finished", roles=(RoleStatus("worker", 3, 3, 3, succeeded=3),))


def view_of(status: JobStatus) -> JobView:
    return JobView(LocalJob(JobDir(Path("jobs"))), status)


def shown(*statuses: JobStatus, width: int = 100) -> list[str]:
    written = io.StringIO()
    Console(file=written, width=width).print(job_list([view_of(status) for status in statuses], 1e9 + 40_000, width))
    return written.getvalue().splitlines()


@pytest.mark.parametrize("width", [100, 120, 300])
def test_each_job_has_one_line_that_fits(width: int) -> None:
    lines = shown(FAILED, DONE, width=width)
    assert len(lines) == 3
    assert all(len(line.rstrip()) <= width for line in lines)
    assert all(head in lines[0] for head in ("NAME", "PHASE", "AGE", "TIME", "WORKERS", "PROGRESS", "WHY"))


def test_workers_that_are_done_count_and_almost_done_is_not_done() -> None:
    _, failed, done = shown(FAILED, DONE)
    assert " 3/3 " in done
    assert " 4/16 " in failed
    assert " 99 % " in failed


def test_why_keeps_the_exception_where_not_all_of_it_fits() -> None:
    view = view_of(FAILED)
    assert why(view, 300) == FAILED.message
    assert why(view, 100) == ERROR
    assert why(view, 80) == ERROR.removeprefix("exit code 1: ")
    assert why(view, 40).startswith("RuntimeError: ")
    assert why(view, 40).endswith("783x10)")


def test_why_is_one_line_also_where_an_error_has_several() -> None:
    status = JobStatus("digits", Phase.FAILED, "no worker is left", "no worker is left: Error: a\n  b")
    assert why(view_of(status), 100) == "no worker is left: Error: a b"


def test_a_job_that_does_not_answer_says_so() -> None:
    view = JobView(LocalJob(JobDir(Path("jobs"))), JobStatus("digits", Phase.RUNNING), note="the master is away")
    assert why(view, 60) == "the master is away"


def test_progress_without_a_total_is_the_step() -> None:
    assert progress(JobStatus("digits", Phase.RUNNING, progress=Progress(step=1200))) == "step 1,200"
    assert progress(JobStatus("digits", Phase.RUNNING)) == ""


@pytest.mark.parametrize(("seconds", "text"), [(-1, "0s"), (59, "59s"), (60, "1m"), (7300, "2h"), (200_000, "2d")])
def test_an_age_is_in_its_largest_unit(seconds: float, text: str) -> None:
    assert age(seconds) == text
