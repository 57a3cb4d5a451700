"""Show the output of a job's programs, each line prefixed with its node's name.

    pliant logs
    pliant logs digits -f --node worker-0 --node worker-3
    pliant logs digits --tail 20
    pliant logs digits --master
    pliant logs clicks --all
    pliant logs digits --json | jq -r 'select(.node == "worker-0") | .line'
    pliant logs digits -f -N team-a

Messages of Pliant's parameter servers are shown only with --all or --node.

With --json, each line is an object with `node` and `line`. With -f, follows the output until the job ends.

Exit code: 0; 2 if the job or node is not found.
"""

from __future__ import annotations

from typing import Annotated

import typer

from pliant.cli.options.common import AsJson, Context, Folder, Name, Namespace, cluster_of
from pliant.handles.find import find_job_handle
from pliant.handles.log_lines import log_lines


def logs(
    name: Name = None,
    job_dir: Folder = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show new lines until the job ends.")] = False,
    node: Annotated[
        list[str] | None, typer.Option("--node", metavar="NODE", help="Only this node; repeatable.")
    ] = None,
    tail: Annotated[
        int | None, typer.Option("--tail", min=0, metavar="N", help="Start with the last N lines of each node.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also show the messages of Pliant's parameter servers.")
    ] = False,
    master: Annotated[
        bool, typer.Option("--master", help="Show the master's log instead of the programs' output.")
    ] = False,
    as_json: AsJson = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    from pliant.cli.render.console import EscapingConsole
    from pliant.cli.render.output_lines import for_people, print_json

    handle = find_job_handle(name, job_dir, cluster_of(namespace, context, job_dir))
    wanted = [*(node or []), *(["master"] if master else [])]
    printer = print_json if as_json else for_people(EscapingConsole(soft_wrap=True))
    for line in log_lines(handle, nodes=wanted, tail=tail, follow=follow, with_servers=everything):
        printer(line.node, line.text)
