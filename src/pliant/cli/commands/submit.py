"""Submit a job to Kubernetes. The file is a job's spec, as `pliant run` takes it, or an ElasticJob, as kubectl takes it.

    pliant submit job.yaml -N team-a
    pliant submit job.yaml --name digits --file train.py --file model.py
    pliant submit job.yaml --wait
    pliant submit job.yaml --dry-run | kubectl diff -f -

Files given with --file are in /pliant/files of each Pod, the default working directory of programs. Their total size is
limited to 1 MiB, the limit of a ConfigMap; put larger files into the image.

Exit code: 0 submitted; 1 the cluster does not respond; 2 a usage error, or the job exists. With --wait: the job's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pliant.cli.options.common import AsJson, Context, Namespace
from pliant.cli.render.terminal import say
from pliant.handles.cluster import Cluster
from pliant.handles.open_handles import close_at_exit
from pliant.launch.manifest import completed, read_job


def submit(
    file: Annotated[Path, typer.Argument(metavar="job.yaml", help="A job's spec, or an ElasticJob.")],
    namespace: Namespace = None,
    name: Annotated[str | None, typer.Option(help="The job's name. [default: from the file, else generated]")] = None,
    files: Annotated[
        list[Path] | None, typer.Option("--file", metavar="PATH", help="File to send with the job; repeatable.")
    ] = None,
    image: Annotated[str | None, typer.Option(help="Image of master and nodes. [default: the operator's own]")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the job to end and exit with its code.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace a finished job of the same name.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the objects to create as YAML, and exit.")] = False,
    as_json: AsJson = False,
    context: Context = None,
) -> None:
    submission = completed(read_job(file, name=name, namespace=namespace), files or [], image)
    if dry_run:
        say(json.dumps(submission.objects(), indent=1) if as_json else submission.to_yaml().removesuffix("\n"))
        return
    from pliant.handles.kubernetes.session import Session
    from pliant.launch.submitting import next_steps
    from pliant.launch.submitting import submit as send

    session = Session(Cluster(submission.namespace, context))
    try:
        handle = send(session, submission, overwrite=overwrite)
    except BaseException:
        session.close()
        raise
    close_at_exit(handle)
    submitted: dict[str, Any] = {"name": handle.name, **handle.identity()}
    if not wait:
        say(json.dumps(submitted, indent=1) if as_json else next_steps(handle.name, handle.namespace))
        return
    from pliant.cli.following.kubernetes import follow

    summary = follow(handle, show_output=False, progress=not as_json, to_stderr=as_json)
    if as_json:
        print(json.dumps(summary.to_json(), indent=1))
    sys.exit(summary.exit_code)
