"""Watch the progress of a running job, and CPU cores, memory and records/s of each node, busiest first.

CPU and memory are what is used of what was asked for, of each node and as sums of each role. Of a job that plans its own
resources (`--auto`), the planner's state and its last plan are shown.

    pliant top
    pliant top digits --once
    pliant top digits --json
    pliant top digits -N team-a

Exit code: 0; 2 if the job is not found or has ended.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Annotated

import typer

from pliant.cli.options.common import AsJson, Context, Folder, Name, Namespace, cluster_of
from pliant.core.errors import Conflict
from pliant.core.status_json import part_to_json
from pliant.handles.find import find_job_handle


def top(
    name: Name = None,
    job_dir: Folder = None,
    once: Annotated[bool, typer.Option("--once", help="Print the table once and exit.")] = False,
    as_json: AsJson = False,
    every: Annotated[float, typer.Option("--every", min=0.1, metavar="SECONDS", help="Seconds between updates.")] = 1.0,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    from pliant.cli.render.tables import busiest_first, role_usages, table_console, usage_view

    handle = find_job_handle(name, job_dir, cluster_of(namespace, context, job_dir))
    view = handle.view()
    if view.is_over:
        raise Conflict(f"job {handle.name} has ended ({view.phase})", hint=f"see `pliant status {handle.argument}`")
    if not view.master_alive or view.note:
        raise Conflict(f"job {handle.name}: {view.note}", hint=f"see `pliant status {handle.argument}`")
    if as_json:
        status = view.status
        rows = [part_to_json(node) for node in busiest_first(status)]
        rates = {"records_per_second": status.records_per_second, "steps_per_second": status.steps_per_second}
        value = {
            "name": status.name,
            "progress": part_to_json(status.progress),
            **rates,
            "eta": status.eta,
            "nodes": rows,
            "roles": [asdict(used) for used in role_usages(status)],
            "optimize": status.optimize,
        }
        if status.planner is not None:
            value["planner"] = part_to_json(status.planner)
        if status.last_plan is not None:
            value["last_plan"] = part_to_json(status.last_plan)
        if status.parameters is not None:
            value["parameters"] = part_to_json(status.parameters)
        print(json.dumps(value, indent=1))
        return
    console = table_console()
    if once or not console.is_terminal:
        console.print(usage_view(view.status))
        return
    from rich.live import Live

    with Live(usage_view(view.status), console=console, auto_refresh=False) as live:
        while not view.is_over:
            time.sleep(every)
            view = handle.view()
            live.update(usage_view(view.status), refresh=True)
