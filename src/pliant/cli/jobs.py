"""List the jobs of this machine, oldest first.

    pliant jobs
    pliant jobs --json | jq -r '.[] | select(.phase == "Failed") | .name'
    pliant jobs --prune

Only jobs below ~/.pliant/jobs (or PLIANT_HOME) are listed, not those that were given a folder by --job-dir.

Exit code: 0.
"""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pliant.cli.homes import all_jobs
from pliant.cli.options import AsJson

if TYPE_CHECKING:
    from pliant.cli.asking import Sight


def jobs(
    as_json: AsJson = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove the folders of jobs that ended, with their logs.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --prune: do not ask.")] = False,
) -> None:
    if prune:
        _prune(yes)
        return
    from pliant.cli.asking import look

    sights = [look(home, patience=0) for home in all_jobs()]
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
        "job_dir": str(sight.home.path),
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


def _prune(yes: bool) -> None:
    from pliant.cli.asking import launcher_is_alive

    ended = [home for home in all_jobs() if home.summary_file.exists() and not launcher_is_alive(home)]
    if not ended:
        print("there are no ended jobs to remove")
        return
    names = ", ".join(home.path.name for home in ended)
    if not yes and sys.stdin.isatty():
        typer.confirm(f"remove {len(ended)} ended jobs and their logs ({names})?", abort=True)
    for home in ended:
        shutil.rmtree(home.path)
    print(f"removed {names}")
