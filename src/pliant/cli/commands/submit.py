"""Submit a job to Kubernetes. The file is a job's spec, as `pliant run` takes it, or an ElasticJob, as kubectl takes it.

    pliant submit job.yaml -N team-a
    pliant submit job.yaml --name digits --file train.py --file model.py
    pliant submit job.yaml --wait
    pliant submit job.yaml --dry-run | kubectl diff -f -

Files given by --file are in the folder /pliant/files of each Pod, which is where programs start unless working_dir says
otherwise. Together they may have 1 MiB, the limit of a ConfigMap; put larger files into the image.

Exit code: 0 submitted; 1 the cluster does not answer; 2 a usage error, or the job exists. With --wait: the job's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from pliant.cli.handles.cluster import Cluster
from pliant.cli.handles.open_handles import close_at_exit
from pliant.cli.launch.manifest import completed, read_job
from pliant.cli.options.common import AsJson, Context, Namespace


def submit(
    file: Annotated[Path, typer.Argument(metavar="job.yaml", help="A job's spec, or an ElasticJob.")],
    namespace: Namespace = None,
    name: Annotated[str | None, typer.Option(help="The job's name. [default: the file's, else one is made]")] = None,
    files: Annotated[
        list[Path] | None, typer.Option("--file", metavar="PATH", help="Sent along; may be given several times.")
    ] = None,
    image: Annotated[str | None, typer.Option(help="Of master and nodes. [default: the operator's own]")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end, and exit as it does.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace an ended job of the same name.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be created, as YAML.")] = False,
    as_json: AsJson = False,
    context: Context = None,
) -> None:
    submission = completed(read_job(file, name=name, namespace=namespace), files or [], image)
    if dry_run:
        print(submission.to_yaml(), end="")
        return
    from pliant.cli.handles.kubernetes.session import Session
    from pliant.cli.launch.submitting import submit as send

    session = Session(Cluster(submission.namespace, context))
    try:
        handle = send(session, submission, overwrite=overwrite)
    except BaseException:
        session.close()
        raise
    close_at_exit(handle)
    submitted: dict[str, Any] = {"name": handle.name, **handle.identity()}
    if not wait:
        print(json.dumps(submitted, indent=1) if as_json else _next_steps(handle.name, handle.namespace))
        return
    from pliant.cli.following.kubernetes import follow

    summary = follow(handle, show_output=False, progress=not as_json, to_stderr=as_json)
    if as_json:
        print(json.dumps(summary.to_json(), indent=1))
    sys.exit(summary.exit_code)


def _next_steps(name: str, namespace: str) -> str:
    return (
        f"job {name} was submitted to namespace {namespace}\n"
        f"  pliant status {name} -N {namespace} --watch\n"
        f"  pliant logs {name} -N {namespace} -f\n"
        f"  pliant stop {name} -N {namespace}"
    )
