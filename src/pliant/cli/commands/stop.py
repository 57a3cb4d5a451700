"""Stop a running job and wait until all of its processes have ended.

Programs get SIGTERM and the job's grace period (`fault.grace`); with --now they are killed.

    pliant stop digits
    pliant stop digits --now
    pliant stop digits --reason "the machine is needed" --timeout 120
    pliant stop digits -N team-a

Exit code: 0 if the job has ended (even before this command); 1 if it did not end in time; 2 if the job is not found.
"""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from pliant.cli.options.common import AsJson, Context, Folder, NamedJob, Namespace, cluster_of
from pliant.cli.render.terminal import say
from pliant.core.errors import InvalidRequest
from pliant.handles.find import find_job_handle


def stop(
    name: NamedJob = None,
    now: Annotated[bool, typer.Option("--now", help="Kill the programs immediately, without a grace period.")] = False,
    reason: Annotated[
        str, typer.Option("--reason", help="Reason, recorded in the job's summary.")
    ] = "stopped by the user",
    timeout: Annotated[
        float, typer.Option("--timeout", min=0, metavar="SECONDS", help="How long to wait for the job to end.")
    ] = 300.0,
    job_dir: Folder = None,
    as_json: AsJson = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    if name is None and job_dir is None:
        raise InvalidRequest("no job given: specify NAME or --job-dir", hint="list jobs with `pliant jobs`")
    handle = find_job_handle(name, job_dir, cluster_of(namespace, context, job_dir))
    summary = handle.stop(now=now, reason=reason, deadline=time.monotonic() + timeout)
    if as_json:
        print(json.dumps(summary.to_json(), indent=1))
    else:
        say(f"{handle.name}: {summary.phase}: {summary.reason}")
