from __future__ import annotations

from dataclasses import replace
from io import StringIO
from types import SimpleNamespace
from typing import cast

import pytest
from rich.console import Console

from pliant.cli.render.progress import progress_of
from pliant.cli.render.tables import busiest_first, job_view, node_table, partition_table, table_console, usage_view
from pliant.core.job import Phase
from pliant.core.nodes.states import NodeState
from pliant.core.planning.planner_state import PlannerState
from pliant.core.status import (
    BRAIN_AWAY,
    BRAIN_LEADS,
    CheckpointStatus,
    DatasetStatus,
    GrantStatus,
    JobStatus,
    NodeStatus,
    PartitionStatus,
    PlannerStatus,
    PlanStatus,
)
from pliant.handles.job_handle import JobHandle, JobView


def test_the_busiest_node_comes_first_and_ended_ones_not_at_all() -> None:
    used = {"worker-0": 0.5, "worker-1": 1.5, "worker-2": 0.5, "worker-3": 0.0}
    nodes = [NodeStatus(name, "worker", NodeState.RUNNING, cpu=cpu) for name, cpu in used.items()]
    ended = NodeStatus("worker-4", "worker", NodeState.FAILED, cpu=9.0)
    status = JobStatus("digits", Phase.RUNNING, nodes=(*nodes, ended))
    expected = ["worker-1", "worker-0", "worker-2", "worker-3"]
    assert [node.name for node in busiest_first(status)] == expected
    shown = StringIO()
    Console(file=shown, width=120).print(usage_view(status))
    _, _, _, *rows = shown.getvalue().splitlines()  # the job, an empty line, and the head of the table
    lines, (role,) = rows[:4], rows[6:]  # an empty line and a head are between them
    assert [line.split()[0] for line in lines] == expected
    assert role.split()[:3] == ["worker", "4", "2.50"]


def test_what_is_used_is_shown_against_what_was_asked_for() -> None:
    given = NodeStatus(
        "worker-0", "worker", NodeState.RUNNING, cpu=0.5, cpu_limit=2.0, memory_mb=100, memory_limit_mb=512
    )
    other = replace(given, name="worker-1", cpu=1.25)
    free = replace(given, name="ps-0", role="ps", cpu_limit=0.0, memory_limit_mb=0.0)
    planner = PlannerStatus(PlannerState.OBSERVING)
    plan = PlanStatus("auto-2", "8 workers", "", "plan_job", "kept")
    status = JobStatus("digits", Phase.RUNNING, nodes=(given, other, free), planner=planner, last_plan=plan)
    shown = StringIO()
    Console(file=shown, width=120).print(usage_view(status))
    text = shown.getvalue()
    assert "planner: observing; last plan auto-2 by plan_job (kept): 8 workers" in text
    rows = {line.split("  ")[0]: " ".join(line.split()) for line in text.splitlines() if line}
    assert rows["worker-1"] == "worker-1 Running 1.25 of 2 100 of 512 MB 0 0 0"
    assert rows["worker"] == "worker 2 1.75 of 4 200 of 1,024 MB 0"
    assert rows["ps"] == "ps 1 0.50 100 MB 0", "without a limit there is nothing to compare with"


def test_a_status_says_who_plans_and_what_was_planned_last() -> None:
    plan = PlanStatus("auto-2", "8 workers", "", "plan_job", "kept")
    planner = PlannerStatus(PlannerState.OBSERVING, until=20.0)
    status = JobStatus("digits", Phase.RUNNING, time=10.0, planner=planner, last_plan=plan)
    shown = StringIO()
    handle = cast(JobHandle, SimpleNamespace(where="here", argument="digits"))
    Console(file=shown, width=200).print(job_view(JobView(handle, status, master_alive=True)))
    lines = [line.rstrip() for line in shown.getvalue().splitlines()]
    assert "resources: planned by the job (single-job); observing, cool-down for another 10 s" in lines
    assert "last plan auto-2 by plan_job (kept): 8 workers" in lines


@pytest.mark.parametrize(
    ("brain", "line"),
    [
        (BRAIN_LEADS, "resources: planned by the Brain (cluster); observing"),
        (BRAIN_AWAY, "resources: the Brain is away: planned by the job's master (cluster); observing"),
    ],
)
def test_a_status_says_whether_the_brain_plans_and_what_is_granted(brain: str, line: str) -> None:
    planner = PlannerStatus(PlannerState.OBSERVING, brain=brain, grant=GrantStatus(4, 4.0, reason="a quota of 4 CPU"))
    shown = StringIO()
    handle = cast(JobHandle, SimpleNamespace(where="here", argument="digits"))
    status = JobStatus("digits", Phase.RUNNING, time=10.0, planner=planner)
    Console(file=shown, width=200).print(job_view(JobView(handle, status, master_alive=True)))
    lines = [line.rstrip() for line in shown.getvalue().splitlines()]
    assert line in lines
    assert "the quota grants at most 4 nodes, 4 CPU: a quota of 4 CPU" in lines


def test_seats_are_shown_where_there_are_some() -> None:
    nodes = [NodeStatus(f"worker-{n}", "worker", NodeState.RUNNING, virtual_workers=n * 3) for n in range(3)]
    shown = StringIO()
    Console(file=shown, width=120).print(node_table(nodes))
    head, *rows = (line.split() for line in shown.getvalue().splitlines())
    assert head.index("SEATS") == 5
    assert [row[4:5] for row in rows[1:]] == [["3"], ["6"]]
    shown = StringIO()
    Console(file=shown, width=120).print(node_table(nodes[:1]))
    assert "SEATS" not in shown.getvalue()


def test_names_that_look_like_markup_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    dataset = DatasetStatus("[/b]clicks", partitions=(PartitionStatus("[red]0", end=3),))
    console = table_console()
    console.print(partition_table(dataset))
    console.print(progress_of(JobStatus("digits", Phase.RUNNING, datasets=(dataset,))))
    shown = capsys.readouterr().out
    assert shown.count("[/b]clicks") == 2
    assert "[red]0" in shown


def test_a_job_shows_its_newest_checkpoint_and_for_how_long_they_fail() -> None:
    good = CheckpointStatus("/saved", written=4, last_step=400, last_time=5.0)
    bad = CheckpointStatus("s3://b", failures=3, failures_in_a_row=3, failing_since=9.0, reason="no space left")
    past = replace(good, directory="/past", failures=2, reason="no answer")
    status = JobStatus("digits", Phase.RUNNING, checkpoints=(good, bad, past))
    shown = StringIO()
    handle = cast(JobHandle, SimpleNamespace(where="here", argument="digits"))
    Console(file=shown, width=200).print(job_view(JobView(handle, status, master_alive=True)))
    lines = shown.getvalue().splitlines()
    assert any(line.startswith("newest checkpoint: of step 400, ") and line.endswith("in /saved") for line in lines)
    assert any(line.startswith("newest checkpoint: none, in s3://b") for line in lines)
    assert any("3 failures in a row since" in line and "last: no space left" in line for line in lines)
    assert any("(2 failures before, last: no answer)" in line for line in lines)
