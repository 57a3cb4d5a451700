"""Keeps a job's master alive on this machine: whoever holds ``launcher.lock`` restarts it when it dies.

Normally that is ``pliant run``. If that process is killed, the master notices (the kernel releases the lock) and starts
a supervisor without a terminal in its place; if both are killed at once, an agent does (``platforms.local.revive``). So
killing any process of a job does not end the job, as long as one is left. A job ends when it succeeds, fails, or is stopped
(``pliant stop``).

The exit code of a master says whether to restart it, and when.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from pliant.core.errors import Conflict, JobFailed, PermanentError, PliantError
from pliant.core.nodes.environment import NodeEnvironment
from pliant.files.atomic import read_json
from pliant.files.locks import FileLock
from pliant.master.job_dir import JobDir

log = logging.getLogger(__name__)

# Exit codes of a master: another one serves; a retryable error, such as a full disk; a permanent error.
EXIT_ALREADY_RUNNING, EXIT_RETRY_LATER, EXIT_PERMANENT = 3, 4, 5
MAX_FAULTS = 5  # in a row, before it served or within a second: then no restart helps
MAX_PAUSE_S = 2.0  # before a start
# Killed, or waiting for disk space: says nothing about the next start. None: not our child.
HARMLESS_EXITS = (-signal.SIGKILL, -signal.SIGTERM, EXIT_RETRY_LATER, None)


class Supervisor:
    def __init__(self, job_dir: JobDir) -> None:
        self.job_dir = job_dir
        self.restarts = 0
        self.on_restart: Callable[[str], None] = lambda why: None
        self._lock = FileLock(job_dir.path / "launcher.lock")
        self._master_lock = FileLock(job_dir.path / "master.lock")
        self._master: subprocess.Popen[bytes] | None = None

    def acquire(self) -> None:
        for _ in range(10):  # readers hold it for an instant
            if self._lock.try_acquire():
                return
            time.sleep(0.02)
        raise Conflict(
            f"a launcher of the job in {self.job_dir.path} is already running",
            hint="watch it with `pliant status` and `pliant logs -f`, or choose another --name",
        )

    def release(self) -> None:
        self._lock.release()

    def start_master(self) -> None:
        with (self.job_dir.logs / "master.log").open("ab") as output:
            self._master = subprocess.Popen(
                [sys.executable, "-m", "pliant.master", "--job-dir", str(self.job_dir.path)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **NodeEnvironment(is_supervised=True).to_env()},
                start_new_session=True,
            )

    def keep_alive(self) -> None:
        """Return when the job is over. Adopts a master that another launcher started."""
        early = faults = 0  # exits in a row right after a start; those of them that are its own fault
        blocked = False
        while True:
            began = time.monotonic()
            code = self._wait_for_death()
            if self.job_dir.summary_file.exists():
                return
            if code == EXIT_ALREADY_RUNNING:
                self._master = None
                continue
            early = 0 if self._served() and time.monotonic() - began > 1.0 else early + 1
            faults = faults + 1 if early and code not in HARMLESS_EXITS else 0
            if code == EXIT_PERMANENT or faults >= MAX_FAULTS or not self.job_dir.exists():
                self._give_up(code, faults)
            if code != EXIT_RETRY_LATER:
                self.on_restart("the master died; restarting it")
            elif not blocked:
                self.on_restart(f"the master cannot write to {self.job_dir.path}; it resumes when there is space")
            blocked = code == EXIT_RETRY_LATER
            if early or blocked:
                time.sleep(MAX_PAUSE_S if blocked else min(MAX_PAUSE_S, 0.05 * 2**early))
            self.restarts += 1
            self.start_master()

    def _give_up(self, code: int | None, faults: int) -> NoReturn:
        """No master can serve this job: end what is left of it, and raise the reason."""
        from pliant.platforms.local import sweep_job  # rarely needed, and a launcher should start fast

        sweep_job(self.job_dir.path)
        if not self.job_dir.exists():
            raise JobFailed(f"the job's folder {self.job_dir.path} was removed while the job ran")
        how = "cannot continue" if code == EXIT_PERMANENT else f"died {faults} times at its start (exit code {code})"
        raise PermanentError(f"the master {how}:\n{self._last_lines()}", hint=f"see {self.job_dir.logs / 'master.log'}")

    def _wait_for_death(self) -> int | None:
        if self._master is not None:
            return self._master.wait()
        self._master_lock.acquire()  # not our child: it holds this lock while it lives
        self._master_lock.release()
        return None

    def _served(self) -> bool:
        """Whether the master that died had published its address."""
        record = read_json(self.job_dir.master_file)
        return self._master is not None and record is not None and record["pid"] == self._master.pid

    def _last_lines(self) -> str:
        lines = (self.job_dir.logs / "master.log").read_text(errors="replace").splitlines()
        return "\n".join(f"    {line}" for line in lines[-12:])


def watch_launcher(job_dir: JobDir) -> None:
    """In a supervised master: if the launcher is killed, start a supervisor without a terminal in its place."""
    if not NodeEnvironment.from_env(os.environ).is_supervised:
        return

    def watch() -> None:
        lock = FileLock(job_dir.path / "launcher.lock")
        while True:
            lock.acquire()
            lock.release()
            if job_dir.summary_file.exists():
                return
            log.warning("the launcher is gone; starting a supervisor in its place")
            with (job_dir.logs / "master.log").open("ab") as output:
                child = subprocess.Popen(
                    [sys.executable, "-m", "pliant.master.supervisor", "--job-dir", str(job_dir.path)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            while not lock.is_held() and child.poll() is None:
                time.sleep(0.05)

    threading.Thread(target=watch, name="watch-launcher", daemon=True).start()


def main() -> int:
    parser = argparse.ArgumentParser(prog="pliant.master.supervisor")
    parser.add_argument("--job-dir", type=Path, required=True)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    supervisor = Supervisor(JobDir(options.job_dir))
    try:
        supervisor.acquire()
    except Conflict:
        return 0
    try:
        supervisor.keep_alive()
    except PliantError as error:
        log.error("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
