"""A job in a notebook: whatever it says is text there."""

from __future__ import annotations

import re
from dataclasses import replace

from pliant.api.notebook_html import MAX_NODES, MAX_TEXT, job_html, jobs_html, text
from pliant.core.job import Failure, Phase
from pliant.core.nodes.states import NodeState
from pliant.core.status import JobStatus, NodeStatus, Progress

MARKUP = "<script>alert(1)</script><img src=x onerror='a'>\"&\x1b[2J\u202e"
FAILURE = Failure(MARKUP, MARKUP, MARKUP, MARKUP, 0.0, MARKUP, MARKUP)
STATUS = JobStatus(
    MARKUP,
    Phase.FAILED,
    MARKUP,
    nodes=(NodeStatus(MARKUP, "worker", NodeState.RUNNING, replaces=MARKUP),),
    progress=Progress(step=3, total_steps=6, metrics={"loss": float("nan")}),
    first_failure=FAILURE,
)
TAGS = {"div", "b", "span", "progress", "table", "thead", "tbody", "tr", "th", "td"}


def test_names_messages_and_notes_are_never_markup() -> None:
    for page in (job_html(STATUS, MARKUP), jobs_html([STATUS, STATUS])):
        assert set(re.findall(r"</?([a-z]+)", page)) <= TAGS
        assert not re.search(r"<[^>]*(onerror|script)", page)
        assert "&lt;script&gt;" in page
        assert "\x1b" not in page
        assert "\u202e" not in page


def test_progress_failure_and_hint_are_shown() -> None:
    page = job_html(replace(STATUS, name="digits"))
    assert 'value="50.0"' in page
    assert "<b>digits</b>" in page
    assert "first failure:" in page


def test_many_nodes_and_long_messages_are_cut() -> None:
    nodes = tuple(NodeStatus(f"worker-{n}", "worker", NodeState.RUNNING) for n in range(MAX_NODES + 5))
    page = job_html(JobStatus("j", Phase.RUNNING, nodes=nodes))
    assert page.count("worker-") == MAX_NODES
    assert "and 5 more nodes" in page
    assert len(text("x" * 10_000)) == MAX_TEXT
