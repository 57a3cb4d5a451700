"""Steps, loss and what is left, wherever a running or ended job is shown."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import cast

from rich.console import Console, RenderableType

from pliant.cli.following.follow import _one_line
from pliant.cli.render.final_report import print_final_report
from pliant.cli.render.progress import progress_view
from pliant.cli.render.tables import job_view, usage_view
from pliant.core.job import Phase
from pliant.core.shards.datasets import ShardType
from pliant.core.status import DatasetStatus, JobStatus, Progress
from pliant.core.summary import JobSummary
from pliant.handles.job_handle import JobHandle, JobView

HANDLE = cast(JobHandle, SimpleNamespace(where="here", logs_at="logs: here"))
TRAINING = Progress(3200, 6400, step=100, total_steps=200, metrics={"loss": 0.12345, "accuracy": 0.875})
UNUSED = DatasetStatus("train-end", ShardType.TRAIN_END, records_total=1)
STATUS = JobStatus(
    "digits",
    Phase.RUNNING,
    progress=TRAINING,
    records_per_second=640.0,
    steps_per_second=20.0,
    eta=5.0,
    datasets=(UNUSED,),
)


def shown(view: RenderableType) -> str:
    written = io.StringIO()
    Console(file=written, width=100).print(view)
    return written.getvalue()


def test_every_view_shows_steps_loss_and_time_left() -> None:
    for view in (progress_view(STATUS), job_view(JobView(HANDLE, STATUS)), usage_view(STATUS)):
        text = shown(view)
        for part in ("640 records/s", "step 100 of 200", "loss 0.1235", "50.0 %", "0:05 left"):
            assert part in text
        assert "train-end" not in text, "nobody took that shard"
        assert all(len(line.rstrip()) <= 100 for line in text.splitlines())


def test_the_programs_own_metrics_are_in_status_and_top() -> None:
    for view in (job_view(JobView(HANDLE, STATUS)), usage_view(STATUS)):
        assert "accuracy 0.875" in shown(view)


def test_the_line_without_a_terminal_has_them_too() -> None:
    assert _one_line(STATUS) == "0 nodes running, 640 records/s, step 100 of 200 (50 %), loss 0.1235, 0:05 left"


def test_the_final_report_says_how_far_the_training_came() -> None:
    written = io.StringIO()
    ended = JobStatus("digits", Phase.SUCCEEDED, "all workers finished", progress=TRAINING)
    print_final_report(Console(file=written, width=200), HANDLE, JobSummary(ended))
    assert "training: step 100 of 200, 3,200 records, loss 0.1235, accuracy 0.875\n" in written.getvalue()
