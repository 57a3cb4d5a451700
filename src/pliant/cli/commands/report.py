"""Write a job to one HTML file that needs no server, to attach to a ticket.

    pliant report digits -o digits.html
    pliant report digits -N team-a -o digits.html
    pliant report -o - > newest.html
    pliant report digits --json | jq .documents.job.restarts

The file has what `pliant dashboard` shows: status, nodes, data, decisions, events, the end of each node's output, and the
spec with its secrets hidden. It loads nothing and sends nothing. Look through it before you give it away: output may hold
anything. With --json, the same documents are printed as JSON, and no file is written.

Exit code: 0; 2 if the job is not found or the file cannot be written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from pliant.cli.options.common import AsJson, Context, Folder, Name, Namespace, cluster_of
from pliant.cli.render.terminal import say
from pliant.handles.find import find_job_handle


def report(
    name: Name = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write; -: stdout. [default: NAME.html]"),
    ] = None,
    job_dir: Folder = None,
    log_lines: Annotated[
        int, typer.Option("--log-lines", min=0, max=2000, help="Last lines of each node's output; 0: none.")
    ] = 1000,
    as_json: AsJson = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    from pliant.cli.launch.report import documents, write_report

    handle = find_job_handle(name, job_dir, cluster_of(namespace, context, job_dir))
    if as_json:
        print(json.dumps(documents(handle, log_lines)))
        return
    if output == Path("-"):
        write_report(handle, log_lines, sys.stdout)
        return
    path = output or Path(f"{handle.name}.html")
    size = write_report(handle, log_lines, path)
    say(f"wrote {path} ({max(1, size // 1024):,} KB)")
