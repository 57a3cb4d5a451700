"""What a master tells its platform of a job that ends: the end comes last, with the summary, and nothing after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pliant.core.job import JobBook
from pliant.master import report
from pliant.master.components import Components
from pliant.master.report import Reporter
from pliant.master.stats import MemoryStats
from pliant.platforms.base import Desk, JobReport, Wish
from pliant.testing import ManualClock


class SlowDesk(Desk):
    """Takes its time with every report; keeps what was told, in the order in which it was done."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.heard = asyncio.Event()

    def wishes(self) -> AsyncIterator[Wish]:
        raise NotImplementedError

    async def answer(self, wish: Wish, refusal: str) -> None:
        raise NotImplementedError

    async def report(self, report: JobReport) -> None:
        self.heard.set()
        await asyncio.sleep(0.01)
        self.told.append(report.phase)

    async def finish(self, report: JobReport, summary: Mapping[str, Any]) -> None:
        self.told.append(f"{report.phase} with {summary['phase']}")


def test_a_job_that_is_over_runs_until_its_summary_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "EVERY", 0.0)
    monkeypatch.setattr(report, "AGAIN", 0.0)

    async def end() -> list[str]:
        clock, job = ManualClock(1.0), JobBook()
        job.master_started(1.0)
        job.end(2.0, phase="Succeeded", reason="all done")
        parts = SimpleNamespace(job=job, nodes=None, shards=None, stats=MemoryStats(clock), clock=clock)
        desk = SlowDesk()
        reporter = Reporter(cast(Components, parts), desk, lambda: "")
        telling = asyncio.create_task(reporter.run())
        await desk.heard.wait()
        await reporter.finish({"phase": "Succeeded"})
        await telling
        return desk.told

    told = asyncio.run(end())
    assert told[-1] == "Succeeded with Succeeded"
    assert set(told[:-1]) == {"Running"}
