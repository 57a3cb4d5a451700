"""Show the status of a job, or its result.

Queries the master of a running job and reads the summary of a finished one. If the master does not respond, the journal is
read, and the output says so.

    pliant status
    pliant status digits --watch
    pliant status digits -N team-a
    pliant status digits --json | jq '.nodes[] | {name, state, pid}'

Exit code: 0 if the job was found, in any state; 2 if it is not found.
"""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from pliant.cli.options.common import AsJson, Context, Folder, Name, Namespace, cluster_of
from pliant.handles.find import find_job_handle
from pliant.handles.job_handle import JobView

REFRESH = 0.5  # seconds


def status(
    name: Name = None,
    job_dir: Folder = None,
    as_json: AsJson = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Update live until the job ends or Ctrl-C.")] = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    handle = find_job_handle(name, job_dir, cluster_of(namespace, context, job_dir))

    def show(view: JobView) -> None:
        if as_json:
            print(json.dumps(view.to_json(), indent=None if watch else 1), flush=True)
            return
        from pliant.cli.render.tables import job_view, table_console

        table_console().print(job_view(view))

    view = handle.view()
    if not watch or view.is_over:
        show(view)
        return
    if as_json:  # one line per look
        while not view.is_over:
            show(view)
            time.sleep(REFRESH)
            view = handle.view()
        show(view)
        return
    from rich.live import Live

    from pliant.cli.render.tables import job_view, table_console

    with Live(job_view(view), console=table_console(), auto_refresh=False) as live:
        while not view.is_over:
            time.sleep(REFRESH)
            view = handle.view()
            live.update(job_view(view), refresh=True)
