"""List the jobs on this machine, oldest first.

    pliant jobs
    pliant jobs --json | jq -r '.[] | select(.phase == "Failed") | .name'
    pliant jobs --prune
    pliant jobs -N team-a

WORKERS: running or succeeded, of those desired. PROGRESS: share of the steps or records done. WHY is cut to the width of the
terminal (100 columns in a pipe); --json has all of it.

Lists only jobs in ~/.pliant/jobs (or PLIANT_HOME), not those started with --job-dir.

Exit code: 0.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pliant.cli.options.common import AsJson, Context, Namespace, cluster_of
from pliant.cli.render.terminal import say
from pliant.core.plurals import counted
from pliant.core.status_json import part_to_json
from pliant.handles.find import all_job_handles
from pliant.handles.job_handle import JobHandle

if TYPE_CHECKING:
    from pliant.handles.job_handle import JobView


def jobs(
    as_json: AsJson = False,
    prune: Annotated[bool, typer.Option("--prune", help="Remove finished jobs and their logs.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --prune: do not ask for confirmation.")] = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    cluster = cluster_of(namespace, context)
    if prune:
        removed = _prune(all_job_handles(cluster), yes, ask=not as_json)
        if as_json:
            print(json.dumps({"removed": removed}))
        else:
            say(f"removed {', '.join(removed)}" if removed else "no finished jobs to remove")
        return
    views = [handle.peek() for handle in all_job_handles(cluster)]
    if as_json:
        print(json.dumps([_row(view) for view in views], indent=1))
    elif views:
        from pliant.cli.render.job_list import print_jobs

        print_jobs(views, time.time())
    else:
        say("no jobs yet; start one with `pliant run -- python train.py`")


def _row(view: JobView) -> dict[str, Any]:
    status = view.status
    role = status.role("worker")
    return {
        "name": status.name,
        "phase": view.phase,
        "reason": status.reason,
        "message": status.message,
        "started_at": status.started_at,
        "seconds": round(status.seconds, 3),
        "nodes_alive": len(status.live_nodes) if not view.is_over else 0,
        "workers": role.present if role is not None else 0,
        "workers_wanted": role.wanted if role is not None else 0,
        **part_to_json(status.progress),
        "records_per_second": status.records_per_second if not view.is_over else 0.0,
        "eta": status.eta,
        "note": view.note,
        **view.handle.identity(),
    }


def _prune(handles: list[JobHandle], yes: bool, *, ask: bool) -> list[str]:
    """Returns the names of those that were removed."""
    ended = [handle for handle in handles if handle.is_removable()]
    names = [handle.name for handle in ended]
    if ended and ask and not yes and sys.stdin.isatty():
        typer.confirm(f"remove {counted(len(ended), 'finished job')} and all logs ({', '.join(names)})?", abort=True)
    for handle in ended:
        handle.remove()
    return names
