"""Keeps a job's master alive on this machine: whoever holds ``launcher.lock`` restarts it when it dies.

Normally that is ``pliant run``. If that process is killed, the master notices (the kernel releases the lock) and starts
a supervisor without a terminal in its place; if both are killed at once, an agent does (``platforms.local.revive``). So
killing any process of a job does not end the job, as long as one is left. A job ends when it succeeds, fails, or is stopped
(``pliant stop``).

The exit code of a master says whether to restart it, and when. While the disk is full it is tried again and again, and a stop
that is asked for meanwhile is carried out here, without a master (``unrecorded_stop``).

On a cluster that starts this process again elsewhere (``--host``) nobody else does: masters and agents start no supervisor.

The lock's file has the supervisor's pid, for ``pliant stop``: SIGTERM asks it to stop the job, SIGINT as well at once.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from pliant.core.errors import Conflict, JobFailed, PermanentError, PliantError
from pliant.core.nodes.environment import NodeEnvironment
from pliant.core.plurals import counted
from pliant.files.atomic import read_json
from pliant.files.locks import FileLock
from pliant.files.private import FILE_MODE, inherited_umask
from pliant.files.reserve import disk_problem
from pliant.master.job_dir import JobDir
from pliant.master.unrecorded_stop import stop_without_journal

log = logging.getLogger(__name__)

# Exit codes of a master: another one serves; a retryable error, such as a full disk; a permanent error; it was asked to stop
# the job and cannot journal that.
EXIT_ALREADY_RUNNING, EXIT_RETRY_LATER, EXIT_PERMANENT, EXIT_STOP_UNRECORDED = 3, 4, 5, 6
MAX_FAULTS = 5  # in a row, before it served or within a second: then no restart helps
MAX_PAUSE_S = 2.0  # before a start
PREDECESSOR_ATTEMPTS = 1500  # half a minute: on a cluster, for what a killed supervisor left to end
# Killed, or waiting for disk space: says nothing about the next start. None: not our child.
HARMLESS_EXITS = (-signal.SIGKILL, -signal.SIGTERM, EXIT_RETRY_LATER, EXIT_STOP_UNRECORDED, None)
DISK_EXITS = (EXIT_RETRY_LATER, EXIT_STOP_UNRECORDED)


class Supervisor:
    def __init__(self, job_dir: JobDir, host: str = "") -> None:
        """``host``: where masters listen for other machines of a cluster, which starts a supervisor again that died."""
        self.job_dir = job_dir
        self._host = host
        self.restarts = 0
        self.on_restart: Callable[[str], None] = lambda why: None
        self.has_served = False  # a master of this supervisor
        self.unrecorded_stop = ""  # why the job was stopped, if that could not be recorded
        self._lock = FileLock(job_dir.launcher_lock)
        self._master_lock = FileLock(job_dir.master_lock)
        self._master: subprocess.Popen[bytes] | None = None
        self._stop_reason = ""
        self._stop_at_once = False
        self._stop_requested = threading.Event()

    def acquire(self, attempts: int = 10) -> None:
        for _ in range(attempts):  # readers hold it for an instant
            if self._lock.try_acquire():
                self._write_pid()
                return
            time.sleep(0.02)
        raise Conflict(
            f"a launcher of the job in {self.job_dir.path} is already running",
            hint="watch it with `pliant status` and `pliant logs -f`, or choose another --name",
        )

    def release(self) -> None:
        self._lock.release()

    def request_stop(self, reason: str, *, at_once: bool = False) -> None:
        """For the case that there is no master that could be asked, and none can start: from any thread."""
        self._stop_reason = self._stop_reason or reason
        self._stop_at_once = self._stop_at_once or at_once
        self._stop_requested.set()

    def forward_stop(self, *, at_once: bool = False) -> None:
        """A signal asks this process to stop the job: a living master is asked in turn, else it is done here."""
        self.request_stop("stopped by a signal", at_once=at_once)
        pid = self._master.pid if self._master is not None else (read_json(self.job_dir.master_file) or {}).get("pid")
        if pid and self._master_lock.is_held():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def replace_master(self) -> bool:
        """It does not answer: kill it, which loses nothing; ``keep_alive`` starts a successor. From any thread."""
        pid = self._master.pid if self._master is not None else (read_json(self.job_dir.master_file) or {}).get("pid")
        if not pid or not self._master_lock.is_held():
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return True

    def start_master(self) -> None:
        output = self._open_log()
        listen = ["--host", self._host] if self._host else []
        try:
            self._master = subprocess.Popen(
                [sys.executable, "-P", "-m", "pliant.master", "--job-dir", str(self.job_dir.path), *listen],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **NodeEnvironment(is_supervised=not self._host).to_env()},
                start_new_session=True,
            )
        finally:
            if output != subprocess.DEVNULL:
                os.close(output)

    def keep_alive(self) -> None:
        """Return when the job is over. Adopts a master that another launcher started."""
        early = faults = 0  # exits in a row right after a start; those of them that are its own fault
        blocked = False
        while True:
            began = time.monotonic()
            code = self._wait_for_death()
            served = self._served()
            self.has_served = self.has_served or served
            if self.job_dir.summary_file.exists():
                return
            if code == EXIT_ALREADY_RUNNING:
                self._master = None
                continue
            early = 0 if served and time.monotonic() - began > 1.0 else early + 1
            faults = faults + 1 if early and code not in HARMLESS_EXITS else 0
            if code == EXIT_PERMANENT or faults >= MAX_FAULTS or not self.job_dir.exists():
                self._give_up(code, faults)
            if code == EXIT_STOP_UNRECORDED:
                self.request_stop("stopped by the user")
            if code not in DISK_EXITS:
                self.on_restart("the master died; restarting it")
            elif not blocked and not self._stop_requested.is_set():
                self.on_restart(f"{self._obstacle()}; the job continues when {self._remedy()}")
            blocked = code in DISK_EXITS
            if early or blocked:
                self._pause(MAX_PAUSE_S if blocked else min(MAX_PAUSE_S, 0.05 * 2**early))
            if blocked and self._stop_requested.is_set():
                self._stop_without_master()
                return
            self.restarts += 1
            self.start_master()

    def _stop_without_master(self) -> None:
        self.on_restart(f"{self._obstacle()}; stopping the programs without the master")
        if stop_without_journal(self.job_dir, self._stop_reason, lambda: self._stop_at_once):
            return
        self.unrecorded_stop = f"{self._stop_reason}; not recorded: {self._obstacle()}"

    def _obstacle(self) -> str:
        """Why the last master ended, although another one may succeed."""
        problem = read_json(self.job_dir.problem_file) or {}
        told = str(problem.get("message", ""))
        return disk_problem(self.job_dir.path) or told or f"the master cannot write to {self.job_dir.path}"

    def _remedy(self) -> str:
        is_disk = disk_problem(self.job_dir.path) or not self.job_dir.problem_file.exists()
        return "space is available" if is_disk else "that is over"

    def _pause(self, seconds: float) -> None:
        """Ends early if the job is to be stopped."""
        self._stop_requested.wait(seconds)

    def _write_pid(self) -> None:
        """In place, which a full disk allows: whoever held the lock before wrote one too."""
        try:
            os.pwrite(self._lock.fd, f"{os.getpid():<20}\n".encode(), 0)
        except OSError as error:
            log.warning("%s cannot be written: %s", self.job_dir.launcher_lock, error)

    def _open_log(self) -> int:
        """For the output of a master; if it cannot be written (a read-only file system), it is lost."""
        try:
            return os.open(
                self.job_dir.logs / "master.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, FILE_MODE
            )
        except OSError:
            return subprocess.DEVNULL

    def _give_up(self, code: int | None, faults: int) -> NoReturn:
        """No master can serve this job: end what is left of it, and raise the reason."""
        from pliant.platforms.local import sweep_job  # rarely needed, and a launcher should start fast

        sweep_job(self.job_dir.path)
        if not self.job_dir.exists():
            raise JobFailed(f"the job directory {self.job_dir.path} was removed while the job was running")
        problem = read_json(self.job_dir.problem_file)
        if code == EXIT_PERMANENT and problem is not None:
            raise PermanentError(problem["message"], hint=problem["hint"])
        how = (
            "cannot continue"
            if code == EXIT_PERMANENT
            else f"died {counted(faults, 'time')} during startup (exit code {code})"
        )
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
        try:
            lines = (self.job_dir.logs / "master.log").read_text(errors="replace").splitlines()
        except OSError as error:
            return f"    {error}"
        return "\n".join(f"    {line}" for line in lines[-12:])


class SupervisedMaster:
    """Runs a supervisor in a thread of its own, so that the main thread is free for signals and for following the job."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._problem: PliantError | None = None
        self._thread = threading.Thread(target=self._work, name="supervisor", daemon=True)
        self._over, self._tell_over = os.pipe()  # closed at the other end once the job is over

    @property
    def unrecorded_stop(self) -> str:
        return self._supervisor.unrecorded_stop

    def request_stop(self, reason: str, *, at_once: bool) -> None:
        self._supervisor.request_stop(reason, at_once=at_once)

    def replace_master(self) -> bool:
        return self._supervisor.replace_master()

    def start(self) -> None:
        self._thread.start()

    def running(self) -> bool:
        if self._thread.is_alive():
            return True
        if self._problem is not None:
            raise self._problem
        return False

    def wait(self, seconds: float, beside: Sequence[int] = ()) -> None:
        if self._over in select.select([self._over, *beside], [], [], seconds)[0]:
            self._thread.join(seconds)

    def _work(self) -> None:
        try:
            self._supervisor.keep_alive()
        except PliantError as error:
            self._problem = error
        except OSError as error:  # of a disk or a process table that fails
            self._problem = PliantError(f"the master cannot be supervised: {error}")
        finally:
            os.close(self._tell_over)


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
            log.warning("the launcher exited; starting a supervisor in its place")
            with (job_dir.logs / "master.log").open("ab") as output:
                child = subprocess.Popen(
                    [sys.executable, "-P", "-m", "pliant.master.supervisor", "--job-dir", str(job_dir.path)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    umask=inherited_umask(),
                )
            while not lock.is_held() and child.poll() is None:
                time.sleep(0.05)

    threading.Thread(target=watch, name="watch-launcher", daemon=True).start()


def supervisor_pid(job_dir: JobDir) -> int | None:
    """Of the process that holds the launcher's lock; None: nobody does, or it is not known who."""
    if not FileLock(job_dir.launcher_lock).is_held():
        return None
    try:
        return int(job_dir.launcher_lock.read_text())
    except (OSError, ValueError):
        return None


def start_in_background(job_dir: JobDir) -> subprocess.Popen[bytes]:
    """A supervisor without a terminal, in a session of its own, which starts the job's master."""
    with (job_dir.logs / "master.log").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "pliant.master.supervisor", "--job-dir", str(job_dir.path), "--start"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="pliant.master.supervisor")
    parser.add_argument("--job-dir", type=Path, required=True)
    parser.add_argument("--start", action="store_true", help="start the first master of the job")
    parser.add_argument("--host", default="", help="of a cluster: where its masters listen")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    job_dir = JobDir(options.job_dir)
    supervisor = Supervisor(job_dir, options.host)
    supervisor.on_restart = log.info
    try:
        supervisor.acquire(attempts=PREDECESSOR_ATTEMPTS if options.host else 10)
    except Conflict:
        return EXIT_ALREADY_RUNNING if options.start else 0
    signal.signal(signal.SIGTERM, lambda *_: supervisor.forward_stop())
    signal.signal(signal.SIGINT, lambda *_: supervisor.forward_stop(at_once=True))
    try:
        if options.host and job_dir.summary_file.exists():
            return 0  # the cluster started this again although the job is over
        if options.start:
            supervisor.start_master()
        master = SupervisedMaster(supervisor)
        master.start()
        while master.running():
            master.wait(MAX_PAUSE_S)
    except PliantError as error:
        log.error("%s", error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
