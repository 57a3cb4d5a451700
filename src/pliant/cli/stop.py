"""Stop a running job, and wait until nothing of it is left.

Programs get SIGTERM and the job's grace (`fault.grace`) to end; with --now they are killed.

    pliant stop digits
    pliant stop digits --now
    pliant stop digits --reason "the machine is needed" --timeout 120

Exit code: 0 if the job is over, also if it was before; 1 if it is not over in time; 2 if there is no such job.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pliant.cli.homes import find_job
from pliant.cli.options import AsJson, Folder
from pliant.core.errors import Conflict, InvalidRequest, MasterUnavailable

if TYPE_CHECKING:
    from pliant.master.job_dir import JobDir

LOOK_EVERY = 0.1  # seconds


def stop(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The job's name, or its folder.")] = None,
    now: Annotated[bool, typer.Option("--now", help="Kill the programs at once, without grace.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the job's summary.")] = "stopped by the user",
    timeout: Annotated[
        float, typer.Option("--timeout", min=0, metavar="SECONDS", help="How long to wait for the end.")
    ] = 300.0,
    job_dir: Folder = None,
    as_json: AsJson = False,
) -> None:
    if name is None and job_dir is None:
        raise InvalidRequest("which job? give its NAME or --job-dir", hint="`pliant jobs` lists them")
    home = find_job(name, job_dir)
    deadline = time.monotonic() + timeout
    summary = home.summary()
    if summary is None:
        summary = _sweep_if_alone(home, now)
    if summary is None:
        _ask(home, now, reason)
        summary = _wait(home, now, deadline)
    if as_json:
        print(json.dumps(summary, indent=1))
    else:
        print(f"{home.path.name}: {summary['phase']}: {summary['reason']}")


def _ask(home: JobDir, now: bool, reason: str) -> None:
    from pliant.cli.asking import command
    from pliant.rpc import pliant_pb2 as pb

    request = pb.StopRequest(reason=reason, at_once=now)
    try:
        command(home, "stopped", lambda caller: caller.call(caller.stubs.Stop, request))
    except Conflict:
        if not home.summary_file.exists():  # else it ended by itself at this moment, which is as well
            raise


def _wait(home: JobDir, now: bool, deadline: float) -> dict[str, Any]:
    while (summary := home.summary()) is None:
        if time.monotonic() > deadline:
            hint = "" if now else "`pliant stop --now` kills its programs"
            raise MasterUnavailable(f"job {home.path.name} was asked to stop and is not over yet", hint=hint)
        time.sleep(LOOK_EVERY)
    return summary


def _sweep_if_alone(home: JobDir, now: bool) -> dict[str, Any] | None:
    """If there is neither a master nor anyone who would start one: we take that place, so that no agent starts one."""
    from pliant.cli.asking import master_is_alive
    from pliant.platforms.durable_files import FileLock

    launcher = FileLock(home.path / "launcher.lock")
    if master_is_alive(home) or not launcher.try_acquire():
        return None
    try:
        return _sweep(home, now)
    finally:
        launcher.release()


def _sweep(home: JobDir, now: bool) -> dict[str, Any]:
    """A job whose master is gone for good may have left programs behind."""
    import signal

    import psutil

    from pliant.checkpoint.slots import remove_job
    from pliant.platforms.local import sweep_job
    from pliant.platforms.processes import find_marked, send
    from pliant.rpc.identity import read_token_file
    from pliant.spec import load_spec

    left = find_marked({"PLIANT_JOB_DIR": str(home.path)})
    if not now:
        for process in left:
            send(process, signal.SIGTERM)
        psutil.wait_procs(left, timeout=10)
    sweep_job(home.path)
    if home.token.exists():
        remove_job(load_spec(home.spec).name, read_token_file(home.token))
    psutil.wait_procs(left, timeout=5)
    reason = f"its master was gone; {len(left)} processes that it had left were ended" if left else "nothing of it runs"
    return {"name": home.path.name, "phase": "Interrupted", "reason": reason}
