"""The page by keyboard, on a phone and in the dark, over one job that has ended."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.dashboard.conftest import Dashboard, Open

from pliant.dashboard.report.page import page as report_page
from pliant.testing.large_job import large_job

pytestmark = pytest.mark.e2e

TABS = ("Overview", "Nodes", "Data", "Decisions", "Events", "Logs", "Spec")
CHOSEN = "document.querySelector('[role=tab][aria-selected=true]').textContent"


@pytest.fixture
def report(tmp_path: Path) -> str:
    path = tmp_path / "report.html"
    path.write_text(report_page(large_job(nodes=12, events=300), "small"))
    return path.as_uri()


def test_tabs_go_by_arrow_keys_and_the_slash_goes_to_the_filter(report: str, tab: Open) -> None:
    keys = tab()
    page = keys.page
    page.goto(report)
    page.get_by_role("tab", name="Overview").focus()
    page.keyboard.press("ArrowRight")
    keys.until(f"{CHOSEN} === 'Nodes'", "the next tab")
    assert page.evaluate("document.activeElement.id") == "tab-nodes"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    keys.until(f"{CHOSEN} === 'Spec'", "round to the last")
    page.get_by_role("tab", name="Nodes").click()
    keys.until("document.querySelectorAll('.rows-body .row').length === 12", "the table")
    page.locator("body").press("/")
    keys.until("document.activeElement.tagName === 'INPUT'", "the filter's field")
    name = page.evaluate("document.querySelector('.rows-body .row').innerText.split('\\n')[0]")
    page.keyboard.type(name)  # of a line that was replaced often: a part of others' histories, too
    keys.until("document.querySelectorAll('.rows-body .row').length < 12", "the filter")
    keys.see(name, ".rows-body")
    page.keyboard.press("Escape")
    keys.until("document.querySelectorAll('.rows-body .row').length === 12", "all again")
    page.get_by_role("table", name="Nodes over time").focus()
    page.keyboard.press("ArrowDown")
    keys.see("Line of", "[role=tabpanel]")
    page.go_back()
    keys.until(f"{CHOSEN} === 'Spec'", "where it was before")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_a_phone(report: str, tab: Open, scheme: str) -> None:
    phone = tab(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    phone.page.goto(report)
    for name in TABS:
        phone.page.get_by_role("tab", name=name).click()
        phone.page.locator("[role=tabpanel]").first.wait_for()
        assert phone.page.evaluate("document.documentElement.scrollWidth") <= 360, name
    dark = phone.page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0] < 60")
    assert dark == (scheme == "dark")


def test_the_toggle_beats_the_system_and_is_remembered(tmp_path: Path, tab: Open) -> None:
    with Dashboard(tmp_path) as dashboard:
        toggled = tab(dashboard, color_scheme="light")
        toggled.see("No jobs yet")
        button = toggled.page.get_by_role("button", name="Colours")
        button.click()
        button.click()
        toggled.until("document.documentElement.dataset.theme === 'dark'", "the dark theme")
        toggled.page.reload()
        toggled.see("No jobs yet")
        assert toggled.page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_every_control_has_a_name_and_every_table_a_caption(report: str, tab: Open) -> None:
    named = tab()
    named.page.goto(report)
    for name in TABS:
        named.page.get_by_role("tab", name=name).click()
        nameless = named.page.evaluate(
            """[...document.querySelectorAll('button, a[href], input, select, canvas, [role=img], [role=table]')]
            .filter(e => !(e.getAttribute('aria-label') || e.textContent.trim() || e.closest('label')?.textContent.trim() ||
                           e.querySelector('caption') || e.getAttribute('aria-hidden')))
            .map(e => e.outerHTML.slice(0, 120))"""
        )
        assert nameless == [], name
        assert named.page.evaluate("[...document.querySelectorAll('table')].every(t => t.caption)"), name
        assert named.page.locator("h1").count() == 1
