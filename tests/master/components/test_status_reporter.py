"""What a master tells its platform of a job that ends: the end comes last, with the summary, and nothing after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from pliant.core.changes import ChangeRequest
from pliant.core.job import JobBook
from pliant.core.job_state import JobState
from pliant.core.status import JobStatus
from pliant.core.status_builder import build_status
from pliant.master.components import status_reporter as report
from pliant.master.components.status_reporter import StatusReporter
from pliant.platforms.base import ControlChannel
from pliant.testing import ManualClock


class SlowChannel(ControlChannel):
    """Takes its time with every report; keeps the reports in the order in which they arrived."""

    def __init__(self) -> None:
        self.reports: list[str] = []
        self.heard = asyncio.Event()

    def requests(self) -> AsyncIterator[ChangeRequest]:
        raise NotImplementedError

    async def answer(self, request: ChangeRequest, refusal: str) -> None:
        raise NotImplementedError

    async def report(self, status: JobStatus) -> None:
        self.heard.set()
        await asyncio.sleep(0)  # others run before it is done
        self.reports.append(status.phase)

    async def finish(self, status: JobStatus, summary: Mapping[str, Any]) -> None:
        self.reports.append(f"{status.phase} with {summary['phase']}")


def test_a_job_that_is_over_runs_until_its_summary_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "REPORT_INTERVAL_S", 0.0)
    monkeypatch.setattr(report, "REPEAT_AFTER_S", 0.0)

    async def end() -> list[str]:
        clock, job = ManualClock(1.0), JobBook()
        job.master_started(1.0)
        job.end(2.0, phase="Succeeded", reason="all done")
        state = JobState(job=job)
        channel = SlowChannel()
        reporter = StatusReporter(channel, lambda: build_status("job", state, clock.now()))
        telling = asyncio.create_task(reporter.run())
        await channel.heard.wait()
        await reporter.finish({"phase": "Succeeded"})
        await telling
        return channel.reports

    reports = asyncio.run(end())
    assert reports[-1] == "Succeeded with Succeeded"
    assert set(reports[:-1]) == {"Running"}
