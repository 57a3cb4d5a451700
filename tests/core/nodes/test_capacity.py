"""What no machine of the platform can give: said at once, not waited for without end, and not grown into."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pliant.core.errors import InvalidRequest
from pliant.core.nodes.book import NodeBook
from pliant.core.nodes.capacity import Capacity, Machine
from pliant.core.nodes.fault_policy import Backoff, FaultPolicy, MemoryGrowth, Step
from pliant.core.nodes.fault_policy import ExitReason as Exit
from pliant.core.nodes.states import FailJob, NodeState, Remove, RoleSpec
from pliant.core.resources import Resources

SMALL, LARGE = Machine(4.0, 8000, 0), Machine(2.0, 16000, 1)
CLUSTER = Capacity((SMALL, LARGE))


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (Resources(), ""),
        (Resources(4.0, 8000), ""),
        (Resources(2.0, 16000, 1), ""),
        (Resources(memory_mb=1024000), "1024000 MB of memory requested, the largest machine has 16000"),
        (Resources(cpu=500.0), "500 CPU requested, the largest machine has 4"),
        (Resources(500.0, 1024000, 8), "500 CPU requested, the largest machine has 4; 1024000 MB"),
        (Resources(4.0, 16000), "4 CPU, 16000 MB of memory requested, but no machine has all of that"),
    ],
)
def test_a_request_that_no_machine_can_meet_is_said_with_the_numbers(asked: Resources, problem: str) -> None:
    assert CLUSTER.problem(asked).startswith(problem)
    assert bool(CLUSTER.problem(asked)) == bool(problem)


def test_what_is_not_limited_is_large_enough_and_no_machine_is_not() -> None:
    assert Capacity((Machine(),)).problem(Resources(1e6, 1 << 40, 1000)) == ""
    assert Capacity((Machine(),)).max_memory_mb is None
    assert "no machine" in Capacity(()).problem(Resources())
    assert CLUSTER.max_memory_mb == 16000


def test_a_capacity_survives_json_and_a_broken_one_is_refused() -> None:
    capacity = Capacity((SMALL, Machine()))
    assert Capacity.from_json(json.loads(json.dumps(capacity.to_json()))) == capacity
    with pytest.raises(InvalidRequest):
        Capacity.from_json([{"cpu": "many"}])


def a_book(workers: int = 1, memory_mb: int = 20000, least: int = 1, min_memory_mb: int = 0, **policy: Any) -> NodeBook:
    role = RoleSpec("worker", least, 4, workers, Resources(1.0, memory_mb), Resources(0.0, min_memory_mb))
    book = NodeBook({"worker": role}, FaultPolicy(**policy))
    book.start(0.0)
    return book


def test_a_node_is_not_given_up_before_it_was_asked_for_with_so_little_that_a_machine_has_it() -> None:
    book = a_book(memory_mb=1 << 20, min_memory_mb=1000, unschedulable_give_up_after=60.0)
    book.set_capacity(0.0, machines=CLUSTER.to_json())
    now = 0.0
    while book.oversized(now):
        assert book.hopeless(now) == []
        for launch in book.due(now):
            book.refused(now, node=launch.node, message="no room")
        now += 10.0
    assert book.failure is None
    assert 1000 <= book.get("worker-0").resources.memory_mb <= 16000


def test_a_node_whose_least_request_is_too_large_is_given_up_at_the_limit() -> None:
    book = a_book(memory_mb=1 << 20, min_memory_mb=17000, unschedulable_give_up_after=60.0)
    book.set_capacity(0.0, machines=CLUSTER.to_json())
    assert [found.node for found in book.hopeless(60.0)] == ["worker-0"]


def test_nothing_is_too_large_while_nobody_knows_the_machines() -> None:
    assert a_book().oversized(1e9) == []


def test_a_node_that_no_machine_is_large_enough_for_is_found_at_once_and_given_up_at_the_limit() -> None:
    book = a_book(unschedulable_give_up_after=100.0)
    book.set_capacity(5.0, machines=CLUSTER.to_json())
    (found,) = book.oversized(5.0)
    assert (found.node, found.since) == ("worker-0", 5.0)
    assert found.problem == "20000 MB of memory requested, the largest machine has 16000"
    assert book.hopeless(104.0) == []
    assert book.abandon(104.0, node="worker-0") == []
    decisions = book.abandon(105.0, node="worker-0")
    assert [type(decision) for decision in decisions] == [Remove, FailJob]
    assert book.failure is not None
    assert book.failure.reason == (
        "gave up on worker-0: 20000 MB of memory requested, the largest machine has 16000; "
        "waited 100 s (fault.unschedulable.give_up_after); 0 workers left, minimum 1"
    )
    assert book.get("worker-0").state is NodeState.FAILED
    assert book.oversized(1e9) == []


def test_a_node_is_waited_for_without_end_if_the_job_says_so() -> None:
    book = a_book(unschedulable_give_up_after=0.0)
    book.set_capacity(0.0, machines=CLUSTER.to_json())
    assert book.oversized(1e9)
    assert book.hopeless(1e9) == []


def test_a_larger_machine_ends_the_waiting() -> None:
    book = a_book()
    book.set_capacity(0.0, machines=CLUSTER.to_json())
    book.set_capacity(50.0, machines=[Machine(8.0, 32000, 0).to_json()])
    assert book.oversized(50.0) == []


def test_a_request_that_was_lowered_is_large_enough() -> None:
    role = RoleSpec("worker", 1, 4, 1, Resources(1.0, 20000), Resources(memory_mb=1000))
    policy = FaultPolicy(unschedulable_backoff=Backoff(1.0), unschedulable_shrink_after=10.0)
    book = NodeBook({"worker": role}, policy)
    book.start(0.0)
    book.set_capacity(0.0, machines=CLUSTER.to_json())
    book.refused(0.0, node="worker-0", message="full")
    assert book.oversized(1.0)
    book.refused(11.0, node="worker-0", message="full")
    assert book.oversized(11.0) == []


def test_a_node_that_runs_is_not_too_large_whatever_the_platform_says() -> None:
    book = a_book()
    book.accepted(0.0, node="worker-0")
    book.registered(0.0, node="worker-0", agent_pid=1, host="here")
    book.set_capacity(0.0, machines=CLUSTER.to_json())
    assert book.oversized(1e9) == []


def test_the_job_goes_on_with_those_that_fit_if_they_are_enough() -> None:
    book = a_book(workers=1, memory_mb=1000)
    book.set_capacity(0.0, machines=CLUSTER.to_json())
    book.set_resources(0.0, role="worker", resources=Resources(1.0, 20000).to_json())
    book.scale(0.0, role="worker", replicas=2, reason="more")
    assert [found.node for found in book.oversized(0.0)] == ["worker-1"]
    assert [type(decision) for decision in book.abandon(1000.0, node="worker-1")] == [Remove]
    assert (book.failure, book.role("worker").spec.replicas) == (None, 1)
    assert "20000 MB of memory requested" in book.role("worker").note


def test_the_machines_are_part_of_what_is_restored() -> None:
    book, again = a_book(), a_book()
    book.set_capacity(5.0, machines=CLUSTER.to_json())
    again.restore(json.loads(json.dumps(book.snapshot())))
    assert again.snapshot() == book.snapshot()
    assert again.oversized(6.0) == book.oversized(6.0) != []


# --- memory after out-of-memory


def test_memory_grows_up_to_the_largest_machine_and_then_the_line_is_given_up_with_the_numbers() -> None:
    policy = FaultPolicy(memory=MemoryGrowth(factor=2.0))
    decision = policy.next_step(Exit.OOM, {}, 12000, agent_alive=False, max_memory_mb=16000)
    assert (decision.step, decision.memory_mb) == (Step.REPLACE, 16000)
    decision = policy.next_step(Exit.OOM, {}, 16000, agent_alive=False, max_memory_mb=16000, peak_mb=15900)
    assert decision.step is Step.GIVE_UP
    assert decision.reason == (
        "out of memory with 16000 MB, measured peak 15900 MB; cannot request more, "
        "16000 MB is the size of the largest machine"
    )


def test_the_lower_of_the_two_ceilings_counts_and_is_named() -> None:
    policy = FaultPolicy(memory=MemoryGrowth(ceiling_mb=2000))
    assert policy.next_step(Exit.OOM, {}, 1900, agent_alive=False, max_memory_mb=16000).memory_mb == 2000
    assert policy.next_step(Exit.OOM, {}, 1400, agent_alive=False, max_memory_mb=1500).memory_mb == 1500
    spent = policy.next_step(Exit.OOM, {}, 2000, agent_alive=False, max_memory_mb=16000)
    assert "2000 MB is the limit set by fault.memory.ceiling" in spent.reason


def test_the_last_of_too_many_exits_says_with_how_much_memory() -> None:
    decision = FaultPolicy().next_step(Exit.OOM, {"OOM": 5}, 4000, agent_alive=False, peak_mb=3999)
    assert decision.reason == ("ran out of memory 6 times (limit 5), last with 4000 MB, measured peak 3999 MB")


def test_a_node_never_asks_for_more_than_there_is() -> None:
    book = a_book(memory_mb=9000)
    book.set_capacity(0.0, machines=CLUSTER.to_json())
    asked, now = [], 0.0
    while book.failure is None:
        (node,) = book.active("worker")
        asked.append(node.resources.memory_mb)
        now += 100.0
        book.accepted(now, node=node.name)
        book.node_ended(now, node=node.name, exit_reason="OOM", message="killed", peak_mb=node.resources.memory_mb - 1)
    assert asked == [9000, 13500, 16000]
    assert "out of memory with 16000 MB, measured peak 15999 MB" in book.failure.reason
