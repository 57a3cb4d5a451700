"""Which jobs a dashboard shows: all of this machine or of a namespace, or one alone."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from pliant.cli.render.terminal import EscapingFormatter
from pliant.dashboard.watching.job_source import JobsOfNamespace, JobsOfThisMachine, JobSource, OneJob
from pliant.handles.cluster import Cluster
from pliant.handles.find import find_job_handle, open_namespace


def job_source(name: str | None, job_dir: Path | None, cluster: Cluster | None) -> tuple[JobSource, str]:
    """And the id of the only job, empty for all."""
    if name is None and job_dir is None:
        return (JobsOfNamespace(open_namespace(cluster)) if cluster is not None else JobsOfThisMachine()), ""
    one = OneJob(find_job_handle(name, job_dir, cluster))
    return one, one.id


def log_to_terminal() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(EscapingFormatter("dashboard: %(levelname)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def leave_at_once() -> None:
    """End the process, after everything was closed: a thread that waits for a frozen master is not waited for."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
