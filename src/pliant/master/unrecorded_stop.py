"""Stopping a job whose journal cannot be written: a full disk, a quota, a file system that became read-only.

A master decides nothing that it cannot journal, so on a full disk it ends, and its supervisor starts it again until there is
room. Stopping is the exception. Invariants:

- A stop is carried out whether or not it can be recorded: every process of the job ends, within the programs' grace.
- It needs no master and no disk: processes are found by their environment (``NodeEnvironment.marks``) and get signals.
- What was journaled before stays as it is. Nothing is accepted meanwhile: no master serves.
- Programs end first, and only then the reserve is released (``files/reserve.py``): a program that floods its log cannot use it up.
- Then one more master is started, only to record the stop (``--stop``). If it can, the job is Stopped, with a summary. If not,
  no phase is recorded: the job shows as Interrupted, and can be resumed as any other.

The one who calls this holds the launcher's lock, so nobody starts a master meanwhile; agents may try, and find the lock held.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable

from pliant.core.errors import PliantError
from pliant.core.nodes.environment import without_node_variables
from pliant.files.reserve import release
from pliant.master.job_dir import JobDir

log = logging.getLogger(__name__)

DEFAULT_GRACE_S = 10.0  # if the job's description cannot be read
RECORD_TIMEOUT_S = 60.0  # for the master that records the stop
POLL_INTERVAL_S = 0.1


def stop_without_journal(home: JobDir, reason: str, is_urgent: Callable[[], bool]) -> bool:
    """End all of the job's processes, then record the stop; returns whether that was possible.

    ``is_urgent``: asked again and again; from when it is true on, programs have no more grace.
    """
    _end_processes(home, is_urgent)
    if not home.exists():
        return False
    release(home.reserve)
    _record(home, reason)
    return home.summary_file.exists()


def _end_processes(home: JobDir, is_urgent: Callable[[], bool]) -> None:
    """SIGTERM to the agents, which pass it on; when their programs are gone or the grace is over, whatever is left is killed."""
    from pliant.platforms.local import ask_agents_to_end, sweep_job  # rarely needed, and a launcher should start fast
    from pliant.platforms.processes import is_alive

    left = ask_agents_to_end(home.path)
    deadline = time.monotonic() + _grace(home)
    while any(is_alive(process) for process in left) and not is_urgent() and time.monotonic() < deadline:
        time.sleep(POLL_INTERVAL_S)
    sweep_job(home.path)


def _grace(home: JobDir) -> float:
    from pliant.spec import load_spec

    try:
        return load_spec(home.spec).fault.grace + 2.0  # an agent needs a moment to kill its program, and to end itself
    except (PliantError, OSError):
        return DEFAULT_GRACE_S


def _record(home: JobDir, reason: str) -> None:
    """By a master that finds no node alive, journals the stop, writes the summary, and ends."""
    command = [sys.executable, "-P", "-m", "pliant.master", "--job-dir", str(home.path), "--stop", reason]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=without_node_variables(os.environ),
            timeout=RECORD_TIMEOUT_S,
            check=False,
        )
        log.info("the master that was to record the stop ended with exit code %d", done.returncode)
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("the stop cannot be recorded: %s", error)
