"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pliant.handles.cluster import Cluster

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="The job's name or directory. [default: newest]")]
NamedJob = Annotated[str | None, typer.Argument(metavar="NAME", help="The job's name or directory.")]
Folder = Annotated[Path | None, typer.Option("--job-dir", help="The job's directory, if outside ~/.pliant/jobs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-N",
        metavar="NAMESPACE",
        envvar="PLIANT_NAMESPACE",
        show_envvar=False,
        help="The job's Kubernetes namespace; without it, jobs on this machine are used. [default: PLIANT_NAMESPACE]",
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        "--kube-context",
        metavar="CONTEXT",
        envvar="PLIANT_KUBE_CONTEXT",
        show_envvar=False,
        help="The kubeconfig context. [default: PLIANT_KUBE_CONTEXT, else the current one]",
    ),
]


def cluster_of(namespace: str | None, context: str | None, job_dir: Path | None = None) -> Cluster | None:
    """None: the job is on this machine. A folder is always here, whatever the environment says."""
    return Cluster(namespace, context) if namespace and job_dir is None else None
