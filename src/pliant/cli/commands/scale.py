"""Change the number of nodes of a role of a running job. New nodes join at once; surplus nodes end with grace, youngest first.

    pliant scale digits --workers 6
    pliant scale clicks worker=6 ps=3
    pliant scale digits --role ps --replicas 3 --reason "more memory for embeddings"
    pliant scale digits --workers 6 -N team-a
    pliant scale clicks --move-off ps-1 --share 0.5

A parameter server that is removed moves its partitions to the others first; training continues meanwhile. With `--move-off` a
server moves a share of its partitions (all, unless `--share` says less) to the others and stays.

The number must be within the role's limits: start a job that may grow with `--workers MIN:MAX`, or with `--max-workers` and
`--max-ps` of `pliant train`.

Exit code: 0 accepted, 1 the master is unavailable, 2 a usage error, or the job is over.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from pliant.cli.handles.find import find_job_handle
from pliant.cli.options.common import AsJson, Context, Folder, NamedJob, Namespace, cluster_of
from pliant.core.errors import InvalidRequest


def scale(
    name: NamedJob = None,
    counts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ROLE=N]...", help="Number of nodes of these roles.", show_default=False),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", "-n", min=0, metavar="N", help="Number of nodes of the role worker.")
    ] = None,
    role: Annotated[str | None, typer.Option("--role", metavar="ROLE", help="Another role, with --replicas.")] = None,
    replicas: Annotated[
        int | None, typer.Option("--replicas", min=0, metavar="N", help="Number of nodes of --role.")
    ] = None,
    move_off: Annotated[
        str | None,
        typer.Option("--move-off", metavar="NODE", help="Move partitions of this parameter server to the others."),
    ] = None,
    share: Annotated[
        float,
        typer.Option(
            "--share", min=0.0, max=1.0, metavar="PART", help="With --move-off: this share of its partitions."
        ),
    ] = 1.0,
    reason: Annotated[
        str, typer.Option("--reason", help="Why; recorded in the job's events.")
    ] = "asked for by the user",
    job_dir: Folder = None,
    as_json: AsJson = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    if name is not None and "=" in name:  # the job is given by its folder
        counts = [name, *(counts or [])]
        name = None
    targets = [_target(count) for count in counts or []]
    if name is None and job_dir is None:
        raise InvalidRequest("no job is named: give its NAME or --job-dir", hint="`pliant jobs` lists them")
    if move_off is not None:
        if workers is not None or replicas is not None or targets:
            raise InvalidRequest("give either --move-off NODE or a number of nodes, not both")
        where = find_job_handle(name, job_dir, cluster_of(namespace, context, job_dir))
        seat, partitions = where.move_off(move_off, share, reason)
        if as_json:
            print(json.dumps({"node": move_off, "seat": seat, "share": share, "partitions": partitions}))
        else:
            print(f"{where.name}: {share:.0%} of the {partitions} partitions of {move_off} move to other servers")
        return
    if workers is not None:
        targets.append(("worker", workers))
    if replicas is not None:
        targets.append((role or "worker", replicas))
    twice = len({target_role for target_role, _ in targets}) < len(targets) or None not in (workers, replicas)
    if not targets or twice or (role is not None and replicas is None):
        raise InvalidRequest("give either --workers N, or --role ROLE --replicas N, or ROLE=N for each role once")
    handle = find_job_handle(name, job_dir, cluster_of(namespace, context, job_dir))
    for target_role, wanted in targets:
        before, now = handle.scale(target_role, wanted, reason)
        if as_json:
            print(json.dumps({"role": target_role, "before": before, "now": now}))
        else:
            print(f"{handle.name}: {target_role} {before} -> {now}")


def _target(count: str) -> tuple[str, int]:
    role, _, number = count.partition("=")
    if not role or not number.isdecimal():
        raise InvalidRequest(f"{count!r} is not ROLE=N", hint="for example: pliant scale clicks ps=3")
    return role, int(number)
