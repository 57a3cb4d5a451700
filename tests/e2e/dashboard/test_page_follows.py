"""The page follows a real job while workers, its master and its own connection are taken away."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from tests.e2e.dashboard.conftest import Dashboard, Open

from pliant.testing.reading import ReadingJob

pytestmark = pytest.mark.e2e

TRAIN = {"train": {"size": 600, "shard_size": 3, "shuffle": True}}  # enough for every worker, whoever prefetches
FIRST_CELLS = ".event-rows .rows-body .row > :first-child"
NUMBERS = f"[...document.querySelectorAll('{FIRST_CELLS}')].map(cell => Number(cell.textContent.replace(/,/g, '')))"


def test_a_running_job_is_followed_while_a_worker_and_its_master_are_killed(tmp_path: Path, tab: Open) -> None:
    with ReadingJob(tmp_path, TRAIN, workers=2, gated=True, name="watched") as job, Dashboard(tmp_path) as dashboard:
        job.wait_until_all_work(2)
        page = tab(dashboard)
        page.see("watched", ".jobs")
        page.see("Running", ".jobs")
        page.page.get_by_role("link", name="watched").click()
        page.see("2 / 2", ".tiles")

        page.page.get_by_role("tab", name="Nodes").click()
        page.see("worker-0", ".lanes")
        agent = job.kill_agent("worker-0")
        page.until(
            "[...document.querySelectorAll('.lanes .end text')].some(t => t.textContent === 'Killed')", "the reason"
        )
        page.see(re.compile(r"worker-2"), ".lanes")
        assert agent not in {process.pid for process in job.processes()}

        starts = job.wait_for(lambda status: status.master_starts, "the master")
        job.kill_master()
        assert page.page.locator(".lanes").is_visible(), "what was known stays"
        job.wait_for(lambda status: status.master_starts > starts, "the next master")
        page.page.get_by_role("tab", name="Events").click()
        page.see("the master restarted (start 2)", ".event-rows")

        page.page.get_by_role("tab", name="Data").click()
        page.until("document.querySelector('.shard-map canvas')?.width > 0", "the map of shards")
        job.open_gate()
        page.see("Succeeded", ".job-head")
        page.see("100", "[role=tabpanel] .progress")
        assert job.wait() == 0


def test_a_lost_connection_is_said_and_nothing_is_missed_or_repeated(tmp_path: Path, tab: Open) -> None:
    with ReadingJob(tmp_path, TRAIN, workers=2, gated=True) as job, Dashboard(tmp_path) as dashboard:
        job.wait_until_all_work(2)
        page = tab(dashboard, viewport={"width": 1280, "height": 4000})  # all rows are seen
        page.open(dashboard, "jobs/job/events")
        page.see("launched worker-0", ".event-rows")
        page.see(re.compile("^Live$"), ".live")
        dashboard.process.send_signal(signal.SIGSTOP)
        try:
            job.kill_program("worker-1")
            page.see(re.compile("Not live"), ".live")
            page.see("launched worker-0", ".event-rows")
        finally:
            dashboard.process.send_signal(signal.SIGCONT)
        page.see(re.compile("^Live$"), ".live")
        page.see(re.compile("the program of worker-1 exited"), ".event-rows")
        numbers = page.page.evaluate(NUMBERS)
        assert numbers == list(range(1, len(numbers) + 1))
        job.open_gate()
        assert job.wait() == 0


def test_a_job_is_scaled_and_stopped_where_that_is_allowed_and_only_there(tmp_path: Path, tab: Open) -> None:
    with ReadingJob(tmp_path, TRAIN, workers="1:3", gated=True) as job:
        job.wait_until_all_work(3)
        with Dashboard(tmp_path) as dashboard:
            page = tab(dashboard)
            page.open(dashboard, "jobs/job/overview")
            page.see("Running", ".job-head")
            assert page.page.get_by_role("button", name="Stop…").count() == 0
        with Dashboard(tmp_path, "--allow-control") as dashboard:
            page = tab(dashboard)
            page.open(dashboard, "jobs/job/overview")
            page.page.get_by_role("button", name="Scale…").click()
            page.page.locator("dialog").wait_for()
            page.page.get_by_label("Number of nodes").fill("9")
            page.page.keyboard.press("Enter")
            assert page.page.locator("dialog").is_visible(), "the field says that 3 are the most"
            page.page.get_by_label("Number of nodes").fill("2")
            page.page.keyboard.press("Enter")
            page.see("2 / 2", ".tiles")
            page.until("!document.querySelector('dialog')", "the answer to the question")
            page.page.get_by_role("button", name="Stop…").click()
            page.page.locator("dialog").wait_for()
            page.page.keyboard.press("Escape")
            page.until("!document.querySelector('dialog')", "the end of the question")
            page.page.get_by_role("button", name="Stop…").click()
            page.page.get_by_role("button", name="Stop the job").click()
            page.see("Stopped", ".job-head")
            assert page.page.get_by_role("button", name="Stop…").count() == 0
        assert job.wait() == 130
