"""A thousand nodes and ten thousand events: only what is visible is made, and every one can be reached."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.dashboard.conftest import Open

from pliant.dashboard.report.page import page as report_page
from pliant.testing.large_job import large_job

pytestmark = pytest.mark.e2e

MAX_ROWS = 80  # those of a screen, and some beyond it
ROWS = ".rows-body .row"


def test_a_thousand_nodes_and_ten_thousand_events_make_few_elements_and_all_can_be_reached(
    tmp_path: Path, tab: Open
) -> None:
    report = tmp_path / "large.html"
    report.write_text(report_page(large_job(nodes=1000, events=10_000), "large"))
    large = tab(viewport={"width": 1280, "height": 800})
    page = large.page
    page.goto(report.as_uri())

    page.get_by_role("tab", name="Nodes").click()
    large.see("1,000 lines of nodes", ".timeline")
    rows = page.locator(".lanes")
    assert rows.get_attribute("aria-rowcount") == "1001"
    assert 5 < page.locator(ROWS).count() < MAX_ROWS
    rows.press("End")
    large.until(
        "document.querySelector('.lanes .row.chosen')?.getAttribute('aria-rowindex') === '1001'", "the last line"
    )
    assert page.locator(ROWS).count() < MAX_ROWS
    page.get_by_role("button", name="With failures").click()
    page.get_by_placeholder("Node, host, state").fill("worker-7")
    large.until(f"document.querySelectorAll('{ROWS}').length > 0", "lines that match")

    page.get_by_role("tab", name="Events").click()
    events = page.locator(".event-rows")
    assert events.get_attribute("aria-rowcount") == "10001"
    assert 5 < page.locator(ROWS).count() < MAX_ROWS
    large.until(
        "document.querySelector('.event-rows [aria-rowindex=\"10001\"]') !== null", "the newest event, at first"
    )
    events.press("Home")
    large.until(
        "document.querySelector('.event-rows .row.chosen')?.textContent.includes('the master started')", "the first"
    )
    page.get_by_placeholder("Kind, node, words").fill("preempted ended")
    large.until("Number(document.querySelector('.event-rows').getAttribute('aria-rowcount')) < 5000", "the filter")
