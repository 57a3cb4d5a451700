"""Run a program as an elastic job, on this machine or on Kubernetes, and follow it to its end.

    pliant run --workers 1:4 -- python train.py --epochs 3
    pliant run -n 4 train.py --epochs 3
    pliant run job.yaml --workers 2
    pliant run --platform kubernetes -N team-a --workers 1:4 -- python train.py

What follows the program is the program's, with or without `--`. Ctrl-C stops the job with grace; twice, at once.
On Kubernetes a Python file of this machine that the command runs is sent along, and what --file names.

Exit code: the job's: 0 done, 1 failed, 130 stopped; 2 for a mistake in the command.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from pliant.cli.homes import fresh_name, jobs_home
from pliant.cli.interrupts import Interrupts
from pliant.cli.option_groups import grouped
from pliant.cli.run_options import RunOptions
from pliant.core.errors import Conflict, InvalidRequest, NotFound, PliantError
from pliant.master.job_dir import JobDir
from pliant.platforms.durable_files import FileLock, why_not_writable, write_json, write_text
from pliant.rpc.identity import create_token_file

if TYPE_CHECKING:
    from pliant.spec import JobSpec


@grouped
def run(
    command: Annotated[
        list[str], typer.Argument(metavar="job.yaml | -- PROGRAM [ARGS]...", help="A job's YAML file, or a program.")
    ],
    workers: Annotated[
        str | None, typer.Option("--workers", "-n", metavar="N | MIN:MAX", help="How many workers. [default: 1]")
    ] = None,
    strategy: Annotated[
        str | None, typer.Option(help="none, local, allreduce, ps-sync or ps-async. [default: none]")
    ] = None,
    nnodes: Annotated[
        str | None, typer.Option(metavar="N | MIN:MAX", help="As torchrun's; workers are nodes here.")
    ] = None,
    nproc_per_node: Annotated[int | None, typer.Option(help="As torchrun's: multiplies --nnodes.")] = None,
    standalone: Annotated[bool, typer.Option(help="As torchrun's; always so here.")] = False,
    files: Annotated[
        list[Path] | None, typer.Option("--file", metavar="PATH", help="On Kubernetes: sent along, into /pliant/files.")
    ] = None,
    tee: Annotated[
        int | None, typer.Option(help="As torchrun's: 0 hides the output of workers, 1 to 3 show it. [default: 3]")
    ] = None,
    *,
    options: RunOptions,
) -> None:
    changes = {"workers": _workers(workers, nnodes, nproc_per_node), "strategy": strategy}
    changes = {key: value for key, value in changes.items() if value is not None}
    check_summary(options)
    spec = make_spec(command, options.name, {**options.changes(), **changes})
    check_launchable(spec)
    if spec.platform.kind == "kubernetes":
        from pliant.cli.kubernetes.running import run_there

        leave(run_there(spec, options, files or [], output=tee != 0), options)
    if options.image or options.claim or files:
        raise InvalidRequest("--image, --claim and --file are for --platform kubernetes")
    leave(launch(prepare(spec, options), options, output=tee != 0), options)


def leave(result: dict[str, Any], options: RunOptions) -> NoReturn:
    if options.summary is not None:
        try:
            options.summary.parent.mkdir(parents=True, exist_ok=True)
            write_json(options.summary, result)
        except OSError as error:
            how = f"job {result['name']} is over ({result['phase']})"
            raise PliantError(f"{how}, but --summary {options.summary} cannot be written: {error.strerror}") from None
    if options.as_json:
        print(json.dumps(result, indent=1))
    sys.exit(int(result["exit_code"]))


def check_summary(options: RunOptions) -> None:
    """Before a launch: else the mistake would show after hours."""
    path = options.summary
    if path is None:
        return
    there = next(folder for folder in path.absolute().parents if folder.exists())
    if path.is_dir():
        raise InvalidRequest(f"--summary {path} is a directory", hint="give the path of a file")
    if problem := why_not_writable(there):
        raise InvalidRequest(f"--summary {path} cannot be written: {there}: {problem}", hint="give another path")


def make_spec(command: list[str], name: str | None, changes: dict[str, Any]) -> JobSpec:
    """The job's description, from a YAML file or from a command, with what the flags say on top."""
    from pliant.spec import JobSpec, load_spec

    from_file = command[0].endswith((".yaml", ".yml"))
    if from_file and len(command) > 1:
        raise InvalidRequest(f"a job's file takes no arguments, and {' '.join(command[1:])!r} is given")
    if from_file:
        spec = load_spec(Path(command[0]))
    else:
        program = ["python", *command] if command[0].endswith(".py") else command
        spec = JobSpec.from_dict({"roles": {"worker": {"command": program}}})
    flags = spec.component_flags
    if flags.need_rendezvous is None and spec.components().nodes:
        # A program may want shards or a world, and says so only when it asks: both are there for it.
        spec = spec.replaced(components={**flags.entries(), "need_rendezvous": True})
    value: dict[str, Any] = spec.entries()
    value["name"] = name or spec.name or fresh_name()
    worker = value["roles"].get("worker")
    if worker is None and changes.keys() & {"workers", "cpu", "memory", "env"}:
        raise InvalidRequest("the job has no role `worker` that these options could be for")
    roles = {role: entry.entries() for role, entry in value["roles"].items()}
    if "workers" in changes:
        roles["worker"]["replicas"] = changes["workers"]
    resources = {key: changes[key] for key in ("cpu", "memory") if key in changes}
    if resources:
        roles["worker"]["resources"] = {**roles["worker"]["resources"].entries(), **resources}
    if "env" in changes:
        roles["worker"]["env"] = {**roles["worker"]["env"], **changes["env"]}
    value["roles"] = roles
    for key in ("strategy", "audit", "metrics_port"):
        if key in changes:
            value[key] = changes[key]
    platform = value["platform"].entries()
    if "platform" in changes:
        platform["kind"] = changes["platform"]
    if "claim" in changes:
        platform["kubernetes"] = {**platform["kubernetes"].entries(), "shared_claim": changes["claim"]}
    value["platform"] = platform
    if changes.get("tls"):
        value["security"] = {"tls": True}
    if "max_restarts" in changes:
        fault = value["fault"].entries()
        value["fault"] = {**fault, "error": {**fault["error"].entries(), "limit": changes["max_restarts"]}}
    made = JobSpec.from_dict(value, source=command[0] if from_file else "the command line")
    here = made.platform.kind != "kubernetes"  # in a Pod, programs start among the files that were sent along
    return made.replaced(working_dir=os.getcwd()) if here and not made.working_dir else made


