"""Run a master alone in the foreground: for programs that something else starts, or for its parts by themselves.

Which parts run follows from the flags. A sharding service alone, for programs started by hand:

    pliant master --name feed --no-need-pod-manager --port 7000

Elastic nodes for another framework, with dynamic sharding and a rendezvous:

    pliant master --worker-command "python train.py" --workers 2:4 --distribution-strategy allreduce

It prints how a program connects. If it is killed, the same command with the same --job-dir (or --name) goes on from its
journal, on the same port. Ctrl-C or SIGTERM stops the job for good.

Exit code: the job's: 0 done, 1 failed, 130 stopped; 2 for a mistake in the command.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pliant.cli.homes import fresh_name, jobs_home
from pliant.core.errors import Conflict, InvalidRequest, PliantError
from pliant.master.job_dir import JobDir
from pliant.platforms.durable_files import FileLock, read_json
from pliant.rpc.identity import create_token_file

if TYPE_CHECKING:
    from pliant.core.job import Phase
    from pliant.spec import JobSpec

LOOK_EVERY = 0.05  # seconds
THIS_MACHINE = ("127.0.0.1", "localhost", "::1", "[::1]")


def master(
    name: Annotated[str | None, typer.Option("--name", help="The job's name. [default: one is made]")] = None,
    job_dir: Annotated[
        Path | None, typer.Option("--job-dir", help="Where it keeps its files. [default: ~/.pliant/jobs/NAME]")
    ] = None,
    spec: Annotated[
        Path | None, typer.Option("--spec", metavar="FILE", help="A job's YAML file; the flags change it.")
    ] = None,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port to listen on; 0: any free one.")] = 0,
    tls: Annotated[bool, typer.Option("--tls", help="Encrypt calls, with certificates on both sides.")] = False,
    need_pod_manager: Annotated[
        bool | None,
        typer.Option("--need-pod-manager/--no-need-pod-manager", help="Create and watch nodes. [default: yes]"),
    ] = None,
    need_task_manager: Annotated[
        bool | None,
        typer.Option("--need-task-manager/--no-need-task-manager", help="Give out shards of data. [default: yes]"),
    ] = None,
    need_rendezvous: Annotated[
        bool | None,
        typer.Option(
            "--need-rendezvous/--no-need-rendezvous", help="Form worlds of workers. [default: with allreduce]"
        ),
    ] = None,
    need_training_service: Annotated[
        bool | None,
        typer.Option(
            "--need-training-service/--no-need-training-service",
            help="Evaluation and model versions of native training. [default: by the strategy]",
        ),
    ] = None,
    task_fault_tolerance: Annotated[
        bool | None,
        typer.Option(
            "--task-fault-tolerance/--no-task-fault-tolerance",
            help="Give the shards of the dead to others. [default: yes, with nodes and shards]",
        ),
    ] = None,
    distribution_strategy: Annotated[
        str | None,
        typer.Option("--distribution-strategy", help="none, local, allreduce, ps-sync or ps-async. [default: none]"),
    ] = None,
    worker_command: Annotated[
        str | None, typer.Option("--worker-command", metavar="COMMAND", help="What workers run, as for a shell.")
    ] = None,
    workers: Annotated[
        str | None, typer.Option("--workers", "-n", metavar="N | MIN:MAX", help="How many workers. [default: 1]")
    ] = None,
) -> None:
    flags = {
        "need_pod_manager": need_pod_manager,
        "need_task_manager": need_task_manager,
        "need_rendezvous": need_rendezvous,
        "need_training_service": need_training_service,
        "task_fault_tolerance": task_fault_tolerance,
    }
    given = {
        "components": {key: value for key, value in flags.items() if value is not None} or None,
        "strategy": distribution_strategy,
        "worker_command": _split(worker_command),
        "workers": workers,
        "tls": tls or None,
    }
    home = prepare(name, job_dir, spec, {key: value for key, value in given.items() if value is not None})
    lock = FileLock(home.path / "master.lock")
    if not lock.try_acquire():
        raise Conflict(f"a master of the job in {home.path} is running already", hint="choose another --name")
    if host not in THIS_MACHINE and not (home.tls.exists() or tls):
        print("warning: calls leave this machine unencrypted; --tls encrypts them", flush=True)
    from pliant.master.summary import exit_code

    raise typer.Exit(exit_code(_serve(home, host, port)))


def prepare(name: str | None, job_dir: Path | None, file: Path | None, given: dict[str, Any]) -> JobDir:
    """The folder of a new job, or of the one to go on with."""
    from pliant.spec import JobSpec, load_spec

    base = load_spec(file) if file is not None else None
    name = name or (base.name if base else "") or (job_dir.name if job_dir and _is_name(job_dir.name) else "")
    home = JobDir((job_dir or jobs_home() / (name or fresh_name())).absolute())
    if home.exists():
        stored = load_spec(home.spec)
        if home.summary_file.exists():
            raise Conflict(f"the job in {home.path} has ended", hint="choose another --name or --job-dir")
        wanted = _changed(base or stored, stored.name, given, stored.working_dir or os.getcwd())
        if wanted != stored:
            raise Conflict(
                f"the job in {home.path} was begun with other options",
                hint="give the same ones or none to go on with it, or another --name",
            )
        return home
    empty = JobSpec.from_dict({"components": {"need_pod_manager": False}})
    made = _changed(base or empty, name or home.path.name, given, os.getcwd(), fresh=base is None)
    try:
        home.create()
        create_token_file(home.token)
        home.spec.write_text(made.to_yaml())
    except OSError as error:
        raise PliantError(f"cannot write the job's folder {home.path}: {error.strerror}") from error
    return home


def _changed(base: JobSpec, name: str, given: dict[str, Any], folder: str, *, fresh: bool = False) -> JobSpec:
    from pliant.spec import JobSpec

    value: dict[str, Any] = base.entries()
    value["name"] = name
    value["working_dir"] = value["working_dir"] or folder
    if "strategy" in given:
        value["strategy"] = given["strategy"]
    if "tls" in given:
        value["security"] = {"tls": True}
    kept = {} if fresh else {k: v for k, v in value["components"].entries().items() if v is not None}
    value["components"] = {**kept, **given.get("components", {})}
    roles = {role: entry.entries() for role, entry in value["roles"].items()}
    if "worker_command" in given or "workers" in given:
        worker = roles.setdefault("worker", {})
        if "worker_command" in given:
            worker["command"] = given["worker_command"]
        if "workers" in given:
            worker["replicas"] = given["workers"]
    value["roles"] = roles
    return JobSpec.from_dict(value, source="the command line")


def _serve(home: JobDir, host: str, port: int) -> Phase:
    from pliant.master.app import Master

    log_file = logging.FileHandler(home.logs / "master.log")
    handlers: list[logging.Handler] = [logging.StreamHandler(), log_file]
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", handlers=handlers, force=True
    )

    async def serve() -> Phase:
        told = asyncio.create_task(_tell(home))
        try:
            return await Master(home, host=host, port=port).run()
        finally:
            told.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await told

    try:
        return asyncio.run(serve())
    finally:
        logging.getLogger().removeHandler(log_file)
        log_file.close()


async def _tell(home: JobDir) -> None:
    """Once it listens: where, and how a program gets in."""
    while (where := read_json(home.master_file)) is None or where["pid"] != os.getpid():
        await asyncio.sleep(LOOK_EVERY)
    address = where["address"]
    variables = {"PLIANT_MASTER_ADDR": address, "PLIANT_TOKEN_FILE": str(home.token)}
    if home.tls.exists():
        variables["PLIANT_TLS_DIR"] = str(home.tls)
    setting = " ".join(f"{key}={shlex.quote(value)}" for key, value in variables.items())
    print(f"job        {home.path.name}, in {home.path}")
    print(f"address    {address}")
    print(f"token file {home.token}")
    print(f"connect    {setting} python train.py", flush=True)


def _split(command: str | None) -> list[str] | None:
    if command is None:
        return None
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InvalidRequest(f"--worker-command {command!r} cannot be split into words: {error}") from None
    if not words:
        raise InvalidRequest("--worker-command is empty")
    return words


def _is_name(text: str) -> bool:
    import re

    from pliant.spec.job import LABEL, LONGEST_NAME

    return len(text) <= LONGEST_NAME and re.fullmatch(LABEL, text) is not None
