"""Which node gets the new resources of its role next: given this state, expect this step."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from pliant.core.errors import InvalidRequest
from pliant.core.nodes.book import NodeBook
from pliant.core.nodes.fault_policy import FaultPolicy
from pliant.core.nodes.rollout import (
    MAX_WAIT_FOR_ROOM_S,
    Finish,
    MoveOff,
    RolloutStep,
    Servers,
    Settle,
    Surge,
    Wait,
    next_step,
)
from pliant.core.nodes.states import Launch, Remove, Resize, RoleSpec
from pliant.core.resources import Resources

SMALL, LARGE = Resources(1.0, 100), Resources(2.0, 200)


def started(count: int, least: int = 1, most: int = 9, role: str = "worker") -> NodeBook:
    book = NodeBook({role: RoleSpec(role, least, most, count, SMALL)}, FaultPolicy())
    book.start(0.0)
    run_all(book, role)
    return book


def run_all(book: NodeBook, role: str = "worker") -> None:
    for launch in book.due(1e9):
        book.accepted(0.0, node=launch.node)
        run(book, launch.node)


def run(book: NodeBook, node: str) -> None:
    book.registered(0.0, node=node, agent_pid=1, host="here")
    book.program_started(0.0, node=node, incarnation=0, pid=2)


def ask(book: NodeBook, rollout: str = "rolling", role: str = "worker", resources: Resources = LARGE) -> list[Any]:
    return book.set_resources(0.0, role=role, resources=resources.to_json(), rollout=rollout, reason="it is slow")


def step(
    book: NodeBook,
    role: str = "worker",
    now: float = 0.0,
    joined: Collection[str] | None = None,
    servers: Servers | None = None,
) -> RolloutStep:
    return next_step(book.role(role), book.active(role), now, joined=joined, servers=servers)


def take(book: NodeBook, role: str = "worker", **known: Any) -> RolloutStep:
    found = step(book, role, **known)
    match found:
        case Surge(node, reason):
            book.surge(0.0, role=role, node=node, reason=reason)
        case Settle(node, reason):
            book.settle(0.0, role=role, node=node, reason=reason)
    return found


def names(book: NodeBook, role: str = "worker") -> list[str]:
    return [node.name for node in book.active(role)]


def test_where_the_maximum_allows_it_the_successor_is_there_before_the_youngest_leaves() -> None:
    book = started(2)
    ask(book)
    assert isinstance(take(book), Surge)
    assert names(book) == ["worker-0", "worker-1", "worker-2"]
    assert isinstance(step(book), Wait), "its successor does not run yet"
    run_all(book)
    assert take(book) == Settle("worker-1", "worker: 2 CPU, 200 MB instead of 1 CPU, 100 MB")
    assert names(book) == ["worker-0", "worker-2"]
    assert book.rollout_progress("worker") == (1, 2)


def test_at_the_maximum_the_old_one_leaves_first() -> None:
    book = started(2, most=2)
    ask(book)
    assert isinstance(take(book), Settle)
    assert names(book) == ["worker-0", "worker-2"]
    assert isinstance(step(book), Wait)
    run_all(book)
    assert take(book) == Settle("worker-0", "worker: 2 CPU, 200 MB instead of 1 CPU, 100 MB")
    run_all(book)
    assert step(book) == Finish()
    assert [node.resources for node in book.active("worker")] == [LARGE, LARGE]


def test_without_room_for_both_the_old_one_makes_room() -> None:
    book = started(1)
    ask(book)
    take(book)
    book.refused(1.0, node="worker-1", message="full")
    assert isinstance(step(book, now=1.0 + MAX_WAIT_FOR_ROOM_S - 0.1), Wait)
    found = step(book, now=1.0 + MAX_WAIT_FOR_ROOM_S)
    assert isinstance(found, Settle)
    assert "not enough room to start its successor" in found.reason


def test_no_more_than_one_is_given_up_for_resources_that_cannot_be_had() -> None:
    book = started(3, most=3)
    ask(book)
    take(book)
    book.refused(1.0, node="worker-3", message="no machine is that large")
    assert isinstance(step(book, now=1e6), Wait)
    assert names(book) == ["worker-0", "worker-1", "worker-3"]


def test_a_worker_of_a_world_counts_when_it_is_a_member() -> None:
    book = started(2)
    ask(book)
    take(book)
    run_all(book)
    assert step(book, joined=["worker-0", "worker-1"]) == Wait("worker-2 is not ready yet")
    assert isinstance(step(book, joined=["worker-0", "worker-1", "worker-2"]), Settle)


def test_nodes_that_do_not_run_yet_are_replaced_at_once() -> None:
    book = NodeBook({"worker": RoleSpec("worker", 1, 3, 2, SMALL)}, FaultPolicy())
    book.start(0.0)
    book.accepted(0.0, node="worker-1")
    decisions = ask(book)
    assert [type(d) for d in decisions] == [Remove, Launch, Remove, Launch]
    assert [node.resources for node in book.active("worker")] == [LARGE, LARGE]
    assert book.role("worker").rollout is None, "nothing is left to do"


def test_who_has_the_resources_already_is_left_alone() -> None:
    book = started(2)
    assert ask(book, resources=SMALL) == []
    assert book.role("worker").rollout is None
    ask(book)
    before = book.snapshot()
    ask(book)
    assert book.snapshot() == before, "the same again is the same rollout"


def test_a_second_change_in_the_middle_begins_again_with_what_is_there() -> None:
    book = started(2)
    ask(book)
    take(book)
    run_all(book)
    ask(book, resources=Resources(4.0, 400))
    assert book.rollout_progress("worker") == (0, 3)
    steps = 0
    while step(book) != Finish():
        take(book)
        run_all(book)
        steps += 1
        assert steps < 20
    book.rolled_out(0.0, role="worker")
    assert {node.resources.cpu for node in book.active("worker")} == {4.0}
    assert len(names(book)) == 2
    assert book.role("worker").rollout is None


def test_a_rollout_that_becomes_one_in_place_gives_its_extra_node_back() -> None:
    book = started(2)
    ask(book)
    take(book)
    run_all(book)
    ask(book, "in-place", resources=Resources(4.0, 400))
    assert isinstance(take(book), Settle)
    assert names(book) == ["worker-0", "worker-1"]
    assert [resize.node for resize in book.resizes()] == ["worker-1", "worker-0"]


def test_in_place_names_the_nodes_to_resize_until_the_platform_did() -> None:
    book = started(2)
    ask(book, "in-place")
    assert book.resizes() == [Resize("worker-1", LARGE, 1), Resize("worker-0", LARGE, 1)]
    book.resize_refused(1.0, node="worker-1", message="it holds 300 MB")
    book.resized(1.0, node="worker-0", resources=LARGE.to_json(), version=1)
    assert [resize.node for resize in book.resizes()] == ["worker-1"]
    assert book.get("worker-1").message == "it holds 300 MB"
    assert (book.get("worker-0").resources, book.get("worker-1").resources) == (LARGE, SMALL)
    assert isinstance(step(book), Wait)
    book.resized(2.0, node="worker-1", resources=LARGE.to_json(), version=1)
    assert step(book) == Finish()


def test_memory_that_a_line_needed_is_not_taken_from_it() -> None:
    book = started(1)
    book.program_exited(1.0, node="worker-0", incarnation=0, exit_reason="OOM", message="killed")
    run_all(book)
    needed = book.get("worker-1").resources.memory_mb
    assert needed > 200
    ask(book, "in-place")
    assert book.resizes() == [Resize("worker-1", Resources(2.0, needed), 1)]
    ask(book)
    take(book)
    assert book.get("worker-2").resources == Resources(2.0, needed), "its successor needs it too"


def test_new_nodes_only_ends_a_rollout() -> None:
    book = started(2)
    ask(book)
    take(book)
    ask(book, "new-nodes", resources=Resources(3.0, 300))
    assert isinstance(take(book), Settle)
    assert step(book) == Finish()
    assert names(book) == ["worker-0", "worker-1"]


def test_a_successor_that_fails_for_good_ends_the_rollout_and_costs_no_node() -> None:
    book = started(2)
    ask(book)
    take(book)
    run_all(book)
    for incarnation in range(4):
        book.program_exited(1.0, node="worker-2", incarnation=incarnation, exit_reason="Error", message="too small")
    assert names(book) == ["worker-0", "worker-1"]
    assert (book.role("worker").rollout, book.role("worker").surge, book.role("worker").spec.replicas) == (None, 0, 2)
    assert book.failure is None


def test_resources_that_no_machine_has_are_refused_with_the_numbers() -> None:
    book = started(2)
    book.set_capacity(0.0, machines=[{"cpu": 4.0, "memory_mb": 1000, "gpu": 0}])
    with pytest.raises(InvalidRequest, match="the largest machine has 1000"):
        ask(book, resources=Resources(1.0, 100_000))
    assert book.role("worker").spec.resources == SMALL


def test_how_must_be_decided() -> None:
    for rollout in ("auto", "sideways"):
        with pytest.raises(InvalidRequest):
            ask(started(1), rollout)


# --- parameter servers


def seated(*nodes: str, leaving: str = "", serving: Collection[str] | None = None) -> Servers:
    return Servers(nodes, nodes if serving is None else serving, {leaving} if leaving else (), range(len(nodes)))


def test_a_server_moves_its_partitions_to_its_successor_before_it_leaves() -> None:
    book = started(2, role="ps")
    ask(book, role="ps")
    assert isinstance(take(book, "ps", servers=seated("ps-0", "ps-1")), Surge)
    run_all(book)
    three = seated("ps-0", "ps-1", "ps-2", serving=["ps-0", "ps-1"])
    assert isinstance(step(book, "ps", servers=three), Wait), "it has not restored yet"
    three = seated("ps-0", "ps-1", "ps-2")
    assert isinstance(step(book, "ps", servers=three), MoveOff)
    book.move_off(0.0, role="ps", seat=1)
    assert isinstance(step(book, "ps", servers=three), Wait)
    gone = Servers(["ps-0", "ps-2"], ["ps-0", "ps-2"], [], [0, 2])
    found = take(book, "ps", servers=gone)
    assert isinstance(found, Settle)
    assert found.node == "ps-1"
    assert names(book, "ps") == ["ps-0", "ps-2"]


def test_at_the_maximum_a_server_moves_its_partitions_to_the_others_first() -> None:
    book = started(2, most=2, role="ps")
    ask(book, role="ps")
    assert isinstance(step(book, "ps", servers=seated("ps-0", "ps-1")), MoveOff)


def test_a_single_server_is_never_without_a_place_for_its_partitions() -> None:
    book = started(1, most=1, role="ps")
    ask(book, role="ps")
    assert isinstance(step(book, "ps", servers=seated("ps-0")), Surge)


def test_a_server_that_is_leaving_already_is_waited_for() -> None:
    book = started(2, most=2, role="ps")
    ask(book, role="ps")
    assert isinstance(step(book, "ps", servers=seated("ps-0", "ps-1", leaving="ps-1")), Wait)
