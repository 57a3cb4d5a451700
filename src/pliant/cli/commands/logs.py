"""Show the output of a job's programs, each line prefixed with its node's name.

    pliant logs
    pliant logs digits -f --node worker-0 --node worker-3
    pliant logs digits --tail 20
    pliant logs digits --master
    pliant logs digits -f -N team-a

With -f it follows the output until the job ends.

Exit code: 0; 2 if there is no such job or node.
"""

from __future__ import annotations

import time
from difflib import get_close_matches
from typing import Annotated

import typer

from pliant.cli.handles.find import find_job_handle
from pliant.cli.handles.job_handle import JobHandle
from pliant.cli.options.common import Context, Folder, Name, Namespace, cluster_of
from pliant.core.errors import NotFound

POLL_INTERVAL_S = 0.2  # seconds


def logs(
    name: Name = None,
    job_dir: Folder = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show new lines until the job ends.")] = False,
    node: Annotated[
        list[str] | None, typer.Option("--node", metavar="NODE", help="Only this node; repeatable.")
    ] = None,
    tail: Annotated[
        int | None, typer.Option("--tail", min=0, metavar="N", help="Begin with the last N lines of each node.")
    ] = None,
    master: Annotated[bool, typer.Option("--master", help="The log of the master, not of the programs.")] = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    from rich.console import Console

    handle = find_job_handle(name, job_dir, cluster_of(namespace, context, job_dir))
    wanted = [*(node or []), *(["master"] if master else [])]
    if not follow:
        _check(handle, wanted)
    console = Console(markup=False, highlight=False, soft_wrap=True)
    output = handle.output(console, nodes=frozenset(wanted) or None, tail=tail, follow=follow)
    while follow:
        over = handle.is_over()  # asked first: what came before the end is shown below
        while output.show_new():
            continue
        if over:
            break
        time.sleep(POLL_INTERVAL_S)
    while output.show_new():
        continue
    output.finish()


def _check(handle: JobHandle, wanted: list[str]) -> None:
    there = handle.nodes_with_output() if wanted else []
    for name in wanted:
        if name not in there:
            nodes = [n for n in there if n != "master"]
            close = get_close_matches(name, nodes, 1)
            known = f"known: {', '.join(nodes)}" if nodes else "no program has written anything yet"
            raise NotFound(
                f"job {handle.name} has no log of {name!r}", hint=f"did you mean {close[0]}?" if close else known
            )
