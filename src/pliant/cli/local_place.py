"""A job on this machine: a running job's master is asked, an ended job left its summary, and a job whose master does not
answer is read from its journal.

A master that was killed is back within a second or two as long as its launcher lives, so it is given ``PATIENCE`` before it
counts as away.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import psutil

from pliant.cli.places import ASK_EVERY, PATIENCE, Caller, Output, Place, Sight, status_of
from pliant.core.errors import Conflict, MasterUnavailable, NotFound, PliantError
from pliant.master.job_dir import JobDir
from pliant.platforms.durable_files import FileLock, read_json

if TYPE_CHECKING:
    from rich.console import Console

    from pliant.master.journal_store import EventRecord
    from pliant.rpc import pliant_pb2 as pb
    from pliant.rpc.channel import Address

T = TypeVar("T")
SLACK = 2.0  # seconds between the clocks of a file system and of the process table

AWAY = "the master is away; its launcher is starting it again"
INTERRUPTED = "the job was interrupted: no process of its master is left"


class LocalPlace(Place):
    def __init__(self, home: JobDir) -> None:
        self.home = home
        self.name = home.path.name

    @property
    def where(self) -> str:
        return str(self.home.path)

    @property
    def logs_at(self) -> str:
        return f"logs in {self.home.logs}"

    def identity(self) -> dict[str, Any]:
        return {"job_dir": str(self.home.path)}

    def master(self) -> dict[str, Any]:
        found = read_json(self.home.master_file) or {}
        return {"address": found.get("address", ""), "pid": found.get("pid", 0)}

    def summary(self) -> dict[str, Any] | None:
        return self.home.summary()

    def over(self) -> bool:
        return self.home.summary_file.exists()

    def address(self) -> Address:
        return self.home.address()

    def look(self, *, patience: float = PATIENCE) -> Sight:
        home = self.home
        deadline = time.monotonic() + patience
        while True:
            if (summary := home.summary()) is not None:
                return Sight(self, status_of(summary), summary=summary)
            try:
                with Caller(home.address()) as caller:
                    return Sight(self, caller.status(), master_alive=True)
            except (MasterUnavailable, NotFound):
                alive, launched = master_is_alive(home), launcher_is_alive(home)
            if not (alive or launched) or time.monotonic() > deadline:
                break
            time.sleep(ASK_EVERY)
        if (summary := home.summary()) is not None:  # it ended between the two looks
            return Sight(self, status_of(summary), summary=summary)
        note = AWAY if launched else "the master runs and does not answer" if alive else INTERRUPTED
        interrupted = not alive and not launched
        return Sight(self, _on_disk(home), alive, note, source="its journal", interrupted=interrupted)

    def command(self, what: str, send: Callable[[Caller], T], *, patience: float = PATIENCE) -> T:
        deadline = time.monotonic() + patience
        while True:
            self.refuse_if_over(what)
            try:
                with Caller(self.home.address()) as caller:
                    return send(caller)
            except (MasterUnavailable, NotFound) as error:
                if isinstance(error, NotFound) and self.home.master_file.exists():
                    raise  # the master's own word, such as on an unknown role
                if not master_is_alive(self.home) and not launcher_is_alive(self.home):
                    raise Conflict(
                        f"job {self.name} cannot be {what}: {INTERRUPTED}",
                        hint="`pliant run --resume` with the same command goes on with it",
                    ) from None
                if time.monotonic() > deadline:
                    raise MasterUnavailable(
                        f"job {self.name} cannot be {what} now: the master is away", hint="try again in a moment"
                    ) from None
                time.sleep(ASK_EVERY)

    def stop(self, *, now: bool, reason: str, deadline: float) -> dict[str, Any]:
        from pliant.cli.sweeping import sweep_if_alone

        summary = self.summary() or sweep_if_alone(self.home, now)
        if summary is not None:
            return summary
        self._ask_to_stop(now, reason)
        return self._wait_for_the_end(deadline, now=now, every=ASK_EVERY)

    def events(self, after: int, limit: int) -> list[EventRecord]:
        """From the journal, which lets readers in while the master writes."""
        from pliant.master.journal_store import read_events

        return read_events(self.home.journal, after=after, limit=limit) if self.home.journal.exists() else []

    def has_output_of(self) -> list[str]:
        return [path.stem for path in sorted(self.home.logs.glob("*.log")) if path.stem != "agents"]

    def output(self, console: Console, *, nodes: frozenset[str] | None, tail: int | None, follow: bool) -> Output:
        from pliant.cli.output import OutputTail

        shown = OutputTail(self.home.logs, console, nodes=nodes)
        if tail is not None:
            shown.skip_to_last(tail)
        return shown

    def audit(self) -> dict[str, Any]:
        from pliant.master.offline import audit_of

        return audit_of(self.home)

    def removable(self) -> bool:
        return self.over() and not launcher_is_alive(self.home)

    def remove(self) -> None:
        shutil.rmtree(self.home.path)

    def _ask_to_stop(self, now: bool, reason: str) -> None:
        from pliant.rpc import pliant_pb2 as pb

        request = pb.StopRequest(reason=reason, at_once=now)
        try:
            self.command("stopped", lambda caller: caller.call(caller.stubs.Stop, request))
        except Conflict:
            if not self.over():  # else it ended by itself at this moment, which is as well
                raise


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


def _on_disk(home: JobDir) -> pb.JobStatus:
    try:
        from pliant.master.offline import JobOnDisk

        return JobOnDisk(home).status()
    except PliantError:
        from pliant.rpc import pliant_pb2 as pb

        return pb.JobStatus(name=home.path.name, phase="Running")  # not even a journal: it was just being started
