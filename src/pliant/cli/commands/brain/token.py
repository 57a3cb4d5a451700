"""Show where the cluster's token is, or make the token of one job, for a job that is started on another machine.

    pliant brain token
    pliant brain token digits --out digits-token
    pliant brain token digits --namespace team-a --show

Whoever has the cluster's token may act as any job; the token of a job is good for that job only. --out writes a folder that only
you can read, with the files `token`, `job` and (if the Brain serves TCP) `ca.crt`. Copy it to the other machine, and there:

    PLIANT_BRAIN_DIR=digits-token pliant run --auto --brain brain.example:50051 --name digits -- python train.py

No token is printed without --show. The folder of a Brain (--dir) is needed, not its database.

Exit code: 0; 2 if there is no Brain's folder, a name is not valid, or the folder of --out belongs to something else.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pliant.cli.commands.brain.options import Dir
from pliant.cli.options.common import AsJson
from pliant.cli.render.terminal import say
from pliant.core.errors import InvalidRequest


def token(
    job: Annotated[
        str, typer.Argument(metavar="[JOB]", help="NAME or NAMESPACE/NAME. [default: the cluster's token]")
    ] = "",
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace", "-N", metavar="NAMESPACE", help="The job's; local: on a machine without Kubernetes."
        ),
    ] = "local",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write the job's token to this folder, with all it needs."),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the token itself.")] = False,
    directory: Dir = None,
    as_json: AsJson = False,
) -> None:
    from pliant.cli.launch.brain_tokens import cluster_access, write_job_folder
    from pliant.rpc.brain.identity import job_token

    cluster = cluster_access(directory)
    if not job:
        if out is not None:
            raise InvalidRequest(
                "--out is for the token of a job", hint="name the job: pliant brain token JOB --out DIR"
            )
        value = {"token_file": str(cluster.token_file), "ca_file": str(cluster.ca_file) if cluster.ca_file else ""}
        shown, where = cluster.token, f"the cluster's token is in {cluster.token_file}"
    else:
        if not show and out is None:
            raise InvalidRequest(
                f"what to do with the token of job {job}?", hint="add --out DIR, or --show to print it"
            )
        space, _, name = job.rpartition("/")
        space = space or namespace
        shown = job_token(cluster.token, space, name)
        value, where = {"job": f"{space}/{name}"}, ""
        if out is not None:
            write_job_folder(out, shown, cluster.ca, space, name)
            value["folder"] = str(out)
            where = f"the token of job {space}/{name} is in {out}; use it with PLIANT_BRAIN_DIR={out}"
    if as_json:
        print(json.dumps({**value, **({"token": shown} if show else {})}, indent=1))
        return
    if where:
        say(where, to_stderr=show)
    if show:
        say(shown)
