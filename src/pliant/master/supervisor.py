"""Keeps a job's master alive on this machine: whoever holds ``launcher.lock`` starts it again when it dies.

Normally that is ``pliant run``. If that process is killed, the master notices (the kernel lets go of the lock) and starts
a supervisor without a terminal in its place; so killing any one process of a job ends nothing. A job ends when it is done,
fails, or is stopped (``pliant stop``).
"""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pliant.core.errors import Conflict, PermanentError
from pliant.master.job_dir import JobDir
from pliant.platforms.durable_files import FileLock

log = logging.getLogger(__name__)

SUPERVISED = "PLIANT_SUPERVISED"  # set for a master whose supervisor is watched in turn
MOST_QUICK_DEATHS = 8  # in a row, each within a second of its start: then something is wrong that no restart mends


class Supervisor:
    def __init__(self, job_dir: JobDir) -> None:
        self.job_dir = job_dir
        self.restarts = 0
        self.on_restart: Callable[[], None] = lambda: None
        self._lock = FileLock(job_dir.path / "launcher.lock")
        self._master_lock = FileLock(job_dir.path / "master.lock")
        self._master: subprocess.Popen[bytes] | None = None

    def acquire(self) -> None:
        if not self._lock.try_acquire():
            raise Conflict(
                f"a launcher of the job in {self.job_dir.path} is running already",
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
                env={**os.environ, SUPERVISED: "1"},
                start_new_session=True,
            )

    def keep_alive(self) -> None:
        """Until the job is over. Adopts a master that another launcher started."""
        quick_deaths = 0
        while True:
            began = time.monotonic()
            code = self._wait_for_death()
            if self.job_dir.summary_file.exists():
                return
            lived = time.monotonic() - began
            quick_deaths = quick_deaths + 1 if lived < 1.0 else 0
            if quick_deaths >= MOST_QUICK_DEATHS:
                raise PermanentError(
                    f"the master died {quick_deaths} times right after its start (exit code {code}):\n"
                    + self._last_words(),
                    hint=f"see {self.job_dir.logs / 'master.log'}",
                )
            if quick_deaths:
                time.sleep(min(2.0, 0.05 * 2**quick_deaths))
            self.restarts += 1
            self.on_restart()
            self.start_master()

    def _wait_for_death(self) -> int | None:
        if self._master is not None:
            return self._master.wait()
        self._master_lock.wait()  # not our child: its lock tells
        self._master_lock.release()
        return None

    def _last_words(self) -> str:
        lines = (self.job_dir.logs / "master.log").read_text(errors="replace").splitlines()
        return "\n".join(f"    {line}" for line in lines[-12:])


def watch_launcher(job_dir: JobDir) -> None:
    """In a supervised master: if the launcher is killed, start another, without a terminal."""
    if os.environ.get(SUPERVISED) != "1":
        return

    def watch() -> None:
        lock = FileLock(job_dir.path / "launcher.lock")
        while True:
            lock.wait()
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
    supervisor.keep_alive()
    return 0


if __name__ == "__main__":
    sys.exit(main())
