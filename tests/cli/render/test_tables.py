from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from pliant.cli.render.progress import progress_of
from pliant.cli.render.tables import busiest_first, partition_table, table_console, usage_view
from pliant.core.job import Phase
from pliant.core.nodes.states import NodeState
from pliant.core.status import DatasetStatus, JobStatus, NodeStatus, PartitionStatus


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
    assert [line.split()[0] for line in rows] == expected


def test_names_that_look_like_markup_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    dataset = DatasetStatus("[/b]clicks", partitions=(PartitionStatus("[red]0", end=3),))
    console = table_console()
    console.print(partition_table(dataset))
    console.print(progress_of(JobStatus("digits", Phase.RUNNING, datasets=(dataset,))))
    shown = capsys.readouterr().out
    assert shown.count("[/b]clicks") == 2
    assert "[red]0" in shown
