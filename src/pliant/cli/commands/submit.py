"""Submit a job to Kubernetes or Ray. The file is a job's spec, as `pliant run` takes it, or an ElasticJob, as kubectl takes it.

    pliant submit job.yaml -N team-a
    pliant submit job.yaml --name digits --file train.py --file model.py
    pliant submit job.yaml --wait
    pliant submit job.yaml --dry-run | kubectl diff -f -
    pliant submit job.yaml --platform ray --ray-address 10.0.0.5:6379

It goes to Kubernetes unless --platform, or the platform in the file, is ray.

On Kubernetes, files given with --file are in /pliant/files of each Pod, the default working directory of programs. Their
total size is limited to 1 MiB, the limit of a ConfigMap; put larger files into the image. On Ray the job's directory is on a
file system that all machines share, and `platform.ray.runtime_env.working_dir` in the file sends a directory along.

Exit code: 0 submitted; 1 the cluster does not respond; 2 a usage error, or the job exists. With --wait: the job's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from pliant.cli.options.common import AsJson, Context, Namespace
from pliant.cli.options.run import RunOptions
from pliant.cli.render.terminal import say
from pliant.core.errors import InvalidRequest, NotFound
from pliant.handles.cluster import Cluster
from pliant.handles.open_handles import close_at_exit
from pliant.launch.manifest import completed, platform_of, read_job


def submit(
    file: Annotated[Path, typer.Argument(metavar="job.yaml", help="A job's spec, or an ElasticJob.")],
    platform: Annotated[
        str | None, typer.Option(help="kubernetes or ray. [default: as in the file, else kubernetes]")
    ] = None,
    namespace: Namespace = None,
    name: Annotated[str | None, typer.Option(help="The job's name. [default: from the file, else generated]")] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option("--file", metavar="PATH", help="On Kubernetes: file to send with the job; repeatable."),
    ] = None,
    image: Annotated[
        str | None, typer.Option(help="On Kubernetes: image of master and nodes. [default: the operator's own]")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the job to end and exit with its code.")] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace a finished job of the same name.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be submitted as YAML, and exit.")
    ] = False,
    as_json: AsJson = False,
    context: Context = None,
    job_dir: Annotated[
        Path | None, typer.Option(help="On Ray: the job's directory. [default: ~/.pliant/jobs/NAME]")
    ] = None,
    ray_address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="On Ray: the cluster. [default: that of this machine]")
    ] = None,
) -> None:
    if _platform(platform, file) == "ray":
        if files or image:
            raise InvalidRequest("--file and --image apply only to Kubernetes")
        _submit_to_ray(
            file,
            RunOptions(
                name=name,
                job_dir=job_dir,
                overwrite=overwrite,
                detach=not wait,
                platform="ray",
                ray_address=ray_address,
                as_json=as_json,
            ),
            dry_run=dry_run,
        )
    if job_dir or ray_address:
        raise InvalidRequest("--job-dir and --ray-address apply only to Ray", hint="add --platform ray")
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


def _platform(given: str | None, file: Path) -> str:
    platform = given or ("ray" if platform_of(file) == "ray" else "kubernetes")
    if platform not in ("kubernetes", "ray"):
        raise NotFound(
            f"cannot submit to platform {platform!r}",
            hint="allowed: kubernetes, ray; `pliant run --detach` starts a job on this machine",
        )
    return platform


def _submit_to_ray(file: Path, options: RunOptions, *, dry_run: bool) -> NoReturn:
    from pliant.cli.launch.local import start
    from pliant.cli.launch.outcome import leave
    from pliant.launch.job_folder import prepare
    from pliant.launch.job_spec import check_launchable, make_spec

    if file.suffix not in (".yaml", ".yml"):
        raise InvalidRequest(f"{file} is not a YAML file", hint="pass a job.yaml; `pliant run` starts a program")
    spec = make_spec([str(file)], options.name, options.changes())
    check_launchable(spec)
    if dry_run:
        say(json.dumps(spec.to_json(), indent=1) if options.as_json else spec.to_yaml().removesuffix("\n"))
        sys.exit(0)
    leave(start(prepare(spec, options), options, output=False), options)
