"""Continue a job that was stopped or interrupted, or that failed, and follow it to its end.

    pliant resume digits
    pliant resume digits --detach
    pliant resume --job-dir /data/jobs/digits --summary summary.json

It runs the same command with the same options; its journal says what is done, so no record is accepted twice. A program
restores its own state: a Trainer from its last checkpoint, parameter servers from their dump and log. After a failure,
fix the program first; each node may fail as often again. `pliant run --resume --name digits` does the same.

Exit code: the job's: 0 done, 1 failed, 130 stopped; 2 if there is no such job, it is running, or it has succeeded.
"""

from __future__ import annotations

from pliant.cli.launch.outcome import check_summary, leave
from pliant.cli.launch.resuming import resume as resume_job
from pliant.cli.options.common import Context, Folder, NamedJob, Namespace, cluster_of
from pliant.cli.options.groups import grouped
from pliant.cli.options.run import NO_RESUME_IN_A_CLUSTER, StartOptions
from pliant.core.errors import InvalidRequest
from pliant.handles.job_dirs import find_job


@grouped
def resume(
    name: NamedJob = None,
    job_dir: Folder = None,
    namespace: Namespace = None,
    context: Context = None,
    *,
    options: StartOptions,
) -> None:
    if name is None and job_dir is None:
        raise InvalidRequest("no job is named: give its NAME or --job-dir", hint="`pliant jobs` lists them")
    if cluster_of(namespace, context, job_dir) is not None:
        raise InvalidRequest("a stopped job of a cluster cannot be resumed", hint=NO_RESUME_IN_A_CLUSTER)
    check_summary(options)
    options.check()
    leave(resume_job(find_job(name, job_dir), options), options)
