"""Watch what each node of a running job uses and does: CPU cores, memory, records per second. Busiest first.

    pliant top
    pliant top digits --once
    pliant top digits --json
    pliant top digits -N team-a

Exit code: 0; 2 if there is no such job or it is over.
"""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from pliant.cli.options import AsJson, Context, Folder, Name, Namespace, cluster_of
from pliant.cli.places import find_place
from pliant.core.errors import Conflict


def top(
    name: Name = None,
    job_dir: Folder = None,
    once: Annotated[bool, typer.Option("--once", help="Print the table once, not live.")] = False,
    as_json: AsJson = False,
    every: Annotated[float, typer.Option("--every", min=0.1, metavar="SECONDS", help="How often to look.")] = 1.0,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    from pliant.cli.tables import living, table_console, usage_view

    place = find_place(name, job_dir, cluster_of(namespace, context, job_dir))
    sight = place.look()
    if sight.over:
        raise Conflict(f"job {place.name} is over ({sight.phase})", hint=f"see `pliant status {place.name}`")
    if not sight.master_alive or sight.note:
        raise Conflict(f"job {place.name}: {sight.note}", hint=f"see `pliant status {place.name}`")
    if as_json:
        from pliant.master.summary import status_dict

        rows = [status_dict(node) for node in living(sight.status)]
        told = {"records_per_second": sight.status.records_per_second, "nodes": rows}
        if sight.status.HasField("parameters"):
            told["parameters"] = status_dict(sight.status.parameters)
        print(json.dumps(told, indent=1))
        return
    console = table_console()
    if once or not console.is_terminal:
        console.print(usage_view(sight.status))
        return
    from rich.live import Live

    with Live(usage_view(sight.status), console=console, auto_refresh=False) as live:
        while not sight.over:
            time.sleep(every)
            sight = place.look()
            live.update(usage_view(sight.status), refresh=True)
