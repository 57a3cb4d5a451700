"""Time in which somebody could not do what was expected of him does not count against him."""

from __future__ import annotations

from pliant.core.nodes.book import NodeBook
from pliant.core.nodes.fault_policy import FaultPolicy
from pliant.core.nodes.states import RoleSpec
from pliant.core.shards.book import ShardBook


def leased(now: float = 0.0) -> ShardBook:
    book = ShardBook()
    book.create(now, dataset={"name": "train", "size": 100, "shard_size": 10, "lease_floor": 5.0})
    book.open_session(now, session="s", node="worker-0", incarnation=0)
    book.exchange(now, session="s", request=1, dataset="train", want=2)
    return book


def running(workers: int, **policy: float) -> NodeBook:
    role = RoleSpec("worker", 1, workers, workers, reports_progress=True)
    book = NodeBook({"worker": role}, FaultPolicy(**policy))  # type: ignore[arg-type]
    book.start(0.0)
    for node in book.nodes():
        book.accepted(0.0, node=node.name)
        book.registered(0.0, node=node.name, agent_pid=1, host="here")
        book.program_started(0.0, node=node.name, incarnation=0, pid=2)
    return book


def test_a_lease_is_not_overdue_for_the_time_that_the_master_was_away() -> None:
    book = leased()
    assert book.overdue(100.0)
    book.forgive(100.0)
    assert not book.overdue(104.0)
    assert book.overdue(106.0)


def test_the_absence_of_the_master_does_not_teach_a_longer_time_out() -> None:
    book = leased()
    book.forgive(1000.0)
    book.exchange(1001.0, session="s", request=2, dataset=None, want=0, done=[1])
    assert book.queue("train").lease_timeout() == 5.0


def test_forgiving_is_part_of_what_is_restored() -> None:
    book, again = leased(), ShardBook()
    book.forgive(100.0)
    again.restore_definitions(book.definitions())
    again.restore(book.snapshot())
    assert again.snapshot() == book.snapshot()
    assert not again.overdue(104.0)


def test_a_session_holds_something_until_it_has_reported_it() -> None:
    book = leased()
    assert book.is_holding("s")
    book.exchange(1.0, session="s", request=2, dataset=None, want=0, done=[1, 2])
    assert not book.is_holding("s")


def test_a_program_that_has_nothing_to_do_owes_no_progress() -> None:
    book = running(2, progress_timeout=10.0, heartbeat_timeout=1000.0)
    book.idle("worker-1", 9.0)
    assert [late.node for late in book.overdue(12.0)] == ["worker-0"]
    assert [late.node for late in book.overdue(20.0)] == ["worker-0", "worker-1"]


def test_having_nothing_to_do_is_no_sign_of_life_of_the_agent() -> None:
    book = running(1, progress_timeout=0.0, heartbeat_timeout=10.0)
    book.idle("worker-0", 9.0)
    (late,) = book.overdue(11.0)
    assert "no heartbeat" in late.message


def test_nodes_are_blocked_when_all_that_are_left_wait_for_room() -> None:
    book = NodeBook({"worker": RoleSpec("worker", 1, 2, 2)}, FaultPolicy())
    book.start(0.0)
    book.refused(0.0, node="worker-1", message="full")
    assert not book.all_blocked("worker")
    book.accepted(0.0, node="worker-0")
    book.registered(0.0, node="worker-0", agent_pid=1, host="here")
    assert not book.all_blocked("worker")
    book.program_exited(1.0, node="worker-0", incarnation=0, exit_reason="Completed", message="")
    assert book.all_blocked("worker")
