"""Show how a job is doing, or how it ended.

A running job's master is asked. An ended job's summary is read. If the master does not answer, the journal is read, and
that is said.

    pliant status
    pliant status digits --watch
    pliant status digits -N team-a
    pliant status digits --json | jq '.nodes[] | {name, state, pid}'

Exit code: 0 if the job was found, whatever its state; 2 if there is no such job.
"""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from pliant.cli.options import AsJson, Context, Folder, Name, Namespace, cluster_of
from pliant.cli.places import Sight, find_place

REFRESH = 0.5  # seconds


def status(
    name: Name = None,
    job_dir: Folder = None,
    as_json: AsJson = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it live until the job ends or Ctrl-C.")] = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    place = find_place(name, job_dir, cluster_of(namespace, context, job_dir))

    def show(sight: Sight) -> None:
        if as_json:
            print(json.dumps(sight.to_json(), indent=None if watch else 1), flush=True)
            return
        from pliant.cli.tables import job_view, table_console

        table_console().print(job_view(sight))

    sight = place.look()
    if not watch or sight.over:
        show(sight)
        return
    if as_json:  # one line per look
        while not sight.over:
            show(sight)
            time.sleep(REFRESH)
            sight = place.look()
        show(sight)
        return
    from rich.live import Live

    from pliant.cli.tables import job_view, table_console

    with Live(job_view(sight), console=table_console(), auto_refresh=False) as live:
        while not sight.over:
            time.sleep(REFRESH)
            sight = place.look()
            live.update(job_view(sight), refresh=True)
