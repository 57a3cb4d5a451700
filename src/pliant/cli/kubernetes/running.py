"""``pliant run --platform kubernetes``: a command or a job's file becomes an ElasticJob, which is followed to its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pliant.cli.kubernetes.following import follow
from pliant.cli.kubernetes.manifest import on_kubernetes, with_script
from pliant.cli.kubernetes.session import Session
from pliant.cli.kubernetes.submitting import submit
from pliant.cli.places import Cluster, opened
from pliant.cli.run_options import RunOptions
from pliant.cli.submit import prepare
from pliant.spec import JobSpec


def run_there(spec: JobSpec, options: RunOptions, files: list[Path], *, output: bool = True) -> dict[str, Any]:
    """Gives the job's summary."""
    options.refuse_folders()
    cluster = options.cluster
    spec, scripts = with_scripts(spec, files)
    submission = prepare(on_kubernetes(spec, name=None, namespace=cluster.namespace), [*files, *scripts], options.image)
    session = Session(Cluster(submission.namespace, cluster.context))
    try:
        place = submit(session, submission, overwrite=options.overwrite)
    except BaseException:
        session.close()
        raise
    opened(place)
    return follow(place, **options.shown(output=output))


def with_scripts(spec: JobSpec, files: list[Path]) -> tuple[JobSpec, list[Path]]:
    """The commands as they run in Pods, and the local Python files that have to be sent along for them."""
    if spec.working_dir:
        return spec, []  # the commands are about a folder of the image
    scripts: list[Path] = []
    roles = {}
    for name, role in spec.roles.items():
        sent = {path.name for path in (*files, *scripts)}
        command, script = with_script(role.command, sent)
        scripts += [script] if script is not None else []
        roles[name] = {**role.entries(), "command": command}
    return spec.replaced(roles=roles), scripts