def check_launchable(spec: JobSpec) -> None:
    """Find here what would otherwise only show as a job that fails again and again."""
    if spec.platform.kind != "local":
        from pliant.platforms.registry import platform_names

        if spec.platform.kind not in platform_names():
            hint = f"known here: {', '.join(platform_names())}"
            raise NotFound(f"there is no platform {spec.platform.kind!r}", hint=hint)
        return
    for role in spec.roles.values():
        if role.command and "PATH" not in role.env:
            _check_program(role.command, Path(spec.working_dir or "."))


def _check_program(command: Sequence[str], folder: Path) -> None:
    if not folder.is_dir():
        raise NotFound(f"there is no folder {folder} for the program to start in", hint="see working_dir")
    program = command[0]
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    if os.sep in program:
        found = os.access(folder / program, os.X_OK) and not (folder / program).is_dir()
    else:
        found = shutil.which(program, path=path) is not None
    if not found:
        raise NotFound(f"there is no program {program!r}", hint="check the spelling, and the PATH")
    runs_a_file = len(command) > 1 and Path(program).name.startswith("python") and command[1].endswith(".py")
    if runs_a_file and not (folder / command[1]).is_file():
        raise NotFound(f"there is no file {command[1]} in {folder.absolute()}", hint="check the path")


def prepare(spec: JobSpec, options: RunOptions) -> JobDir:
    """The job's folder, with everything in it that a master needs."""
    home = JobDir((options.job_dir or jobs_home() / spec.name).absolute())
    if home.exists():
        over = home.summary_file.exists()
        if FileLock(home.path / "launcher.lock").is_held() or FileLock(home.path / "master.lock").is_held():
            raise Conflict(
                f"job {spec.name} is running in {home.path}", hint="choose another --name, or `pliant stop` it"
            )
        if options.resume and not over:
            return home
        if options.resume:
            raise Conflict(
                f"job {spec.name} has ended; there is nothing to resume", hint=f"see `pliant status {spec.name}`"
            )
        if not options.overwrite:
            how = "ended" if over else "was interrupted"
            go_on = "--overwrite replaces it" if over else "--resume goes on with it, --overwrite replaces it"
            raise Conflict(f"there is a job in {home.path}, which {how}", hint=f"choose another --name; {go_on}")
        shutil.rmtree(home.path)
    elif options.resume:
        raise Conflict(f"there is no job in {home.path} to resume")
    try:
        home.create()
        if options.log_dir is not None:
            home.logs.rmdir()
            options.log_dir.mkdir(parents=True, exist_ok=True)
            home.logs.symlink_to(options.log_dir.absolute(), target_is_directory=True)
        create_token_file(home.token)
        write_text(home.spec, spec.to_yaml())
    except OSError as error:
        raise PliantError(f"cannot write the job's folder {home.path}: {error.strerror}") from error
    return home


def launch(home: JobDir, options: RunOptions, *, output: bool = True) -> dict[str, Any]:
    """Start the master and keep it alive, and show the job until it is over; gives its summary."""
    from pliant.master.supervisor import Supervisor

    supervisor = Supervisor(home)
    supervisor.acquire()
    with Interrupts() as interrupts:
        try:
            supervisor.start_master()
            from pliant.cli.follow import Follower, KeptAlive  # gRPC and rich are imported while the master starts
            from pliant.cli.local_place import LocalPlace

            place = LocalPlace(home)
            follower = Follower(place, interrupts, **options.shown(output=output))
            follower.say(f"job {place.name}: files in {place.where}")
            supervisor.on_restart = follower.say
            kept = KeptAlive(supervisor)
            kept.start()
            return follower.follow(kept)
        finally:
            supervisor.release()


def _workers(workers: str | None, nnodes: str | None, per_node: int | None) -> str | None:
    if workers is not None and (nnodes is not None or per_node is not None):
        raise InvalidRequest("--workers and --nnodes/--nproc-per-node say the same thing; give one")
    if nnodes is None and per_node is None:
        return workers
    low, _, high = (nnodes or "1").partition(":")
    try:
        counts = [int(n) * (per_node or 1) for n in (low, high or low)]
    except ValueError:
        raise InvalidRequest(f"--nnodes {nnodes!r} is neither N nor MIN:MAX") from None
    return f"{counts[0]}:{counts[1]}"
