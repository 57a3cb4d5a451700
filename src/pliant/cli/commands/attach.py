"""Follow a running job, as `pliant run` does: its output from now on, its progress, and how it ends.

    pliant attach
    pliant attach digits
    pliant attach digits --tail 100 --summary summary.json
    pliant attach digits -N team-a

Ctrl-C detaches: the job keeps running. `pliant stop` stops it.

Exit code: the job's: 0 done, 1 failed, 130 stopped; 0 after Ctrl-C; 2 if there is no such job.
"""

from __future__ import annotations

from typing import Annotated

import typer

from pliant.cli.launch.outcome import check_summary, leave
from pliant.cli.options.common import Context, Folder, Name, Namespace, cluster_of
from pliant.cli.options.groups import grouped
from pliant.cli.options.run import FollowOptions
from pliant.cli.render.terminal import say
from pliant.handles.find import find_job_handle


@grouped
def attach(
    name: Name = None,
    job_dir: Folder = None,
    tail: Annotated[
        int, typer.Option("--tail", min=0, metavar="N", help="Begin with the last N lines of each node.")
    ] = 10,
    namespace: Namespace = None,
    context: Context = None,
    *,
    options: FollowOptions,
) -> None:
    from pliant.cli.following.attached import attach_to
    from pliant.cli.following.follow import Detached

    check_summary(options)
    handle = find_job_handle(name, job_dir, cluster_of(namespace, context, job_dir))
    try:
        summary = attach_to(handle, tail=tail, **options.shown())
    except Detached:
        where = f" -N {namespace}" if namespace and job_dir is None else ""
        say(
            f"pliant | detached; job {handle.name} keeps running; `pliant stop {handle.argument}{where}` stops it",
            to_stderr=True,
        )
        return
    leave(summary, options)
