"""A job on this machine: a running job's master is called, an ended job has a summary, and a job whose master does not
answer is read from its journal.

A master that was killed is back within a second or two as long as its launcher lives, so calls are repeated for
``RETRY_TIMEOUT_S`` before it counts as away.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from pliant.cli.handles.job_handle import (
    POLL_INTERVAL_S,
    RETRY_TIMEOUT_S,
    Caller,
    JobHandle,
    JobView,
    Output,
)
from pliant.cli.handles.liveness import launcher_is_alive, master_is_alive
from pliant.cli.handles.orphans import sweep_if_alone
from pliant.core.errors import Conflict, MasterUnavailable, NotFound, PliantError
from pliant.core.job import Phase
from pliant.core.status import JobStatus
from pliant.core.summary import JobSummary
from pliant.files.atomic import read_json
from pliant.master.job_dir import JobDir
from pliant.rpc.retry import call_with_retry

if TYPE_CHECKING:
    from rich.console import Console

    from pliant.core.events import EventRecord
    from pliant.rpc.channel import Address

T = TypeVar("T")

AWAY = "the master is away; its launcher is starting it again"
INTERRUPTED = "the job was interrupted: no process of its master is left"


class LocalJob(JobHandle):
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

    def summary(self) -> JobSummary | None:
        value = self.home.summary()
        return JobSummary.from_json(value) if value is not None else None

    def is_over(self) -> bool:
        return self.home.summary_file.exists()

    def address(self) -> Address:
        return self.home.address()

    def view(self, *, retry_timeout: float = RETRY_TIMEOUT_S) -> JobView:
        home = self.home

        def attempt() -> JobView:
            if (summary := self.summary()) is not None:
                return JobView.of_summary(self, summary)
            with Caller(self._master_address()) as caller:
                return JobView(self, caller.status(), master_alive=True)

        def check(error: PliantError) -> None:
            if not (master_is_alive(home) or launcher_is_alive(home)):
                raise error  # no process will start it again

        with contextlib.suppress(MasterUnavailable):
            return call_with_retry(attempt, retry_timeout=retry_timeout, on_failure=check, max_pause=POLL_INTERVAL_S)
        alive, launched = master_is_alive(home), launcher_is_alive(home)
        if (summary := self.summary()) is not None:  # it ended after the last attempt
            return JobView.of_summary(self, summary)
        note = AWAY if launched else "the master runs and does not answer" if alive else INTERRUPTED
        status = _read_journal(home)
        if not alive and not launched and not status.phase.is_final:
            status = replace(status, phase=Phase.INTERRUPTED)
        return JobView(self, status, alive, note, source="its journal")

    def command(self, what: str, send: Callable[[Caller], T], *, retry_timeout: float = RETRY_TIMEOUT_S) -> T:
        def attempt() -> T:
            self.refuse_if_over(what)
            with Caller(self._master_address()) as caller:
                return send(caller)

        def check(_: PliantError) -> None:
            if not master_is_alive(self.home) and not launcher_is_alive(self.home):
                raise Conflict(
                    f"job {self.name} cannot be {what}: {INTERRUPTED}",
                    hint="`pliant run --resume` with the same command continues it",
                ) from None

        try:
            return call_with_retry(attempt, retry_timeout=retry_timeout, on_failure=check, max_pause=POLL_INTERVAL_S)
        except MasterUnavailable:
            raise MasterUnavailable(
                f"job {self.name} cannot be {what} now: the master is away", hint="try again in a moment"
            ) from None

    def _master_address(self) -> Address:
        try:
            return self.home.address()
        except NotFound as error:  # its master has not been started yet, or is being started again
            raise MasterUnavailable(error.message) from None

    def stop(self, *, now: bool, reason: str, deadline: float) -> JobSummary:
        summary = self.summary() or sweep_if_alone(self.home, now)
        if summary is not None:
            return summary
        self._ask_to_stop(now, reason)
        return self._wait_until_over(deadline, now=now, poll_interval=POLL_INTERVAL_S)

    def events(self, after: int, limit: int) -> list[EventRecord]:
        """From the journal, which can be read while the master writes."""
        from pliant.master.journal.store import read_events

        return read_events(self.home.journal, after=after, limit=limit) if self.home.journal.exists() else []

    def nodes_with_output(self) -> list[str]:
        return [path.stem for path in sorted(self.home.logs.glob("*.log")) if path.stem != "agents"]

    def output(self, console: Console, *, nodes: frozenset[str] | None, tail: int | None, follow: bool) -> Output:
        from pliant.cli.handles.program_output import OutputTail  # rich takes its time

        shown = OutputTail(self.home.logs, console, nodes=nodes)
        if tail is not None:
            shown.skip_to_last(tail)
        return shown

    def audit(self) -> dict[str, Any]:
        from pliant.master.offline import audit_of

        return audit_of(self.home).to_json()

    def is_removable(self) -> bool:
        return self.is_over() and not launcher_is_alive(self.home)

    def remove(self) -> None:
        shutil.rmtree(self.home.path)

    def _ask_to_stop(self, now: bool, reason: str) -> None:
        from pliant.rpc import pliant_pb2 as pb

        request = pb.StopRequest(reason=reason, at_once=now)
        try:
            self.command("stopped", lambda caller: caller.call(caller.stubs.Stop, request))
        except Conflict:
            if not self.is_over():  # else it ended by itself just now
                raise


def _read_journal(home: JobDir) -> JobStatus:
    from pliant.master.offline import JobOnDisk

    try:
        return JobOnDisk(home).status()
    except PliantError:
        return JobStatus(home.path.name, Phase.RUNNING)  # not even a journal: it was just being started
