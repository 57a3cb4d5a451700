"""Change how many nodes of a role a running job has. New ones join at once; of too many, the youngest go, with grace.

    pliant scale digits --workers 6
    pliant scale digits --role ps --replicas 3 --reason "more memory for embeddings"

The number must be within the role's limits: a job that may grow is started with `--workers MIN:MAX`.

Exit code: 0 done, 1 the master is away, 2 a mistake, or the job is over.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from pliant.cli.homes import find_job
from pliant.cli.options import AsJson, Folder
from pliant.core.errors import InvalidRequest


def scale(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The job's name, or its folder.")] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", "-n", min=0, metavar="N", help="So many nodes of the role worker.")
    ] = None,
    role: Annotated[str | None, typer.Option("--role", metavar="ROLE", help="Another role, with --replicas.")] = None,
    replicas: Annotated[int | None, typer.Option("--replicas", min=0, metavar="N", help="So many nodes of it.")] = None,
    reason: Annotated[
        str, typer.Option("--reason", help="Why; kept among the job's events.")
    ] = "asked for by the user",
    job_dir: Folder = None,
    as_json: AsJson = False,
) -> None:
    if name is None and job_dir is None:
        raise InvalidRequest("which job? give its NAME or --job-dir", hint="`pliant jobs` lists them")
    if (workers is None) == (replicas is None) or (role is not None and replicas is None):
        raise InvalidRequest("give either --workers N, or --role ROLE --replicas N")
    from pliant.cli.asking import command
    from pliant.rpc import pliant_pb2 as pb

    home = find_job(name, job_dir)
    wanted = workers if workers is not None else replicas
    request = pb.ScaleRequest(role=role or "worker", replicas=wanted, reason=reason)
    reply = command(home, "scaled", lambda caller: caller.call(caller.stubs.Scale, request))
    if as_json:
        print(json.dumps({"role": request.role, "before": reply.before, "now": reply.now}))
    else:
        print(f"{home.path.name}: {request.role} {reply.before} -> {reply.now}")
