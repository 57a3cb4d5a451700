"""Nodes that a book takes over from one whose journal is lost."""

from __future__ import annotations

import pytest

from pliant.core.errors import Conflict, InvalidRequest
from pliant.core.nodes.book import NodeBook
from pliant.core.nodes.fault_policy import ExitReason, FaultPolicy
from pliant.core.nodes.states import Launch, NodeState, RestartProgram, RoleSpec


def book(replicas: int = 3) -> NodeBook:
    return NodeBook({"worker": RoleSpec("worker", 1, 9, replicas)}, FaultPolicy())


def test_the_living_are_expected_the_finished_count_and_the_dead_are_replaced_by_new_names() -> None:
    nodes = book(replicas=4)
    nodes.adopt(10.0, living=["worker-5", "worker-2"], succeeded=["worker-0"], ended=["worker-7"])
    launched = [decision.node for decision in nodes.start(10.0) if isinstance(decision, Launch)]
    assert launched == ["worker-8"], "one is missing, and no number is used again"
    assert {node.name: node.state for node in nodes.active("worker")} == {
        "worker-5": NodeState.CREATING,
        "worker-2": NodeState.CREATING,
        "worker-8": NodeState.PENDING,
    }
    assert nodes.role("worker").succeeded == 1
    assert nodes.due(11.0) != []
    assert "worker-5" not in [launch.node for launch in nodes.due(11.0)]


def test_an_agent_that_registers_brings_the_run_of_its_program() -> None:
    nodes = book()
    nodes.adopt(10.0, living=["worker-0"], succeeded=[], ended=[])
    nodes.start(10.0)
    nodes.registered(11.0, node="worker-0", agent_pid=7, host="a", incarnation=4)
    nodes.program_started(11.0, node="worker-0", incarnation=4, pid=8)
    assert (nodes.get("worker-0").incarnation, nodes.get("worker-0").pid) == (4, 8)
    [restart] = nodes.program_exited(
        12.0, node="worker-0", incarnation=4, exit_reason=ExitReason.KILLED.value, message="killed"
    )
    assert isinstance(restart, RestartProgram)
    assert restart.incarnation == 5


def test_who_does_not_register_in_time_is_overdue() -> None:
    nodes = book()
    nodes.adopt(10.0, living=["worker-0"], succeeded=[], ended=[])
    nodes.start(10.0)
    assert nodes.overdue(11.0) == []
    late = 11.0 + FaultPolicy().start_timeout
    assert [found.node for found in nodes.overdue(late)] == ["worker-0"]


def test_nothing_is_taken_over_that_cannot_be_a_node_or_once_the_job_has_started() -> None:
    nodes = book()
    before = nodes.snapshot()
    for name in ("stranger-0", "worker", "worker-x", "worker-01"):
        with pytest.raises(InvalidRequest):
            nodes.adopt(0.0, living=["worker-0", name], succeeded=[], ended=[])
    assert nodes.snapshot() == before
    nodes.start(0.0)
    with pytest.raises(Conflict):
        nodes.adopt(0.0, living=["worker-5"], succeeded=[], ended=[])
