"""Show how the speed and the metrics of a job developed.

    pliant series
    pliant series digits
    pliant series digits --metric loss --metric eval/accuracy
    pliant series digits --json
    pliant series digits -N team-a --tensorboard runs/digits

Shown are small charts of the records or steps per second, the loss and the other metrics that the program reported, also of a job
that has ended. `--json` has all curves, with the use of each node, as columns: time, step, mean, min, max, count. `--tensorboard`
writes a TensorBoard event file; jobs on this machine have such files in their own directory anyway.

Exit code: 0; 1 if the master does not respond; 2 if the job or a metric is not found, or nothing can be written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pliant.cli.options.common import AsJson, Context, Folder, Name, Namespace, cluster_of
from pliant.cli.render.terminal import say
from pliant.core.errors import InvalidRequest, NotFound
from pliant.core.series.event_log import file_of
from pliant.core.series.job_series import JobSeries
from pliant.handles.find import find_job_handle
from pliant.master.event_file import write_events

MAX_CHARTS = 6  # unless they are named


def series(
    name: Name = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="Show only this metric; repeat it for several.", metavar="NAME")
    ] = None,
    job_dir: Folder = None,
    as_json: AsJson = False,
    event_folder: Annotated[
        Path | None, typer.Option("--tensorboard", help="Write a TensorBoard event file there.", metavar="DIRECTORY")
    ] = None,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    found = find_job_handle(name, job_dir, cluster_of(namespace, context, job_dir)).series()
    if missing := [each for each in metric or () if each not in found.metrics]:
        known = ", ".join(found.metrics) or "none; a program reports them with job.report(step, loss=…)"
        raise NotFound(f"job {found.name} has no metric {missing[0]!r}", hint=f"metrics: {known}")
    if as_json:
        print(json.dumps(found.to_json(), indent=1))
        return
    if event_folder is not None:
        say(f"wrote {_write(event_folder, found)}; see it with: tensorboard --logdir {event_folder}")
        return
    from pliant.cli.render.series import series_view
    from pliant.cli.render.tables import table_console

    table_console().print(series_view(found, metric or (), MAX_CHARTS))


def _write(folder: Path, found: JobSeries) -> Path:
    try:
        return write_events(folder, found.time, file_of(found))
    except OSError as error:
        raise InvalidRequest(f"cannot write to {folder}: {error.strerror}") from None
