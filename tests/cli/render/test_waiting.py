"""What a job waits for is shown wherever its status is."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from pliant.cli.following.follow import Follower
from pliant.cli.following.interrupts import Interrupts
from pliant.cli.render.progress import progress_view
from pliant.cli.render.tables import job_view
from pliant.core.job import Phase
from pliant.core.status import Condition, JobStatus
from pliant.handles.job_handle import JobView
from pliant.handles.local import LocalJob
from pliant.master.job_dir import JobDir

MESSAGE = "worker-0 cannot be scheduled: 1024000 MB of memory requested, the largest machine has 8000"
WAITING = Condition("WaitingForNodes", "True", "RequestTooLarge", MESSAGE, "2026-01-01T00:00:00Z")
STATUS = JobStatus("digits", Phase.RUNNING, conditions=(WAITING,))


def shown(view: RenderableType) -> str:
    output = StringIO()
    Console(file=output, width=200).print(view)
    return output.getvalue()


def test_the_live_view_and_the_status_say_what_is_waited_for(tmp_path: Path) -> None:
    assert f"waiting: {MESSAGE}" in shown(progress_view(STATUS))
    assert f"waiting: {MESSAGE}" in shown(job_view(JobView(LocalJob(JobDir(tmp_path)), STATUS)))


def test_a_condition_that_does_not_hold_any_more_is_not_shown() -> None:
    over = Condition("WaitingForNodes", "False", "NotWaiting", "", "2026-01-01T00:00:00Z")
    assert "waiting" not in shown(progress_view(JobStatus("digits", Phase.RUNNING, conditions=(over,))))


def test_a_run_says_it_once_and_again_when_it_changes(tmp_path: Path, capsys: Any) -> None:
    follower = Follower(LocalJob(JobDir(tmp_path)), Interrupts(), show_output=False, progress=True, to_stderr=False)
    other = Condition("WaitingForNodes", "True", "ScaledToZero", "worker scaled to 0", "")
    for conditions in ((WAITING,), (WAITING,), (), (other,), (WAITING,)):
        follower._say_waiting(JobStatus("digits", Phase.RUNNING, conditions=conditions))
    assert capsys.readouterr().out.splitlines() == [
        f"pliant | waiting: {MESSAGE}",
        "pliant | waiting: worker scaled to 0",
        f"pliant | waiting: {MESSAGE}",
    ]
