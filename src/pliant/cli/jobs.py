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

from pliant.cli.options import AsJson, Context, Namespace, cluster_of
from pliant.cli.places import Place, all_places

if TYPE_CHECKING:
    from pliant.cli.places import Sight


def jobs(
    as_json: AsJson = False,
    prune: Annotated[bool, typer.Option("--prune", help="Remove jobs that ended, with their logs.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --prune: do not ask.")] = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    cluster = cluster_of(namespace, context)
    if prune:
        _prune(all_places(cluster), yes)
        return
    sights = [place.glance() for place in all_places(cluster)]
    if as_json:
        print(json.dumps([_row(sight) for sight in sights], indent=1))
    elif sights:
        _print(sights)
    else:
        print("there are no jobs yet; start one with `pliant run -- python train.py`")


def _row(sight: Sight) -> dict[str, Any]:
    from pliant.cli.tables import living, seconds_of

    status = sight.status
    return {
        "name": status.name,
        "phase": sight.phase,
        "reason": status.reason,
        "started_at": status.started_at,
        "seconds": round(seconds_of(status), 3),
        "nodes_alive": len(living(status)) if not sight.over else 0,
        "records_done": sum(dataset.records_done for dataset in status.datasets),
        "records_total": sum(dataset.records_total for dataset in status.datasets),
        "note": sight.note,
        **sight.place.identity(),
    }


def _print(sights: list[Sight]) -> None:
    from rich.table import Table
    from rich.text import Text

    from pliant.cli.progress import clock
    from pliant.cli.tables import PHASE_STYLES, moment, table_console

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in ("NAME", "PHASE", "STARTED", "TIME", "NODES", "RECORDS", "WHY"):
        table.add_column(head, justify="right" if head in ("TIME", "NODES", "RECORDS") else "left")
    for sight in sights:
        row = _row(sight)
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


def _prune(places: list[Place], yes: bool) -> None:
    ended = [place for place in places if place.removable()]
    if not ended:
        print("there are no ended jobs to remove")
        return
    names = ", ".join(place.name for place in ended)
    if not yes and sys.stdin.isatty():
        typer.confirm(f"remove {len(ended)} ended jobs and their logs ({names})?", abort=True)
    for place in ended:
        place.remove()
    print(f"removed {names}")
