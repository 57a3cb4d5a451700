"""The report: well-formed, without the network, and harmless whatever names are in it."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

from pliant.sim.report.page import page
from pliant.sim.report.svg import Mark, Series, plot, ticks
from pliant.sim.run import ScenarioRun, run_scenario
from pliant.sim.scenario import Scenario

EVIL = "<script>alert('x')</script>\"&"
VOID = {"meta", "line", "br"}


class Balanced(HTMLParser):
    """Every element that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def run_of(text: str, *policies: str) -> ScenarioRun:
    return run_scenario(Scenario.from_yaml(text, "x.yaml"), Path(), policies=policies, shortened=0.2)


def test_a_report_has_measures_plots_plans_and_no_address() -> None:
    html = page(run_of("name: knee\njobs: [{queue: {records: 3000000, source_limit: 500}}]\n", "oracle", "optimus"))
    parser = Balanced()
    parser.feed(html)
    assert parser.open == []
    assert {"svg", "polyline", "circle", "table"} <= parser.seen
    assert not parser.seen & {"script", "link", "img", "iframe"}
    assert not re.search(r"https?://|@import|url\(", html)
    assert "optimus" in html
    assert "sampling the speed of another size" in html


def test_names_are_escaped() -> None:
    name = json.dumps(EVIL)
    text = f"name: {name}\nabout: {name}\njobs: [{{name: {name}, count: 2, queue: {{records: 20000}}}}]\n"
    html = page(run_of(text, "static-1"))
    parser = Balanced()
    parser.feed(html)
    assert "script" not in parser.seen
    assert "&lt;script&gt;" in html


def test_a_cluster_has_its_use_and_the_completion_of_each_job() -> None:
    html = page(
        run_of("name: many\njobs: [{count: 3, every_s: 60, queue: {records: 200000}}]\n", "static-1", "equal-share")
    )
    assert "Cores in use" in html
    assert html.count("job-2") >= 1


def test_ticks_are_round_and_few() -> None:
    for top in (0.003, 1, 7, 9.99, 10, 123, 86_400, 1e9):
        found = ticks(top)
        assert 3 <= len(found) <= 9
        assert found[-1] <= top * 1.000001
    assert ticks(0) == [0.0]


def test_a_plot_of_nothing_is_still_a_plot() -> None:
    assert "<svg" in plot("empty", [Series("a", [])], unit="x", until=0.0)
    assert "<circle" in plot("one", [Series("a", [(0, 1)], [Mark(0, "here")])], unit="x", until=10.0)
