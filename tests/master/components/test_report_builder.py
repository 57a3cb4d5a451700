"""What a master reports of its nodes to the Brain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.nodes.states import Node, NodeState
from pliant.core.resources import Resources
from pliant.master.components.planning.report_builder import node_facts

RAN = Node(
    *("worker-0", "worker", 0, "worker-0", Resources(), "a test", 1.0, 1.0),
    state=NodeState.RUNNING,
    accepted_at=2.0,
    started_at=3.0,
)
ENDED = replace(RAN, state=NodeState.DELETED, ended_at=9.0, exit_reason=ExitReason.COMPLETED)


def test_a_node_that_ended_takes_room_until_the_platform_says_that_nothing_of_it_is_left() -> None:
    assert node_facts(ENDED) == node_facts(RAN)
    facts = node_facts(replace(ENDED, gone=True))
    assert (facts.state, facts.ended_at, facts.exit_reason) == ("Deleted", 9.0, ExitReason.COMPLETED.value)


def test_a_node_that_ended_before_its_agent_came_was_being_created_until_it_is_gone() -> None:
    ended = replace(ENDED, state=NodeState.FAILED, started_at=None)
    assert node_facts(ended).state == "Creating"
    assert node_facts(replace(ended, gone=True)).state == "Failed"


@pytest.mark.parametrize("state", [NodeState.FAILED, NodeState.DELETED])
def test_a_node_that_the_platform_never_had_takes_no_room(state: NodeState) -> None:
    assert node_facts(replace(ENDED, state=state, accepted_at=None)).ended_at == 9.0
