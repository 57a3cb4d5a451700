"""Run a program as an elastic job, on this machine, Kubernetes or Ray, and wait for it to finish.

    pliant run --workers 1:4 -- python train.py --epochs 3
    pliant run -n 4 train.py --epochs 3
    pliant run job.yaml --workers 2
    pliant run --detach --name digits -- python train.py
    pliant run -n 2 --checkpoint-dir s3://bucket/digits --checkpoint-every 10m -- python train.py
    pliant run --auto -- python train.py
    pliant run --resume --name digits
    pliant run --platform kubernetes -N team-a --workers 1:4 -- python train.py
    pliant run --platform ray --ray-address 10.0.0.5:6379 --workers 1:4 -- python train.py

Everything after the program is passed on to it, with or without `--`. Ctrl-C stops the job gracefully; twice, immediately.
With --detach the job runs in the background, and `pliant attach` follows it. With --resume a job that was stopped,
interrupted or failed continues where it was; the command need not be repeated.
With --auto nobody says how many workers: the job measures itself and plans them (docs/automatic-resources.md); `pliant plans`
and `pliant explain` show what it does and why.
On Kubernetes, a local Python file in the command is sent with the job, as are the files given with --file.

Exit code: that of the job: 0 succeeded, 1 failed, 130 stopped; 2 for a usage error.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from pliant.cli.launch.dashboard_process import check_dashboard, dashboard_beside
from pliant.cli.launch.local import start
from pliant.cli.launch.outcome import check_summary, leave
from pliant.cli.launch.resuming import resume_command
from pliant.cli.options.checkpoints import CheckpointOptions
from pliant.cli.options.groups import grouped
from pliant.cli.options.planning import PlanningOptions
from pliant.cli.options.run import RunOptions
from pliant.cli.render.terminal import warn
from pliant.core.errors import InvalidRequest
from pliant.launch.job_folder import prepare
from pliant.launch.job_spec import check_launchable, make_spec


@grouped
def run(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="job.yaml | -- PROGRAM [ARGS]...", help="A job's YAML file, or a program and its arguments."
        ),
    ] = None,
    workers: Annotated[
        str | None, typer.Option("--workers", "-n", metavar="N | MIN:MAX", help="Number of workers. [default: 1]")
    ] = None,
    strategy: Annotated[
        str | None, typer.Option(help="none, local, allreduce, ps-sync or ps-async. [default: none]")
    ] = None,
    nnodes: Annotated[
        str | None, typer.Option(metavar="N | MIN:MAX", help="As in torchrun; each worker is a node.")
    ] = None,
    nproc_per_node: Annotated[int | None, typer.Option(help="As in torchrun: multiplies --nnodes.")] = None,
    standalone: Annotated[bool, typer.Option(help="Accepted for torchrun compatibility; always on.")] = False,
    files: Annotated[
        list[Path] | None, typer.Option("--file", metavar="PATH", help="On Kubernetes: file to send to /pliant/files.")
    ] = None,
    tee: Annotated[
        int | None, typer.Option(help="As in torchrun: 0 hides the output of workers, 1 to 3 show it. [default: 3]")
    ] = None,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="Show the job on a web page while it runs.")] = False,
    *,
    checkpoints: CheckpointOptions,
    planning: PlanningOptions,
    options: RunOptions,
) -> None:
    changes = {
        "workers": _workers(workers, nnodes, nproc_per_node),
        "strategy": strategy,
        **checkpoints.changes(),
        **planning.changes(),
    }
    changes = {key: value for key, value in changes.items() if value is not None}
    check_summary(options)
    options.check()
    if dashboard:
        check_dashboard(is_detached=options.detach, is_resumed=options.resume, platform=options.platform or "")
    if options.resume and options.platform != "kubernetes":
        leave(resume_command(command or [], options, {**options.changes(), **changes}, output=tee != 0), options)
    if not command:
        raise InvalidRequest("no program is given", hint="`pliant run -- python train.py`, or a job's file: job.yaml")
    spec = make_spec(command, options.name, {**options.changes(), **changes})
    check_launchable(spec)
    if spec.platform.kind == "kubernetes":
        if dashboard:
            check_dashboard(is_detached=False, is_resumed=False, platform="kubernetes")
        from pliant.cli.launch.kubernetes import run_on_kubernetes

        leave(run_on_kubernetes(spec, options, files or [], output=tee != 0), options)
    if options.image or options.claim or files:
        raise InvalidRequest("--image, --claim and --file require --platform kubernetes")
    job = prepare(spec, options, warn)
    with dashboard_beside(job.home) if dashboard else nullcontext():
        summary = start(job, options, output=tee != 0)
    leave(summary, options)


def _workers(workers: str | None, nnodes: str | None, per_node: int | None) -> str | None:
    if workers is not None and (nnodes is not None or per_node is not None):
        raise InvalidRequest("--workers and --nnodes/--nproc-per-node are mutually exclusive")
    if nnodes is None and per_node is None:
        return workers
    low, _, high = (nnodes or "1").partition(":")
    try:
        counts = [int(n) * (per_node or 1) for n in (low, high or low)]
    except ValueError:
        raise InvalidRequest(f"--nnodes {nnodes!r} is neither N nor MIN:MAX") from None
    return f"{counts[0]}:{counts[1]}"
