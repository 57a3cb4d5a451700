"""A job on this machine: a running job's master is called, an ended job has a summary, and a job whose master does not
answer is read from its journal.

A master that was killed is back within a second or two as long as its launcher lives, so calls are repeated for
``RETRY_TIMEOUT_S`` before it counts as away.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pliant.core.errors import Conflict, CorruptData, MasterUnavailable, NotFound, PliantError
from pliant.core.job import Phase
from pliant.core.planning.reports import MAX_RECENT, JobExplanation, JobPlans
from pliant.core.series.job_series import JobSeries
from pliant.core.status import JobStatus
from pliant.core.summary import JobSummary
from pliant.files.atomic import read_json
from pliant.files.reserve import disk_problem
from pliant.handles.job_dirs import argument_of
from pliant.handles.job_handle import (
    POLL_INTERVAL_S,
    RETRY_TIMEOUT_S,
    Caller,
    JobHandle,
    JobView,
    LinePrinter,
    Output,
    quiet_roles,
)
from pliant.handles.liveness import launcher_is_alive, master_is_alive
from pliant.handles.orphans import ask_supervisor_to_stop, sweep_if_alone
from pliant.master.job_dir import JobDir
from pliant.master.series_file import read_series
from pliant.rpc.retry import call_with_retry

if TYPE_CHECKING:
    from pliant.core.events import EventRecord
    from pliant.core.shards.shard_map import ShardMap
    from pliant.handles.log_pages import LogMatches, LogPage
    from pliant.rpc.channel import Address

T = TypeVar("T")

AWAY = "the master is unavailable; its launcher is restarting it"
INTERRUPTED = "the job was interrupted: its master is no longer running"


class LocalJob(JobHandle):
    platform = "local"

    def __init__(self, home: JobDir) -> None:
        self.home = home
        self.name = home.name

    @property
    def where(self) -> str:
        return str(self.home.path)

    @property
    def argument(self) -> str:
        return argument_of(self.home)

    @property
    def logs_at(self) -> str:
        return f"logs in {self.home.logs}"

    def identity(self) -> dict[str, Any]:
        return {"job_dir": str(self.home.path)}

    def master(self) -> dict[str, Any]:
        found = read_json(self.home.master_file) or {}
        return {"address": found.get("address", ""), "pid": found.get("pid", 0)}

    def summary(self) -> JobSummary | None:
        """None too if nobody can read it: the journal has the job as well, and one such file must not hide all other jobs."""
        value = self.home.summary()
        with contextlib.suppress(CorruptData):
            return JobSummary.from_json(value) if value is not None else None
        return None

    def is_over(self) -> bool:
        return self.home.summary_file.exists()

    def address(self) -> Address:
        return self.home.address()

    def master_lives(self) -> bool:
        return master_is_alive(self.home)

    def launcher_lives(self) -> bool:
        """Somebody starts the master again."""
        return launcher_is_alive(self.home)

    def view(self, *, retry_timeout: float = RETRY_TIMEOUT_S) -> JobView:
        home = self.home

        def attempt() -> JobView:
            if (summary := self.summary()) is not None:
                return JobView.of_summary(self, summary)
            with Caller(self._master_address()) as caller:
                return JobView(self, caller.status(), master_alive=True)

        def check(error: PliantError) -> None:
            if not (self.master_lives() or self.launcher_lives()):
                raise error  # no process will start it again

        with contextlib.suppress(MasterUnavailable):
            return call_with_retry(attempt, retry_timeout=retry_timeout, on_failure=check, max_pause=POLL_INTERVAL_S)
        alive, launched = self.master_lives(), self.launcher_lives()
        if (summary := self.summary()) is not None:  # it ended after the last attempt
            return JobView.of_summary(self, summary)
        note = (
            self._why_away(home) if launched else "the master is running but does not respond" if alive else INTERRUPTED
        )
        status = _read_journal(home)
        if not alive and not launched and not status.phase.is_final:
            status = replace(status, phase=Phase.INTERRUPTED)
        return JobView(self, status, alive, note, source="the journal")

    @staticmethod
    def _why_away(home: JobDir) -> str:
        problem = disk_problem(home.path)
        return f"waiting for disk space: {problem}; the job continues when space is available" if problem else AWAY

    def command(self, what: str, send: Callable[[Caller], T], *, retry_timeout: float = RETRY_TIMEOUT_S) -> T:
        def attempt() -> T:
            self.refuse_if_over(what)
            with Caller(self._master_address()) as caller:
                return send(caller)

        def check(_: PliantError) -> None:
            if not self.master_lives() and not self.launcher_lives():
                raise Conflict(
                    f"job {self.name} cannot be {what}: {INTERRUPTED}",
                    hint=f"continue it with `pliant resume {self.name}`",
                ) from None

        try:
            return call_with_retry(attempt, retry_timeout=retry_timeout, on_failure=check, max_pause=POLL_INTERVAL_S)
        except MasterUnavailable:
            why = disk_problem(self.home.path) or "the master is away"
            raise MasterUnavailable(
                f"job {self.name} cannot be {what} now: {why}", hint="try again in a moment"
            ) from None

    def _master_address(self) -> Address:
        try:
            return self.address()
        except NotFound as error:  # its master has not been started yet, or is being started again
            raise MasterUnavailable(error.message) from None

    def stop(self, *, now: bool, reason: str, deadline: float) -> JobSummary:
        summary = self.summary() or sweep_if_alone(self.home, now)
        if summary is not None:
            return summary
        try:
            self._ask_to_stop(now, reason)
        except MasterUnavailable:
            if not ask_supervisor_to_stop(self.home, now):
                raise
            return self._wait_without_master(deadline, now)
        return self._wait_until_over(deadline, now=now, poll_interval=POLL_INTERVAL_S)

    def _wait_without_master(self, deadline: float, now: bool) -> JobSummary:
        """Its supervisor stops it, on a full disk perhaps without a summary."""
        while self.launcher_lives() and self.summary() is None and time.monotonic() < deadline:
            time.sleep(POLL_INTERVAL_S)
        if self.launcher_lives():
            return self._wait_until_over(deadline, now=now, poll_interval=POLL_INTERVAL_S)
        problem = disk_problem(self.home.path)
        why = f"stopped; not recorded: {problem}" if problem else "stopped; not recorded"
        return self.summary() or JobSummary(JobStatus(self.name, Phase.INTERRUPTED, why))

    def events(self, after: int, limit: int) -> list[EventRecord]:
        """From the journal, which can be read while the master writes."""
        from pliant.master.journal.store import read_events

        return read_events(self.home.journal, after=after, limit=limit) if self.home.journal.exists() else []

    def nodes_with_output(self) -> list[str]:
        return [path.stem for path in sorted(self.home.logs.glob("*.log")) if path.stem != "agents"]

    def output(
        self,
        printer: LinePrinter,
        *,
        nodes: frozenset[str] | None,
        tail: int | None,
        follow: bool,
        with_servers: bool = False,
    ) -> Output:
        from pliant.handles.program_output import OutputTail

        hidden = quiet_roles(self._strategy(), with_servers=with_servers)
        shown = OutputTail(self.home.logs, printer, nodes=nodes, hidden_roles=hidden)
        if tail is not None:
            shown.skip_to_last(tail)
        return shown

    def log_page(self, node: str, *, after: str = "", before: str = "", lines: int = 500) -> LogPage:
        from pliant.handles.log_pages import read_page

        self._check_has_output(node)
        path = self.home.log_of(node)
        return read_page(path, node, after=after, before=before, lines=lines, is_final=self.is_over())

    def search_logs(self, text: str, *, node: str = "") -> LogMatches:
        from pliant.handles.log_pages import search_files

        if node:
            self._check_has_output(node)
        nodes = [node] if node else [name for name in self.nodes_with_output() if name != "master"]
        return search_files([(name, self.home.log_of(name)) for name in nodes], text)

    def _check_has_output(self, node: str) -> None:
        """Its name becomes a path only if it is one of those that are there."""
        if node not in self.nodes_with_output():
            raise NotFound(f"job {self.name} has no log for {node[:100]!r}")

    def written_spec(self) -> dict[str, Any]:
        from pliant.spec.text import read, read_file

        found = read(read_file(self.home.spec), str(self.home.spec))
        return found if isinstance(found, dict) else {}

    def created_at(self) -> float:
        try:
            return self.home.spec.stat().st_mtime
        except OSError:
            return 0.0

    def shard_maps(self) -> tuple[ShardMap, ...]:
        """Of a job without a master, as its journal has them."""
        try:
            if not self.is_over():
                return super().shard_maps()
        except (Conflict, MasterUnavailable):
            pass
        from pliant.core.shards.shard_map import shard_maps
        from pliant.master.offline import JobOnDisk

        book = JobOnDisk(self.home).state.shards
        return shard_maps(book) if book is not None else ()

    def _strategy(self) -> str:
        from pliant.spec import load_spec

        try:
            return load_spec(self.home.spec).strategy
        except PliantError:
            return ""  # a job without a readable spec: all of its output is shown

    def audit(self) -> dict[str, Any]:
        from pliant.master.offline import audit_of

        return audit_of(self.home).to_json()

    def plans(self) -> JobPlans:
        """While there is no master, those of the journal."""
        try:
            return super().plans()
        except (Conflict, MasterUnavailable):
            if self.is_over():  # it has ended just now
                return super().plans()
            return self._journaled_plans()

    def explain(self) -> JobExplanation:
        try:
            return super().explain()
        except (Conflict, MasterUnavailable):
            if self.is_over():
                return super().explain()
            found = self._journaled_plans()
            return JobExplanation(found.name, found.planner, plans=found.plans[-MAX_RECENT:], note=found.note)

    def _journaled_plans(self) -> JobPlans:
        from pliant.master.explanation import plans_of
        from pliant.master.offline import JobOnDisk

        job = JobOnDisk(self.home)
        is_launched = self.launcher_lives()
        note = self._why_away(self.home) if is_launched else INTERRUPTED
        return plans_of(self.name, job.state, f"{note}; shown from the journal")

    def series(self, *, since: float = 0.0, max_points: int = 0) -> JobSeries:
        """While there is no master, those of its file."""
        try:
            return super().series(since=since, max_points=max_points)
        except (Conflict, MasterUnavailable):
            found = self._last_series().since(since).thinned(max_points)
            if self.is_over():  # it has ended just now
                return found
            note = self._why_away(self.home) if self.launcher_lives() else INTERRUPTED
            return replace(found, note=f"{note}; shown as it was written last")

    def _last_series(self) -> JobSeries:
        return read_series(self.home.series_file) or JobSeries(self.name)

    def is_removable(self) -> bool:
        return self.is_over() and not self.launcher_lives()

    def remove(self) -> None:
        native = read_json(self.home.path / "native.json") or {}
        if native.get("task") == "predict":  # what it would have merged, had it been resumed
            from pliant.native.prediction.outputs import parts_folder

            shutil.rmtree(parts_folder(Path(native["output"]), self.name), ignore_errors=True)
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
        return JobStatus(home.name, Phase.RUNNING)  # not even a journal: it was just being started
