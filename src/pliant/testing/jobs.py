"""A real job on this machine with fault injection: started as a user does, then killed and frozen by verbs.

    with LocalJob(tmp_path, ["python", "train.py"], workers=3) as job:
        job.wait_for(lambda status: status.datasets[0].records_done > 100, "some progress")
        job.kill_master()
        assert job.wait() == 0

Leaving the block checks that nothing is left of the job: no process, no cgroup, no listening port.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import psutil
import yaml

from pliant.checkpoint.slots import remove_job
from pliant.core.errors import MasterUnavailable, PliantError
from pliant.core.events import EventKind, EventRecord
from pliant.core.nodes.environment import NodeEnvironment
from pliant.core.shards.audit import AuditRow
from pliant.core.status import DatasetStatus, JobStatus, NodeStatus
from pliant.files.atomic import read_json
from pliant.files.locks import FileLock
from pliant.master.job_dir import JobDir
from pliant.master.journal.store import read_audit, read_events
from pliant.platforms.cgroup import cgroup_job
from pliant.platforms.processes import find_marked, is_alive
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import MasterClient
from pliant.rpc.identity import read_token_file
from pliant.rpc.retry import call_with_retry
from pliant.rpc.status import status_from_message
from pliant.rpc.unix_socket import dialled, is_unix
from pliant.testing.waiting import MAX_WAIT_S, wait_until

T = TypeVar("T")
POLL_INTERVAL_S = 0.1  # one poll is a call, or a walk over all processes
CGROUPS = Path("/sys/fs/cgroup")
LAUNCHER, SUPERVISOR = "from pliant.cli import main; main()", "pliant.master.supervisor"


class LocalJob:
    def __init__(
        self,
        folder: Path,
        command: Sequence[str],
        *,
        workers: int | str = 1,
        name: str = "job",
        spec: Mapping[str, Any] | None = None,
        role: Mapping[str, Any] | None = None,
        options: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        job_dir: Path | None = None,
    ) -> None:
        """``spec`` and ``role`` add to the job's YAML and to its role ``worker``; ``options`` are those of ``pliant run``."""
        self.folder = folder
        self.home = JobDir(job_dir or folder / "jobs" / name)
        self._options = list(options)
        self._env = {**os.environ, "PLIANT_HOME": str(folder), **(env or {})}
        self._output = folder / f"{name}.out"
        worker = {"replicas": workers, "command": list(command), **(role or {})}
        self.yaml = folder / f"{name}.yaml"
        self.yaml.write_text(yaml.safe_dump({"name": name, "audit": True, "roles": {"worker": worker}, **(spec or {})}))
        self.name = name
        self._launcher: subprocess.Popen[bytes] | None = None
        self._client: MasterClient | None = None

    # --- life

    def start(self, *options: str) -> Self:
        command = [sys.executable, "-c", LAUNCHER, "run", "--job-dir", str(self.home.path)]
        with self._output.open("ab") as output:
            self._launcher = subprocess.Popen(
                [*command, *self._options, *options, str(self.yaml)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._env,
                cwd=self.folder,
            )
        return self

    def resume(self) -> Self:
        """``pliant resume``, after it ended or was interrupted; what was started first is not waited for."""
        command = [sys.executable, "-c", LAUNCHER, "resume", "--job-dir", str(self.home.path)]
        with self._output.open("ab") as output:
            self._launcher = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self._env, cwd=self.folder
            )
        return self

    @property
    def launcher(self) -> subprocess.Popen[bytes]:
        assert self._launcher is not None, "the job was not started"
        return self._launcher

    def wait(self, timeout: float = MAX_WAIT_S) -> int:
        """The exit code of ``pliant run``."""
        try:
            return self.launcher.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the job did not end within {timeout:g} s\n{self.report()}") from None

    def wait_for_summary(self, timeout: float = MAX_WAIT_S) -> dict[str, Any]:
        """For a job without its launcher."""
        self.until(self.home.summary_file.exists, "the job's end", timeout)
        self.until(lambda: not self._is_held("master.lock"), "the end of its master", timeout)
        return self.summary()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._client is not None:
            self._client.close()
        if kind is None:
            try:
                self.check_nothing_is_left()
            finally:
                self.end_all()
            return
        if error is not None:
            error.add_note(self.report())
        self.end_all()

    def until(self, predicate: Callable[[], T | None], what: str, timeout: float = MAX_WAIT_S) -> T:
        """The first true value of ``predicate``; a time-out reports all that is known of the job."""
        try:
            return wait_until(predicate, timeout, what, every=POLL_INTERVAL_S)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.report()}") from None

    def outlast(self, *timeouts: float) -> None:
        """Return when more time has passed than any of these time-outs (seconds) of the job takes, while something is frozen.

        There is nothing to wait for: that nothing happens is what such a test is about.
        """
        end = time.monotonic() + 1.2 * max(timeouts)
        self.until(lambda: time.monotonic() > end, "time to pass", 2 * max(timeouts))

    # --- what is there

    def status(self) -> JobStatus | None:
        """None while there is no master to ask."""
        try:
            if self._client is None:
                address = self.home.address()
                record = None if is_unix(address.target) else self.home.master_file
                self._client = MasterClient(replace(address, record=record))
            return status_from_message(self._client.call(self._client.stubs.job.GetStatus, pb.Empty(), timeout=5))
        except PliantError:
            return None

    def call(self, method: Callable[[MasterClient], Callable[..., Any]], request: Any) -> Any:
        """``job.call(lambda c: c.stubs.job.Scale, pb.ScaleRequest(…))``, retried while the master is unavailable."""

        def attempt() -> Any:
            client = MasterClient(self.home.address())
            try:
                return client.call(method(client), request, timeout=20)
            finally:
                client.close()

        return call_with_retry(attempt, retry_timeout=MAX_WAIT_S)

    def wait_for(self, condition: Callable[[JobStatus], T | None], what: str, timeout: float = MAX_WAIT_S) -> T:
        """The first true value of ``condition`` of the job's status."""

        def look() -> T | None:
            status = self.status()
            return condition(status) if status is not None else None

        return self.until(look, what, timeout)

    def wait_for_progress(self, records: int, timeout: float = MAX_WAIT_S) -> JobStatus:
        def enough(status: JobStatus) -> JobStatus | None:
            return status if sum(d.records_done for d in status.datasets) >= records else None

        return self.wait_for(enough, f"{records} records to be done", timeout)

    def largest_dataset(self) -> DatasetStatus:
        """That of the records; others are of tasks such as the export."""
        return max(self.wait_for(lambda status: status, "the status").datasets, key=lambda d: d.records_total)

    def node(self, name: str) -> NodeStatus:
        status = self.wait_for(lambda status: status, "the master")
        return next(node for node in status.nodes if node.name == name)

    def wait_until_running(self, name: str) -> NodeStatus:
        """Until the program of this node runs."""

        def running(status: JobStatus) -> NodeStatus | None:
            return next((n for n in status.nodes if n.name == name and n.state == "Running" and n.pid), None)

        return self.wait_for(running, f"the program of {name}")

    def summary(self) -> dict[str, Any]:
        found = self.home.summary()
        assert found is not None, f"no summary\n{self.report()}"
        return found

    def audit(self) -> list[AuditRow]:
        return read_audit(self.home.journal)

    def events(self, *kinds: EventKind) -> list[EventRecord]:
        """Of these kinds; without any, all."""
        found = read_events(self.home.journal, limit=100_000)
        return [event for event in found if not kinds or event.kind in kinds]

    def output(self) -> str:
        """Of ``pliant run``."""
        return self._output.read_text(errors="replace") if self._output.exists() else ""

    def log(self, node: str) -> str:
        path = self.home.log_of(node)
        return path.read_text(errors="replace") if path.exists() else ""

    def master_pid(self) -> int:
        def find() -> int | None:
            record = read_json(self.home.master_file)
            return int(record["pid"]) if record and _runs(int(record["pid"]), "pliant.master") else None

        return self.until(find, "a master")

    def masters(self) -> list[int]:
        """Pids, also of one that is still starting."""
        return [p.pid for p in self.processes() if "pliant.master" in _words(p)]

    def supervisors(self) -> list[int]:
        """What restarts the master when it dies: pids of the launcher, or of a supervisor in its place."""
        return [p.pid for p in self.processes() if {SUPERVISOR, LAUNCHER} & set(_words(p))]

    # --- fault injection

    def kill_master(self) -> int:
        pid = self.master_pid()
        self.send(pid, signal.SIGKILL)
        return pid

    def freeze_master(self) -> int:
        pid = self.master_pid()
        self.send(pid, signal.SIGSTOP)
        return pid

    def thaw(self, pid: int) -> None:
        self.send(pid, signal.SIGCONT)

    def kill_program(self, node: str) -> int:
        pid = self.wait_until_running(node).pid
        self.send(pid, signal.SIGKILL)
        return pid

    def freeze_program(self, node: str) -> int:
        pid = self.wait_until_running(node).pid
        self.send(pid, signal.SIGSTOP)
        return pid

    def kill_agent(self, node: str) -> int:
        pid = self.wait_until_running(node).agent_pid
        self.send(pid, signal.SIGKILL)
        return pid

    def freeze_agent(self, node: str) -> int:
        pid = self.wait_until_running(node).agent_pid
        self.send(pid, signal.SIGSTOP)
        return pid

    def preempt(self, node: str) -> int:
        """As a platform does: SIGTERM to the agent."""
        pid = self.wait_until_running(node).agent_pid
        self.send(pid, signal.SIGTERM)
        return pid

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.launcher.send_signal(signal.SIGINT)

    def kill_launcher(self) -> None:
        self.launcher.kill()
        self.launcher.wait()

    @staticmethod
    def send(pid: int, number: int) -> bool:
        """False if there is no such process any more."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            return True
        return False

    # --- the end

    def processes(self) -> list[psutil.Process]:
        """Whatever runs for this job: agents, programs and what they started, masters, supervisors."""
        ours = {p.pid: p for p in find_marked(NodeEnvironment.marks(job_dir=self.home.path))}
        for process in psutil.process_iter():
            words = _words(process)
            if str(self.home.path) in words and {"pliant.master", SUPERVISOR, LAUNCHER} & set(words):
                ours[process.pid] = process
        return [process for process in ours.values() if is_alive(process)]

    def cgroups(self) -> list[Path]:
        prefix = f"pliant-{cgroup_job(self.name, self.home.path)}"
        return [path for path in (*CGROUPS.glob(f"{prefix}*"), *CGROUPS.glob(f"*/{prefix}*")) if path.is_dir()]

    def check_nothing_is_left(self, timeout: float = MAX_WAIT_S) -> None:
        self.until(lambda: not self.processes(), "all of its processes to end", timeout)
        assert not self.cgroups(), f"cgroups are left: {self.cgroups()}"
        record = read_json(self.home.master_file)
        if record is not None:
            assert not _listens(record["address"]), f"something listens on {record['address']}"

    def end_all(self) -> None:
        """By force; for a test that failed."""
        for _ in range(20):
            left = self.processes()
            if not left:
                break
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(left, timeout=1)
        if self._launcher is not None:
            self._launcher.kill()
            self._launcher.wait()
        if self.home.token.exists():
            remove_job(self.name, read_token_file(self.home.token))

    def report(self) -> str:
        """All that helps to see what happened."""
        parts = [f"--- pliant run\n{self.output()[-6000:]}"]
        if self.home.logs.exists():
            parts += [
                f"--- {p.name}\n{p.read_text(errors='replace')[-4000:]}" for p in sorted(self.home.logs.glob("*.log"))
            ]
        if self.home.journal.exists():
            events = "\n".join(f"{e.time:.2f} {e.kind} {e.node} {e.message}" for e in self.events()[-60:])
            parts.append(f"--- events\n{events}")
        parts.append("--- processes\n" + "\n".join(f"{p.pid} {' '.join(_words(p))[:200]}" for p in self.processes()))
        return "\n".join(parts)

    def _is_held(self, lock: str) -> bool:
        return (self.home.path / lock).exists() and FileLock(self.home.path / lock).is_held()


def _runs(pid: int, module: str) -> bool:
    try:
        process = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return False
    return is_alive(process) and module in _words(process)


def _words(process: psutil.Process) -> list[str]:
    """Of its command; none once it ended."""
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def _listens(target: str) -> bool:
    """On the Unix socket of a master, or its TCP port."""
    if not is_unix(target):
        host, _, port = target.rpartition(":")
        with contextlib.closing(socket.socket()) as probe:
            probe.settimeout(2)
            return probe.connect_ex((host, int(port))) == 0
    try:
        path = dialled(target)
    except MasterUnavailable:
        return False
    with contextlib.closing(path), contextlib.closing(socket.socket(socket.AF_UNIX)) as probe:
        probe.settimeout(2)
        return probe.connect_ex(str(path.path)) == 0
