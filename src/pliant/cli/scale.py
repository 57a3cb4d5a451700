"""Change how many nodes of a role a running job has. New ones join at once; of too many, the youngest go, with grace.

    pliant scale digits --workers 6
    pliant scale clicks worker=6 ps=3
    pliant scale digits --role ps --replicas 3 --reason "more memory for embeddings"
    pliant scale digits --workers 6 -N team-a
    pliant scale clicks --move-off ps-1 --share 0.5

Parameter servers that go give what they have to the others first; training goes on meanwhile. With `--move-off` one of them
gives a share of its parameters away (all, unless `--share` says less) and stays.

The number must be within the role's limits: a job that may grow is started with `--workers MIN:MAX`; of `pliant train` see
`--max-workers` and `--max-ps`.

Exit code: 0 done, 1 the master is away, 2 a mistake, or the job is over.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from pliant.cli.options import AsJson, Context, Folder, NamedJob, Namespace, cluster_of
from pliant.cli.places import find_place
from pliant.core.errors import InvalidRequest


def scale(
    name: NamedJob = None,
    counts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ROLE=N]...", help="So many nodes of these roles.", show_default=False),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", "-n", min=0, metavar="N", help="So many nodes of the role worker.")
    ] = None,
    role: Annotated[str | None, typer.Option("--role", metavar="ROLE", help="Another role, with --replicas.")] = None,
    replicas: Annotated[int | None, typer.Option("--replicas", min=0, metavar="N", help="So many nodes of it.")] = None,
    move_off: Annotated[
        str | None, typer.Option("--move-off", metavar="NODE", help="This parameter server gives to the others.")
    ] = None,
    share: Annotated[
        float, typer.Option("--share", min=0.0, max=1.0, metavar="PART", help="With --move-off: so much of it.")
    ] = 1.0,
    reason: Annotated[
        str, typer.Option("--reason", help="Why; kept among the job's events.")
    ] = "asked for by the user",
    job_dir: Folder = None,
    as_json: AsJson = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    if name is not None and "=" in name:  # the job is given by its folder
        counts = [name, *(counts or [])]
        name = None
    wishes = [_wish(count) for count in counts or []]
    if name is None and job_dir is None:
        raise InvalidRequest("which job? give its NAME or --job-dir", hint="`pliant jobs` lists them")
    if move_off is not None:
        if workers is not None or replicas is not None or wishes:
            raise InvalidRequest("give either --move-off NODE or a number of nodes, not both")
        where = find_place(name, job_dir, cluster_of(namespace, context, job_dir))
        seat, partitions = where.move_off(move_off, share, reason)
        if as_json:
            print(json.dumps({"node": move_off, "seat": seat, "share": share, "partitions": partitions}))
        else:
            print(f"{where.name}: {share:.0%} of the {partitions} partitions of {move_off} move to other servers")
        return
    if workers is not None:
        wishes.append(("worker", workers))
    if replicas is not None:
        wishes.append((role or "worker", replicas))
    twice = len({wanted_role for wanted_role, _ in wishes}) < len(wishes) or None not in (workers, replicas)
    if not wishes or twice or (role is not None and replicas is None):
        raise InvalidRequest("give either --workers N, or --role ROLE --replicas N, or ROLE=N for each role once")
    place = find_place(name, job_dir, cluster_of(namespace, context, job_dir))
    for wanted_role, wanted in wishes:
        before, now = place.scale(wanted_role, wanted, reason)
        if as_json:
            print(json.dumps({"role": wanted_role, "before": before, "now": now}))
        else:
            print(f"{place.name}: {wanted_role} {before} -> {now}")


def _wish(count: str) -> tuple[str, int]:
    role, _, number = count.partition("=")
    if not role or not number.isdecimal():
        raise InvalidRequest(f"{count!r} is no ROLE=N", hint="as in: pliant scale clicks ps=3")
    return role, int(number)
