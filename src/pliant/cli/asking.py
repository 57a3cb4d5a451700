"""What is known of a job, wherever it is known: a running job's master is asked, an ended job left its summary, and a
job whose master does not answer is read from its journal.

``look`` is the one way in for ``status``, ``jobs``, ``top`` and the others. A master that was killed is back within a
second or two as long as its launcher lives, so it is given ``PATIENCE`` before it counts as away.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import psutil

from pliant.core.errors import Conflict, MasterUnavailable, NotFound, PliantError
from pliant.master.job_dir import JobDir
from pliant.platforms.durable_files import FileLock, read_json
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.channel import MasterClient

PATIENCE = 5.0  # seconds for a master that is being started again
ASK_EVERY = 0.1  # seconds
CALL = 3.0  # seconds for one answer
SLACK = 2.0  # seconds between the clocks of a file system and of the process table

AWAY = "the master is away; its launcher is starting it again"
INTERRUPTED = "the job was interrupted: no process of its master is left"


@dataclass(frozen=True)
class Sight:
    home: JobDir
    status: pb.JobStatus
    master_alive: bool = False
    note: str = ""  # set if this is no live master's word on a job that is not over
    summary: dict[str, Any] | None = None

    @property
    def over(self) -> bool:
        """It ended, and nothing of it is left."""
        return self.summary is not None

    @property
    def phase(self) -> str:
        if self.note == INTERRUPTED and self.status.phase == "Running":
            return "Interrupted"
        return str(self.status.phase)

    def to_json(self) -> dict[str, Any]:
        from pliant.master.summary import status_dict

        value = self.summary if self.summary is not None else status_dict(self.status)
        where = read_json(self.home.master_file) or {}
        master = {"address": where.get("address", ""), "pid": where.get("pid", 0), "alive": self.master_alive}
        return {
            "first_failure": None,
            "world": None,
            **value,
            "phase": self.phase,
            "note": self.note,
            "job_dir": str(self.home.path),
            "master": master,
        }


def look(home: JobDir, *, patience: float = PATIENCE) -> Sight:
    """The best that is known now."""
    deadline = time.monotonic() + patience
    while True:
        if (summary := home.summary()) is not None:
            return Sight(home, _status_of(summary), summary=summary)
        try:
            with Caller(home) as caller:
                return Sight(home, caller.status(), master_alive=True)
        except (MasterUnavailable, NotFound):
            alive, launched = master_is_alive(home), launcher_is_alive(home)
        if not (alive or launched) or time.monotonic() > deadline:
            break
        time.sleep(ASK_EVERY)
    if (summary := home.summary()) is not None:  # it ended between the two looks
        return Sight(home, _status_of(summary), summary=summary)
    note = AWAY if launched else "the master runs and does not answer" if alive else INTERRUPTED
    return Sight(home, _on_disk(home), alive, note)


class Caller:
    """Calls to the master of a running job."""

    def __init__(self, home: JobDir) -> None:
        self._client = MasterClient(home.address())
        self.stubs = self._client.stubs.job

    def status(self, *, timeout: float = CALL) -> pb.JobStatus:
        reply: pb.JobStatus = self.call(self.stubs.GetStatus, pb.Empty(), timeout=timeout)
        return reply

    def call(self, method: Any, request: Any, *, timeout: float = CALL) -> Any:
        return self._client.call(method, request, timeout=timeout)

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()


def command(home: JobDir, what: str, send: Any, *, patience: float = PATIENCE) -> Any:
    """Have a running job do something: ``send(caller)``, tried again while its master is being restarted."""
    deadline = time.monotonic() + patience
    while True:
        if (summary := home.summary()) is not None:
            raise Conflict(
                f"job {home.path.name} cannot be {what}: it is over ({summary['phase']}: {summary['reason']})",
                hint="`pliant jobs` lists what runs",
            )
        try:
            with Caller(home) as caller:
                return send(caller)
        except (MasterUnavailable, NotFound) as error:
            if isinstance(error, NotFound) and home.master_file.exists():
                raise  # the master's own word, such as on an unknown role
            gone = not master_is_alive(home) and not launcher_is_alive(home)
            if gone:
                raise Conflict(
                    f"job {home.path.name} cannot be {what}: {INTERRUPTED}",
                    hint="`pliant run --resume` with the same command goes on with it",
                ) from None
            if time.monotonic() > deadline:
                raise MasterUnavailable(
                    f"job {home.path.name} cannot be {what} now: the master is away", hint="try again in a moment"
                ) from None
            time.sleep(ASK_EVERY)


def master_is_alive(home: JobDir) -> bool:
    """By its process number: asking for its lock would be in the way of a master that is just starting."""
    pid = (read_json(home.master_file) or {}).get("pid")
    if not pid:
        return False
    try:
        process = psutil.Process(pid)
        ours = process.create_time() <= home.master_file.stat().st_mtime + SLACK  # else the number was given out anew
        return ours and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False


def launcher_is_alive(home: JobDir) -> bool:
    try:
        return FileLock(home.path / "launcher.lock").is_held()
    except OSError:  # another user's job
        return False


def _status_of(summary: dict[str, Any]) -> pb.JobStatus:
    from google.protobuf.json_format import ParseDict

    status: pb.JobStatus = ParseDict(summary, pb.JobStatus(), ignore_unknown_fields=True)
    return status


def _on_disk(home: JobDir) -> pb.JobStatus:
    try:
        from pliant.master.offline import JobOnDisk

        return JobOnDisk(home).status()
    except PliantError:
        return pb.JobStatus(name=home.path.name, phase="Running")  # not even a journal: it was just being started
