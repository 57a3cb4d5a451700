"""The link to the Brain over a real connection: what is refused, late or of another master keeps nobody from reporting on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.brain.store.reporting import DESCRIPTION

from pliant.brain.store import jobs
from pliant.brain.store.database import Database
from pliant.core.job import JobBook, Phase
from pliant.core.job_state import JobState
from pliant.core.planning.cluster.report import JobIdentity
from pliant.master.components.planning import brain_link
from pliant.master.components.planning.brain_link import BrainLink
from pliant.master.components.planning.report_builder import ReportBuilder
from pliant.master.components.stats import MemoryStats
from pliant.master.journal.journal import Journal
from pliant.master.journal.store import SqliteStore
from pliant.rpc.brain.channel import AsyncBrainClient
from pliant.testing.brain import RunningBrain

JOB = JobIdentity("local", "train", "uid-1")


class ShiftedClock:
    def __init__(self) -> None:
        self.shift = 0.0

    def now(self) -> float:
        return time.time() + self.shift


@pytest.fixture
def brain(tmp_path: Path) -> Iterator[RunningBrain]:
    with RunningBrain(tmp_path / "brain") as found:
        yield found


@asynccontextmanager
async def linked(
    brain: RunningBrain, folder: Path, clock: ShiftedClock, session: int = 1, fallback_s: float = 60.0
) -> AsyncIterator[BrainLink]:
    state = JobState(job=JobBook())
    store = SqliteStore(folder / f"journal-{session}.db")
    store.load()
    journal = Journal(store, clock, state)
    reports = ReportBuilder(JOB, DESCRIPTION, state, MemoryStats(clock, state), clock, None, session=session)
    client = AsyncBrainClient(brain.access("train"))
    link = BrainLink(
        *(client, JOB, reports, journal, clock),
        phase=lambda: Phase.RUNNING.value,
        interval_s=0.05,
        fallback_s=fallback_s,
    )
    await link.start()
    try:
        yield link
    finally:
        await link.stop()
        await journal.close()


async def until_led(link: BrainLink) -> None:
    async with asyncio.timeout(60):
        while not link.is_leading:
            await asyncio.sleep(0.02)


async def until_refused(caplog: pytest.LogCaptureFixture, text: str) -> None:
    async with asyncio.timeout(60):
        while text not in caplog.text:
            await asyncio.sleep(0.02)


def test_a_report_that_was_refused_does_not_keep_later_ones_from_being_sent(
    brain: RunningBrain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As one of more than an hour ago, when the Brain went away: it looks like one of a wrong clock."""
    monkeypatch.setattr(brain_link, "REFUSED_S", 0.1)
    clock = ShiftedClock()
    clock.shift = -4000.0

    async def scenario() -> None:
        async with linked(brain, tmp_path, clock) as link:
            await until_refused(caplog, "clock is wrong")
            clock.shift = 0.0
            await until_led(link)

    asyncio.run(scenario())
    [stored] = jobs.running_jobs(Database(brain.settings.url))
    assert stored.identity == JOB


def test_a_report_that_was_not_answered_for_long_is_made_anew_and_not_refused(
    brain: RunningBrain, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ShiftedClock()
    clock.shift = -4000.0
    brain.stop()

    async def scenario() -> None:
        async with linked(brain, tmp_path, clock) as link:
            await until_refused(caplog, "cannot report to the Brain")
            clock.shift = 0.0
            await asyncio.to_thread(brain.start)
            await until_led(link)

    with caplog.at_level("INFO"):
        asyncio.run(scenario())
    assert "clock is wrong" not in caplog.text


def test_a_master_whose_reports_the_brain_ignores_does_not_believe_that_it_leads(
    brain: RunningBrain, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A later master of the job has reported: this one was replaced, or the journal was lost."""
    clock = ShiftedClock()

    async def scenario() -> None:
        async with linked(brain, tmp_path, clock, session=2) as later:
            await until_led(later)
        async with linked(brain, tmp_path, clock, session=1, fallback_s=1.0) as former:
            await until_refused(caplog, "two masters run")
            async with asyncio.timeout(60):
                while former.is_leading:
                    await asyncio.sleep(0.02)

    asyncio.run(scenario())
