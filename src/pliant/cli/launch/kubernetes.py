"""``pliant run --platform kubernetes``: a command or a job's file becomes an ElasticJob, which is followed to its end."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pliant.cli.following.kubernetes import follow
from pliant.cli.options.run import RunOptions
from pliant.cli.render.terminal import say
from pliant.core.summary import JobSummary
from pliant.handles.cluster import Cluster
from pliant.handles.kubernetes.session import Session
from pliant.handles.open_handles import close_at_exit
from pliant.launch.manifest import completed, on_kubernetes, with_scripts
from pliant.launch.submitting import next_steps, submit
from pliant.spec import JobSpec


def run_on_kubernetes(spec: JobSpec, options: RunOptions, files: list[Path], *, output: bool = True) -> JobSummary:
    """Submit and follow it; returns the job's summary."""
    options.refuse_folders()
    cluster = options.cluster
    spec, scripts = with_scripts(spec, files)
    submission = completed(
        on_kubernetes(spec, name=None, namespace=cluster.namespace), [*files, *scripts], options.image
    )
    session = Session(Cluster(submission.namespace, cluster.context))
    try:
        handle = submit(session, submission, overwrite=options.overwrite)
    except BaseException:
        session.close()
        raise
    close_at_exit(handle)
    if options.detach:
        submitted = {"name": handle.name, **handle.identity()}
        say(json.dumps(submitted, indent=1) if options.as_json else next_steps(handle.name, handle.namespace))
        sys.exit(0)
    return follow(handle, **options.shown(output=output))
