"""List the jobs that report to the Brain, oldest first: those that run, or (--all, --since) all that it heard of.

    pliant brain jobs
    pliant brain jobs --all
    pliant brain jobs --since 30d --owner ann
    pliant brain jobs --quota vision --json | jq -r '.[] | .name'

NODES: running, and those that wait for room. MODE: who plans, as the job's description says: cluster (the Brain), single-job (its
own master) or manual. HEARD: since its last report. LOST: reports that never arrived.

Exit code: 0; 1 if the database does not answer; 2 if there is none.
"""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from pliant.cli.commands.brain.options import DatabaseUrl, Dir, since
from pliant.cli.options.common import AsJson
from pliant.cli.render.terminal import say


def jobs(
    show_all: Annotated[bool, typer.Option("--all", "-a", help="Also jobs that have ended.")] = False,
    heard_since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", help="Also ended ones, if heard of since then: 12h, 30d. Implies --all."
        ),
    ] = None,
    quota: Annotated[str, typer.Option("--quota", metavar="NAME", help="Only jobs of this quota.")] = "",
    owner: Annotated[str, typer.Option("--owner", metavar="NAME", help="Only jobs of this owner.")] = "",
    database: DatabaseUrl = None,
    directory: Dir = None,
    as_json: AsJson = False,
) -> None:
    now = time.time()
    begin = since(heard_since, now) if heard_since is not None else 0.0 if show_all else None
    from pliant.brain.inspection import list_jobs
    from pliant.cli.launch.brain_database import open_database

    with open_database(database, directory) as opened:
        found = list_jobs(opened, since=begin, quota=quota, owner=owner)
    if as_json:
        print(json.dumps([each.to_json() for each in found], indent=1))
    elif found:
        from pliant.cli.render.brain.jobs import job_table
        from pliant.cli.render.tables import table_console

        table_console().print(job_table(found, now))
    elif begin is None:
        say("no job that runs reports to the Brain; `pliant brain jobs --all` lists those that have ended")
    else:
        say("no such job; start one with `pliant run --auto --brain local -- python train.py`")
