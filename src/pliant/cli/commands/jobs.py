"""List the jobs of this machine, oldest first.

    pliant jobs
    pliant jobs --json | jq -r '.[] | select(.phase == "Failed") | .name'
    pliant jobs --prune
    pliant jobs -N team-a

Only jobs below ~/.pliant/jobs (or PLIANT_HOME) are listed, not those that were given a folder by --job-dir.

Exit code: 0.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pliant.cli.handles.find import all_job_handles
from pliant.cli.handles.job_handle import JobHandle
from pliant.cli.options.common import AsJson, Context, Namespace, cluster_of

if TYPE_CHECKING:
    from pliant.cli.handles.job_handle import JobView


def jobs(
    as_json: AsJson = False,
    prune: Annotated[bool, typer.Option("--prune", help="Remove jobs that ended, with their logs.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --prune: do not ask.")] = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    cluster = cluster_of(namespace, context)
    if prune:
        _prune(all_job_handles(cluster), yes)
        return
    views = [handle.peek() for handle in all_job_handles(cluster)]
    if as_json:
        print(json.dumps([_row(view) for view in views], indent=1))
    elif views:
        _print(views)
    else:
        print("there are no jobs yet; start one with `pliant run -- python train.py`")


def _row(view: JobView) -> dict[str, Any]:
    status = view.status
    return {
        "name": status.name,
        "phase": view.phase,
        "reason": status.reason,
        "started_at": status.started_at,
        "seconds": round(status.seconds, 3),
        "nodes_alive": len(status.live_nodes) if not view.is_over else 0,
        "records_done": sum(dataset.records_done for dataset in status.datasets),
        "records_total": sum(dataset.records_total for dataset in status.datasets),
        "note": view.note,
        **view.handle.identity(),
    }


def _print(views: list[JobView]) -> None:
    from rich.table import Table
    from rich.text import Text

    from pliant.cli.render.progress import clock
    from pliant.cli.render.tables import PHASE_STYLES, moment, table_console

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in ("NAME", "PHASE", "STARTED", "TIME", "NODES", "RECORDS", "WHY"):
        table.add_column(head, justify="right" if head in ("TIME", "NODES", "RECORDS") else "left")
    for view in views:
        row = _row(view)
        total = row["records_total"]
        table.add_row(
            Text(row["name"]),
            Text(row["phase"], style=PHASE_STYLES.get(row["phase"], "yellow")),
            moment(row["started_at"]),
            clock(row["seconds"]),
            str(row["nodes_alive"] or ""),
            f"{row['records_done']:,} of {total:,}" if total else "",
            Text(row["reason"] or row["note"]),
        )
    table_console().print(table)


def _prune(handles: list[JobHandle], yes: bool) -> None:
    ended = [handle for handle in handles if handle.is_removable()]
    if not ended:
        print("there are no ended jobs to remove")
        return
    names = ", ".join(handle.name for handle in ended)
    if not yes and sys.stdin.isatty():
        typer.confirm(f"remove {len(ended)} ended jobs and their logs ({names})?", abort=True)
    for handle in ended:
        handle.remove()
    print(f"removed {names}")
