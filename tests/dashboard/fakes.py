"""A handle of a job that does not exist: what it returns is set by the test, and its calls are counted."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from pliant.core.errors import NotFound
from pliant.core.events import EventRecord
from pliant.core.job import Phase
from pliant.core.planning.reports import JobExplanation, JobPlans
from pliant.core.series.job_series import JobSeries
from pliant.core.shards.shard_map import ShardMap
from pliant.core.status import JobStatus
from pliant.core.summary import JobSummary
from pliant.dashboard.watching.job_source import JobSource
from pliant.handles.job_handle import JobHandle, JobView, LinePrinter, Output, RoleChange, RoleChanged
from pliant.handles.log_pages import LogMatches, LogPage
from pliant.rpc.channel import Address


class FakeJob(JobHandle):
    platform = "local"

    def __init__(self, name: str = "mine", status: JobStatus | None = None) -> None:
        self.name = name
        self.status = status or JobStatus(name, Phase.RUNNING, started_at=1.0, time=2.0)
        self.recorded: list[EventRecord] = []
        self.views = 0
        self.calls: list[tuple[str, Any]] = []
        self.blocked: threading.Event | None = None  # views wait for it
        self.error: Exception | None = None
        self.ended: JobSummary | None = None
        self.spec: dict[str, Any] = {"name": name}
        self.lines: dict[str, LogPage] = {}

    where = "here"
    logs_at = "logs there"

    def identity(self) -> dict[str, Any]:
        return {"job_dir": "/nowhere"}

    def master(self) -> dict[str, Any]:
        return {"address": "", "pid": 0}

    def summary(self) -> JobSummary | None:
        return self.ended

    def view(self, *, retry_timeout: float = 0.0) -> JobView:
        self.views += 1
        if self.blocked is not None:
            self.blocked.wait()
        if self.error is not None:
            raise self.error
        if self.ended is not None:
            return JobView.of_summary(self, self.ended)
        return JobView(self, self.status, master_alive=True)

    def address(self) -> Address:
        raise NotFound("none")

    def command(self, what: str, send: Any, *, retry_timeout: float = 0.0) -> Any:
        raise NotImplementedError

    def scale(self, wanted: Sequence[RoleChange], reason: str) -> list[RoleChanged]:
        self.calls.append(("scale", (wanted, reason)))
        return [RoleChanged(1, wanted[0].replicas or 0)]

    def stop(self, *, now: bool, reason: str, deadline: float) -> JobSummary:
        self.calls.append(("stop", now))
        return JobSummary(self.status)

    def events(self, after: int, limit: int) -> list[EventRecord]:
        return [record for record in self.recorded if record.number > after][:limit]

    def plans(self) -> JobPlans:
        return JobPlans(self.name)

    def explain(self) -> JobExplanation:
        return JobExplanation(self.name)

    def series(self, *, since: float = 0.0, max_points: int = 0) -> JobSeries:
        return JobSeries(self.name)

    def _last_series(self) -> JobSeries:
        return JobSeries(self.name)

    def shard_maps(self) -> tuple[ShardMap, ...]:
        return ()

    def nodes_with_output(self) -> list[str]:
        return list(self.lines)

    def output(
        self,
        printer: LinePrinter,
        *,
        nodes: frozenset[str] | None,
        tail: int | None,
        follow: bool,
        with_servers: bool = False,
    ) -> Output:
        raise NotImplementedError

    def log_page(self, node: str, *, after: str = "", before: str = "", lines: int = 500) -> LogPage:
        if node not in self.lines:
            raise NotFound(f"no log for {node}")
        return self.lines[node]

    def search_logs(self, text: str, *, node: str = "") -> LogMatches:
        return LogMatches()

    def written_spec(self) -> dict[str, Any]:
        return self.spec

    def created_at(self) -> float:
        return 1.0

    def audit(self) -> dict[str, Any]:
        return {}

    def remove(self) -> None:
        return


class FakeSource(JobSource):
    platform, where = "local", "this machine"

    def __init__(self, *jobs: FakeJob) -> None:
        self.jobs = {job.name: job for job in jobs}
        self.lists = 0

    def handles(self) -> dict[str, JobHandle]:
        self.lists += 1
        return dict(self.jobs)
