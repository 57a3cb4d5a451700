"""Run a standalone master in the foreground, for programs started elsewhere or to use single components.

The flags select the components. Only a sharding service, for programs of this machine that are started by hand:

    pliant master --name feed --no-need-pod-manager

Without --host and --port it listens on a Unix socket in the job's directory. With either it listens on TCP as well, with mutual
TLS, for programs of other machines: they need copies of the token file and of the certificates.

    pliant master --name feed --no-need-pod-manager --host 0.0.0.0 --port 7000

Elastic nodes for another framework, with dynamic sharding and a rendezvous:

    pliant master --worker-command "python train.py" --workers 2:4 --distribution-strategy allreduce --no-need-training-service

Native training with two parameter servers:

    pliant master --worker-command "python -m pliant.native native.json" --distribution-strategy ps-sync --num-ps 2

A sharding service without nodes exits when all datasets are finished and all programs know it, unless --keep-serving.

Prints how a program connects. If it is killed, the same command with the same --job-dir (or --name) continues from its
journal, at the same address. Ctrl-C or SIGTERM stops the job.

Exit code: that of the job: 0 succeeded, 1 failed, 130 stopped; 2 for a usage error.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from pliant.cli.launch.standalone_master import prepare, serve
from pliant.cli.options.native import strategy_name
from pliant.cli.render.terminal import say
from pliant.core.errors import Conflict, InvalidRequest
from pliant.core.summary import exit_code
from pliant.files.locks import FileLock
from pliant.spec import load_spec

LOOPBACK = "127.0.0.1"


def master(
    name: Annotated[str | None, typer.Option("--name", help="The job's name. [default: generated]")] = None,
    job_dir: Annotated[
        Path | None, typer.Option("--job-dir", help="The job's directory. [default: ~/.pliant/jobs/NAME]")
    ] = None,
    spec: Annotated[
        Path | None, typer.Option("--spec", metavar="FILE", help="A job's YAML file; options override it.")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option("--host", help="The address to listen on, for other machines. [default: 127.0.0.1 with --port]"),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="The port to listen on; 0: any free port. [default: none]"),
    ] = None,
    tls: Annotated[
        bool | None,
        typer.Option(
            "--tls/--no-tls",
            help="Encrypt traffic with mutual TLS, or send the token and all traffic in plain text. [default: TLS on TCP]",
        ),
    ] = None,
    need_pod_manager: Annotated[
        bool | None,
        typer.Option("--need-pod-manager/--no-need-pod-manager", help="Create and watch nodes. [default: yes]"),
    ] = None,
    need_task_manager: Annotated[
        bool | None,
        typer.Option("--need-task-manager/--no-need-task-manager", help="Lease data shards. [default: yes]"),
    ] = None,
    need_rendezvous: Annotated[
        bool | None,
        typer.Option(
            "--need-rendezvous/--no-need-rendezvous",
            help="Form worlds of workers. [default: with local and allreduce]",
        ),
    ] = None,
    need_training_service: Annotated[
        bool | None,
        typer.Option(
            "--need-training-service/--no-need-training-service",
            help="Evaluation and model versions of native training. [default: with a strategy; without one, ps-async]",
        ),
    ] = None,
    task_fault_tolerance: Annotated[
        bool | None,
        typer.Option(
            "--task-fault-tolerance/--no-task-fault-tolerance",
            help="Requeue the shards of failed workers. [default: yes, with nodes and shards]",
        ),
    ] = None,
    keep_serving: Annotated[
        bool, typer.Option("--keep-serving", help="Without nodes: keep running after all datasets are finished.")
    ] = False,
    distribution_strategy: Annotated[
        str | None,
        typer.Option("--distribution-strategy", help="none, local, allreduce, ps-sync or ps-async. [default: none]"),
    ] = None,
    worker_command: Annotated[
        str | None,
        typer.Option("--worker-command", metavar="COMMAND", help="Command of the workers, quoted as for a shell."),
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option("--workers", "--num-workers", "-n", metavar="N | MIN:MAX", help="Number of workers. [default: 1]"),
    ] = None,
    ps_command: Annotated[
        str | None,
        typer.Option(
            "--ps-command",
            metavar="COMMAND",
            help="Command of the parameter servers. [default: Pliant's own with ps-sync and ps-async]",
        ),
    ] = None,
    num_ps: Annotated[
        str | None,
        typer.Option("--num-ps", metavar="N | MIN:MAX", help="Number of parameter servers. [default: 1 with ps-*]"),
    ] = None,
    brain_dir: Annotated[
        Path | None,
        typer.Option(
            "--brain-dir",
            metavar="DIR",
            help="Folder with the job's token for the Brain, and ca.crt. [default: brain in the job's directory]",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the address and how to connect as JSON, for programs.")
    ] = False,
) -> None:
    flags = {
        "need_pod_manager": need_pod_manager,
        "need_task_manager": need_task_manager,
        "need_rendezvous": need_rendezvous,
        "need_training_service": need_training_service,
        "task_fault_tolerance": task_fault_tolerance,
        "keep_serving": keep_serving or None,
    }
    strategy = strategy_name(distribution_strategy) if distribution_strategy is not None else None
    if strategy is None and spec is None and need_training_service:
        strategy = "ps-async"  # native training without a world has parameter servers
    given = {
        "components": {key: value for key, value in flags.items() if value is not None} or None,
        "strategy": strategy,
        "worker_command": _split(worker_command, "--worker-command"),
        "workers": workers,
        "ps_command": _split(ps_command, "--ps-command"),
        "servers": num_ps,
        "tls": tls,
    }
    options = {key: value for key, value in given.items() if value is not None}
    home = prepare(name, job_dir, spec, options, has_token=brain_dir is not None)
    lock = FileLock(home.path / "master.lock")
    if not lock.try_acquire():
        raise Conflict(f"a master for the job in {home.path} is already running", hint="choose another --name")
    listens = host is not None or port is not None
    if listens and load_spec(home.spec).security.tls is False:
        say(
            "warning: the job's token and all traffic are sent in plain text; omit --no-tls to encrypt them",
            to_stderr=as_json,
        )
    where = (host or LOOPBACK) if listens else ""
    raise typer.Exit(exit_code(serve(home, where, port or 0, lock, brain_dir=brain_dir, as_json=as_json)))


def _split(command: str | None, option: str) -> list[str] | None:
    if command is None:
        return None
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InvalidRequest(f"{option} {command!r} cannot be parsed: {error}") from None
    if not words:
        raise InvalidRequest(f"{option} is empty")
    return words
