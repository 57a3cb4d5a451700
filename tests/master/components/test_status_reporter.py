"""What a master tells its platform of a job that ends: the end comes last, with the summary, and nothing after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from pliant.core.changes import ChangeRequest
from pliant.core.errors import MasterUnavailable, NotAvailable, PliantError
from pliant.core.job import JobBook
from pliant.core.job_state import JobState
from pliant.core.shards.book import ShardBook
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


class StrictChannel(SlowChannel):
    """Does not answer before it is allowed to."""

    def __init__(self) -> None:
        super().__init__()
        self.datasets: list[tuple[str, ...]] = []
        self.problem: PliantError | None = None

    async def report(self, status: JobStatus) -> None:
        if self.problem is not None:
            raise self.problem
        self.datasets.append(status.journaled_datasets)


def a_state(*datasets: str) -> JobState:
    shards = ShardBook()
    for name in datasets:
        shards.create(0.0, dataset={"name": name, "size": 9, "shard_size": 3})
    shards.create(0.0, dataset={"name": "train-end", "size": 1, "shard_size": 1, "type": "train_end"})
    return JobState(job=JobBook(), shards=shards)


def test_a_dataset_is_known_to_the_platform_before_whoever_created_it_is_answered() -> None:
    async def publish() -> list[tuple[str, ...]]:
        channel, state = StrictChannel(), a_state("train")
        reporter = StatusReporter(channel, lambda: build_status("job", state, 1.0), journal_can_be_lost=True)
        channel.problem = NotAvailable("no API server")
        with pytest.raises(MasterUnavailable, match="no API server"):
            await reporter.publish_datasets()
        channel.problem = None
        await reporter.publish_datasets()
        await reporter.publish_datasets()
        return channel.datasets

    assert asyncio.run(publish()) == [("train",)], "once, and without the shard that only the end of training takes"


def test_a_journal_that_cannot_be_lost_costs_no_report() -> None:
    async def publish() -> list[tuple[str, ...]]:
        channel, state = StrictChannel(), a_state("train")
        await StatusReporter(channel, lambda: build_status("job", state, 1.0)).publish_datasets()
        return channel.datasets

    assert asyncio.run(publish()) == []
