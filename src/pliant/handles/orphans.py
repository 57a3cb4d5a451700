"""Ending a job of this machine that has no master to be asked: it is gone for good, or cannot start on a full disk."""

from __future__ import annotations

import os
import signal

import psutil

from pliant.core.job import Phase
from pliant.core.nodes.environment import NodeEnvironment
from pliant.core.plurals import counted
from pliant.core.status import JobStatus
from pliant.core.summary import JobSummary
from pliant.files.locks import FileLock
from pliant.handles.liveness import master_is_alive
from pliant.master.job_dir import JobDir


def sweep_if_alone(home: JobDir, now: bool) -> JobSummary | None:
    """If there is neither a master nor anyone who would start one: we take the launcher's lock, so that no agent starts one."""
    launcher = FileLock(home.path / "launcher.lock")
    if master_is_alive(home) or not launcher.try_acquire():
        return None
    try:
        return _sweep(home, now)
    finally:
        launcher.release()


def ask_supervisor_to_stop(home: JobDir, now: bool) -> bool:
    """Signal the process that keeps starting the master, which then stops the job itself; False: it cannot be reached.

    Two different signals are two requests, and so mean at once.
    """
    from pliant.master.supervisor import supervisor_pid

    pid = supervisor_pid(home)
    if pid is None:
        return False
    try:
        for number in (signal.SIGTERM, signal.SIGINT) if now else (signal.SIGTERM,):
            os.kill(pid, number)
    except OSError:
        return False
    return True


def _sweep(home: JobDir, now: bool) -> JobSummary:
    from pliant.checkpoint.slots import remove_job
    from pliant.platforms.local import sweep_job
    from pliant.platforms.processes import find_marked, send
    from pliant.rpc.identity import read_token_file
    from pliant.spec import load_spec

    left = find_marked(NodeEnvironment.marks(job_dir=home.path))
    if not now:
        for process in left:
            send(process, signal.SIGTERM)
        psutil.wait_procs(left, timeout=10)
    sweep_job(home.path)
    if home.token.exists():
        remove_job(load_spec(home.spec).name, read_token_file(home.token))
    psutil.wait_procs(left, timeout=5)
    reason = (
        f"its master was gone; killed {counted(len(left), 'leftover process', 'leftover processes')}"
        if left
        else "nothing was running"
    )
    return JobSummary(JobStatus(home.name, Phase.INTERRUPTED, reason))
