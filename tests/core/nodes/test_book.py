from __future__ import annotations

import json
from typing import Any

import pytest

from pliant.core.errors import Conflict, InvalidRequest, NotFound, PliantError
from pliant.core.nodes.book import NodeBook
from pliant.core.nodes.fault_policy import OUT_OF_GRACE, Backoff, Budget, ExitReason, FaultPolicy, MemoryGrowth
from pliant.core.nodes.states import (
    ENDED,
    TRANSITIONS,
    Decision,
    FailJob,
    Launch,
    NodeState,
    Overdue,
    Remove,
    RestartProgram,
    RoleSpec,
)
from pliant.core.resources import Resources


def policy(**changes: Any) -> FaultPolicy:
    budgets = {
        ExitReason.ERROR: Budget(1, Backoff(2.0), in_place=True),
        ExitReason.KILLED: Budget(100, Backoff(0.5), in_place=True),
        ExitReason.OOM: Budget(5, Backoff(1.0)),
        ExitReason.PREEMPTED: Budget(-1, Backoff(0.0)),
        ExitReason.HANG: Budget(2, Backoff(1.0)),
        ExitReason.UNKNOWN: Budget(1, Backoff(4.0)),
    }
    return FaultPolicy(**{"budgets": budgets, "grace": 10.0, **changes})


def a_book(workers: int = 2, rules: FaultPolicy | None = None, **changes: Any) -> NodeBook:
    fields = {"min_replicas": 1, "max_replicas": 4, "replicas": workers, "resources": Resources(2.0, 1000), **changes}
    keep = fields.pop("keep_ended", 200)
    return NodeBook({"worker": RoleSpec("worker", **fields)}, rules or policy(), keep_ended=keep)


def run(book: NodeBook, *names: str, now: float = 0.0) -> None:
    for name in names:
        book.accepted(now, node=name)
        book.registered(now, node=name, agent_pid=10, host="here")
        book.program_started(now, node=name, incarnation=book.get(name).incarnation, pid=11)


def running(workers: int = 2, rules: FaultPolicy | None = None, **changes: Any) -> NodeBook:
    book = a_book(workers, rules, **changes)
    book.start(0.0)
    run(book, *(node.name for node in book.nodes()))
    return book


def exits(book: NodeBook, node: str, kind: str, *, now: float = 1.0, incarnation: int | None = None) -> list[Decision]:
    number = book.get(node).incarnation if incarnation is None else incarnation
    return book.program_exited(now, node=node, incarnation=number, exit_reason=kind, message="as it was")


def ends(book: NodeBook, node: str, kind: str, *, now: float = 1.0) -> list[Decision]:
    return book.node_ended(now, node=node, exit_reason=kind, message="as it was")


def names(book: NodeBook) -> list[str]:
    return [node.name for node in book.active("worker")]


def only(decisions: list[Decision]) -> Decision:
    (decision,) = decisions
    return decision


def launch(decisions: list[Decision]) -> Launch:
    (found,) = [d for d in decisions if isinstance(d, Launch)]
    return found


# --- the way of one node ---


def test_start_launches_the_replicas_of_every_role() -> None:
    spec = {"worker": RoleSpec("worker", 1, 4, 2), "ps": RoleSpec("ps", 1, 1, 1, critical=True)}
    book = NodeBook(spec, policy())
    decisions = book.start(5.0)
    assert [d.node for d in decisions if isinstance(d, Launch)] == ["worker-0", "worker-1", "ps-0"]
    assert book.due(5.0) == decisions
    assert book.start(6.0) == []


def test_a_node_goes_from_pending_over_creating_to_running_and_succeeds() -> None:
    book = a_book(1)
    book.start(0.0)
    seen = [book.get("worker-0").state]
    book.accepted(1.0, node="worker-0")
    seen.append(book.get("worker-0").state)
    assert book.due(9.0) == []
    book.registered(2.0, node="worker-0", agent_pid=10, host="here")
    book.program_started(2.5, node="worker-0", incarnation=0, pid=11)
    node = book.get("worker-0")
    assert (node.accepted_at, node.started_at, node.agent_pid, node.pid, node.host) == (1.0, 2.0, 10, 11, "here")
    seen.append(node.state)
    assert exits(book, "worker-0", "Completed", now=3.0) == []
    seen.append(book.get("worker-0").state)
    assert seen == [NodeState.PENDING, NodeState.CREATING, NodeState.RUNNING, NodeState.SUCCEEDED]
    assert book.all_done("worker")
    assert book.role("worker").succeeded == 1


def test_nothing_leads_out_of_an_end() -> None:
    assert not [change for change in TRANSITIONS if change[0] in ENDED]


def test_an_agent_may_register_before_the_acceptance_is_recorded() -> None:
    book = a_book(1)
    book.start(0.0)
    book.registered(1.0, node="worker-0", agent_pid=10, host="here")
    assert book.accepted(1.1, node="worker-0") == []
    assert book.get("worker-0").state is NodeState.RUNNING


def test_an_agent_that_meets_a_new_master_keeps_its_start() -> None:
    book = running(1)
    book.registered(50.0, node="worker-0", agent_pid=10, host="here")
    assert book.get("worker-0").started_at == 0.0


def test_running_after_failed_is_ignored() -> None:
    book = running()
    ends(book, "worker-0", "Preempted")
    before = book.snapshot()
    assert book.registered(9.0, node="worker-0", agent_pid=1, host="x") == []
    assert book.accepted(9.0, node="worker-0") == []
    assert book.program_started(9.0, node="worker-0", incarnation=0, pid=1) == []
    assert exits(book, "worker-0", "Error", now=9.0) == []
    assert book.snapshot() == before


def test_a_name_that_never_existed_is_an_error_and_leaves_no_trace() -> None:
    book = running()
    before = book.snapshot()
    for name in ("worker-2", "ps-0", "worker", "worker--1", "worker-01", "worker-²", "", "worker-" + "9" * 5000):
        with pytest.raises(NotFound):
            book.registered(1.0, node=name, agent_pid=1, host="x")
        with pytest.raises(NotFound):
            book.get(name)
    assert book.snapshot() == before


def test_an_unknown_exit_reason_is_an_error_that_names_the_known_ones() -> None:
    book = running()
    with pytest.raises(InvalidRequest, match="Preempted"):
        ends(book, "worker-0", "Bored")


# --- restarts in place ---


def test_an_error_restarts_the_program_on_the_same_node_with_the_next_incarnation() -> None:
    book = running()
    decision = only(exits(book, "worker-0", "Error"))
    assert decision == RestartProgram("worker-0", 1, 2.0, "Error 1 of 1: restarting the program")
    node = book.get("worker-0")
    assert (node.state, node.restarts, node.incarnation, node.pid) == (NodeState.RUNNING, 1, 1, None)
    assert (node.exit_reason, node.message) == (ExitReason.ERROR, "as it was")


def test_the_same_exit_reported_twice_is_answered_alike_and_counted_once() -> None:
    book = running()
    first = exits(book, "worker-0", "Error", incarnation=0)
    assert exits(book, "worker-0", "Error", now=2.0, incarnation=0) == first
    run(book, "worker-0", now=3.0)
    assert exits(book, "worker-0", "Error", now=4.0, incarnation=0) == first
    assert book.get("worker-0").failures == {"Error": 1}


def test_an_exit_of_an_older_or_unknown_incarnation_is_ignored() -> None:
    book = running()
    exits(book, "worker-0", "Killed")
    exits(book, "worker-0", "Killed")
    before = book.snapshot()
    assert exits(book, "worker-0", "Killed", incarnation=0) == []
    assert exits(book, "worker-0", "Killed", incarnation=7) == []
    assert book.program_started(3.0, node="worker-0", incarnation=1, pid=99) == []
    assert book.snapshot() == before


def test_an_agent_that_dies_before_its_restart_is_replaced() -> None:
    book = running()
    exits(book, "worker-0", "Error")
    assert launch(ends(book, "worker-0", "Killed", now=2.0)).node == "worker-2"
    assert book.get("worker-2").failures == {"Error": 1, "Killed": 1}


# --- replacements and budgets ---


def test_a_preempted_node_is_replaced_by_one_with_a_new_number_and_the_same_line() -> None:
    book = running()
    decision = launch(exits(book, "worker-0", "Preempted"))
    assert (decision.node, decision.not_before) == ("worker-2", 1.0)
    node = book.get("worker-2")
    assert (node.replaces, node.lineage, node.incarnation) == ("worker-0", "worker-0", 0)
    assert ends(book, "worker-0", "Preempted") == []
    assert names(book) == ["worker-1", "worker-2"]


def test_the_watcher_may_come_before_the_agent() -> None:
    book = running()
    assert launch(ends(book, "worker-0", "Killed")).node == "worker-2"
    assert exits(book, "worker-0", "OOM") == []
    assert book.get("worker-0").exit_reason is ExitReason.KILLED


def test_a_replacement_waits_for_its_back_off() -> None:
    book = running()
    decision = launch(ends(book, "worker-0", "Error", now=10.0))
    assert decision.not_before == 12.0
    assert book.due(11.9) == []
    assert book.next_due() == 12.0
    assert book.due(12.0) == [decision]


def test_the_budget_follows_the_line_over_its_replacements() -> None:
    book = running(2, min_replicas=1)
    ends(book, "worker-0", "Error")
    run(book, "worker-2")
    assert exits(book, "worker-2", "Error") == []
    assert book.get("worker-2").state is NodeState.FAILED
    assert names(book) == ["worker-1"]


def test_preemptions_do_not_use_up_the_budget_of_errors() -> None:
    book = running(1, max_replicas=1)
    for number in range(50):
        ends(book, f"worker-{number}", "Preempted")
        run(book, f"worker-{number + 1}")
    assert isinstance(only(exits(book, "worker-50", "Error")), RestartProgram)


def test_a_line_that_is_given_up_leaves_the_job_with_one_node_less() -> None:
    book = running(3)
    exits(book, "worker-0", "Error")
    assert exits(book, "worker-0", "Error", now=2.0) == []
    role = book.role("worker")
    assert (role.spec.replicas, role.given_up) == (2, 1)
    assert role.note == "gave up on worker-0: failed 2 times (limit 1); continuing with 2 workers"
    assert names(book) == ["worker-1", "worker-2"]


def test_fewer_than_the_minimum_fails_the_job_naming_node_and_kind() -> None:
    book = running(2, min_replicas=2)
    exits(book, "worker-1", "Error")
    decision = only(exits(book, "worker-1", "Error"))
    assert isinstance(decision, FailJob)
    assert (decision.node, decision.exit_reason) == ("worker-1", ExitReason.ERROR)
    assert "1 worker left, minimum 2" in decision.reason
    assert book.failure == decision


def test_finished_nodes_count_for_the_minimum() -> None:
    book = running(2, min_replicas=1)
    exits(book, "worker-0", "Completed")
    exits(book, "worker-1", "Error")
    assert exits(book, "worker-1", "Error") == []
    assert book.failure is None
    assert book.all_done("worker")


def test_the_final_failure_of_a_critical_node_fails_the_job() -> None:
    book = running(3, critical=True)
    exits(book, "worker-0", "Error")
    decision = only(exits(book, "worker-0", "Error"))
    assert isinstance(decision, FailJob)
    assert "the role is critical" in decision.reason


def test_after_the_job_failed_nothing_is_launched_or_restarted() -> None:
    book = running(3, critical=True)
    exits(book, "worker-0", "Error")
    exits(book, "worker-1", "Killed")
    exits(book, "worker-0", "Error")
    assert ends(book, "worker-2", "Preempted") == []
    assert exits(book, "worker-1", "Killed", incarnation=0) == []
    assert exits(book, "worker-1", "Killed") == []
    assert book.due(1e9) == []
    with pytest.raises(Conflict, match="gave up on worker-0"):
        book.scale(5.0, role="worker", replicas=4, reason="more")


def test_an_infrastructure_error_counts_as_unknown() -> None:
    book = a_book(1)
    book.start(0.0)
    decision = launch(book.launch_failed(1.0, node="worker-0", message="no such image"))
    assert (decision.node, decision.not_before) == ("worker-1", 5.0)
    assert book.get("worker-0").exit_reason is ExitReason.UNKNOWN
    assert isinstance(only(book.launch_failed(6.0, node="worker-1", message="no such image")), FailJob)


# --- memory ---


def test_out_of_memory_asks_for_more_each_time_up_to_the_ceiling() -> None:
    book = running(1, policy(memory=MemoryGrowth(1.5, 256, 2000)))
    asked = []
    for number in range(2):
        asked.append(launch(exits(book, f"worker-{number}", "OOM")).resources.memory_mb)
        run(book, f"worker-{number + 1}")
    assert asked == [1500, 2000]
    assert isinstance(only(exits(book, "worker-2", "OOM")), FailJob)


def test_a_line_keeps_its_grown_memory_when_it_is_preempted_or_the_role_gets_less() -> None:
    book = running(1)
    exits(book, "worker-0", "OOM")
    book.set_resources(2.0, role="worker", resources={"cpu": 1.0, "memory_mb": 500, "gpu": 0})
    assert launch(ends(book, "worker-1", "Preempted")).resources == Resources(1.0, 1500)


def test_a_role_that_asks_for_more_than_the_line_grew_to_gets_it() -> None:
    book = running(1)
    exits(book, "worker-0", "OOM")
    book.set_resources(2.0, role="worker", resources={"cpu": 1.0, "memory_mb": 9000, "gpu": 0})
    assert launch(ends(book, "worker-1", "Preempted")).resources.memory_mb == 9000


@pytest.mark.parametrize(
    "resources", [{}, {"cpu": 1, "memory_mb": -5, "gpu": 0}, {"cpu": float("nan"), "memory_mb": 1, "gpu": 0}]
)
def test_absurd_resources_are_refused(resources: dict[str, Any]) -> None:
    book = running()
    with pytest.raises(InvalidRequest):
        book.set_resources(1.0, role="worker", resources=resources)


# --- no room ---


def test_a_node_without_room_stays_pending_and_is_tried_again_with_back_off() -> None:
    book = a_book(1)
    book.start(0.0)
    first = launch(book.refused(0.0, node="worker-0", message="no free CPU"))
    second = launch(book.refused(1.0, node="worker-0", message="no free CPU"))
    assert (first.node, first.not_before, second.not_before) == ("worker-0", 1.0, 3.0)
    assert second.reason == "worker-0 was unschedulable (no free CPU): attempt 3"
    assert book.due(2.9) == []
    assert book.due(3.0) == [second]
    assert book.get("worker-0").waiting_since == 0.0
    book.accepted(3.0, node="worker-0")
    assert book.get("worker-0").waiting_since is None
    assert book.get("worker-0").failures == {}


def test_after_a_while_without_room_less_is_asked_for_down_to_the_minimum() -> None:
    book = a_book(1, min_resources=Resources(1.0, 400))
    book.start(0.0)
    asked = []
    for now in (0.0, 60.0, 120.0, 180.0, *range(240, 3000, 120)):
        asked.append(launch(book.refused(now, node="worker-0", message="full")))
    assert [a.resources for a in asked[:5]] == [
        Resources(2.0, 1000),
        Resources(2.0, 1000),
        Resources(1.5, 700),
        Resources(1.5, 700),
        Resources(1.2, 550),
    ]
    assert asked[2].reason.endswith("after 120 s with reduced resources: 1.5 CPU, 700 MB")
    assert asked[-1].resources == Resources(1.0, 400)


def test_a_line_that_ran_out_of_memory_is_not_asked_for_with_less_of_it() -> None:
    book = running(1, min_resources=Resources(1.0, 400))
    exits(book, "worker-0", "OOM", now=0.0)
    book.refused(0.0, node="worker-1", message="full")
    assert launch(book.refused(500.0, node="worker-1", message="full")).resources == Resources(1.5, 1500)


# --- scaling ---


def test_scaling_up_launches_new_lines() -> None:
    book = running(2)
    decisions = book.scale(1.0, role="worker", replicas=4, reason="a person asked")
    assert [d.node for d in decisions if isinstance(d, Launch)] == ["worker-2", "worker-3"]
    assert {d.reason for d in decisions} == {"a person asked"}
    assert book.get("worker-2").lineage == "worker-2"


def test_scaling_down_removes_the_youngest_first_and_nothing_follows_from_their_end() -> None:
    book = running(4)
    decisions = book.scale(1.0, role="worker", replicas=2, reason="smaller")
    why = "scaled down from 4 to 2: smaller"
    assert decisions == [Remove("worker-3", 10.0, why), Remove("worker-2", 10.0, why)]
    assert exits(book, "worker-3", "Error", now=2.0) == []
    assert ends(book, "worker-2", "Killed", now=2.0) == []
    assert {book.get(n).state for n in ("worker-2", "worker-3")} == {NodeState.DELETED}
    assert names(book) == ["worker-0", "worker-1"]


@pytest.mark.parametrize(
    ("reported", "message", "exit_reason", "shown"),
    [
        ("Preempted", "preempted, exit code 143 (SIGTERM)", ExitReason.COMPLETED, ""),
        ("Completed", "finished", ExitReason.COMPLETED, ""),
        ("Preempted", f"preempted, {OUT_OF_GRACE}", ExitReason.COMPLETED, f"; {OUT_OF_GRACE}"),
        ("OOM", "out of memory", ExitReason.OOM, "; out of memory"),
    ],
)
def test_a_node_that_was_scaled_down_says_so_and_is_not_called_preempted(
    reported: str, message: str, exit_reason: ExitReason, shown: str
) -> None:
    book = running(2)
    book.scale(1.0, role="worker", replicas=1, reason="night")
    book.program_exited(2.0, node="worker-1", incarnation=0, exit_reason=reported, message=message)
    gone = book.get("worker-1")
    assert (gone.state, gone.exit_reason) == (NodeState.DELETED, exit_reason)
    assert gone.message == f"scaled down from 2 to 1: night{shown}"
    assert gone.failures == {}


@pytest.mark.parametrize("replicas", [0, 5])
def test_scaling_outside_the_limits_is_refused_naming_them(replicas: int) -> None:
    book = running(2)
    with pytest.raises(InvalidRequest, match="allowed: 1 to 4"):
        book.scale(1.0, role="worker", replicas=replicas, reason="too much")
    with pytest.raises(NotFound, match="known: worker"):
        book.scale(1.0, role="ps", replicas=1, reason="none")


def test_new_limits_move_the_target_into_them() -> None:
    book = running(2)
    assert len(book.set_limits(1.0, role="worker", min_replicas=3, max_replicas=8)) == 1
    assert len(book.set_limits(2.0, role="worker", min_replicas=0, max_replicas=1)) == 2
    assert names(book) == ["worker-0"]
    with pytest.raises(InvalidRequest):
        book.set_limits(3.0, role="worker", min_replicas=2, max_replicas=1)


def test_a_node_that_waits_for_its_back_off_is_simply_dropped() -> None:
    book = running(2)
    ends(book, "worker-0", "Error", now=1.0)
    book.scale(1.5, role="worker", replicas=1, reason="smaller")
    assert book.get("worker-2").state is NodeState.DELETED
    assert book.due(99.0) == []
    assert "worker-2" not in [removal.node for removal in book.removals(1.5)]


def test_a_launch_that_is_called_off_while_the_platform_creates_it_is_removed_once_it_exists() -> None:
    book = running(1)
    book.scale(1.0, role="worker", replicas=2, reason="larger")
    book.scale(1.0, role="worker", replicas=1, reason="smaller")
    late = only(book.accepted(2.0, node="worker-1"))
    assert isinstance(late, Remove)
    assert late.node == "worker-1"
    assert book.accepted(3.0, node="worker-1") == []
    assert [removal.node for removal in book.removals(3.0)] == ["worker-1"]
    ends(book, "worker-1", "Killed", now=4.0)
    assert book.removals(5.0) == []


def test_replace_removes_one_and_launches_another_of_its_line_without_counting() -> None:
    book = running(2)
    removal, new = book.replace(1.0, node="worker-0", reason="it is slow")
    assert removal == Remove("worker-0", 10.0, "it is slow")
    assert isinstance(new, Launch)
    assert (book.get(new.node).lineage, book.get(new.node).failures) == ("worker-0", {})
    assert book.replace(2.0, node="worker-0", reason="again") == []
    assert ends(book, "worker-0", "Error", now=3.0) == []
    assert book.get("worker-0").state is NodeState.DELETED


def test_stop_removes_all_and_launches_nothing_afterwards() -> None:
    book = running(2)
    ends(book, "worker-0", "Error")
    decisions = book.stop(2.0, reason="a person asked")
    assert [d.node for d in decisions if isinstance(d, Remove)] == ["worker-1", "worker-2"]
    assert ends(book, "worker-1", "Error", now=3.0) == []
    assert book.due(1e9) == []
    assert book.all_done("worker")
    with pytest.raises(Conflict, match="a person asked"):
        book.replace(4.0, node="worker-1", reason="no")


def test_a_second_stop_hurries_those_that_are_left() -> None:
    book = running(1)
    book.stop(1.0, reason="Ctrl-C")
    assert book.stop(2.0, reason="Ctrl-C again", grace=0.0) == [Remove("worker-0", 0.0, "Ctrl-C again")]
    assert book.stopped == "Ctrl-C"


# --- silence ---


def test_a_silent_agent_is_overdue_and_once_lost_is_removed_and_replaced() -> None:
    book = running(2)
    book.heartbeat("worker-1", 14.0)
    assert book.overdue(15.0) == []
    finding = book.overdue(16.0)
    assert finding == [Overdue("worker-0", ExitReason.HANG, "no heartbeat from its agent for 16 s")]
    decisions = book.lost(16.0, node="worker-0", exit_reason="Hang", message=finding[0].message)
    assert decisions[0] == Remove("worker-0", 0.0, "no heartbeat from its agent for 16 s")
    assert launch(decisions).node == "worker-2"
    assert [removal.node for removal in book.removals(16.0)] == ["worker-0"]
    assert book.lost(17.0, node="worker-0", exit_reason="Hang", message="again") == []
    assert ends(book, "worker-0", "Killed", now=18.0) == []
    assert book.removals(99.0) == []


def test_a_node_that_never_registers_is_overdue_after_the_start_timeout() -> None:
    book = a_book(1)
    book.start(0.0)
    book.accepted(100.0, node="worker-0")
    assert book.overdue(400.0) == []
    assert [o.message for o in book.overdue(401.0)] == ["its agent did not register within 301 s"]


def test_a_node_that_waits_for_the_platform_or_is_on_its_way_out_is_not_overdue() -> None:
    book = running(2)
    book.scale(1.0, role="worker", replicas=4, reason="larger")
    book.replace(1.0, node="worker-0", reason="slow")
    assert [o.node for o in book.overdue(1e6)] == ["worker-1"]


def test_a_worker_without_progress_is_overdue_although_its_agent_lives() -> None:
    book = running(2, policy(progress_timeout=60.0), reports_progress=True)
    book.progress("worker-0", 0.0)
    book.progress("worker-1", 1.0)
    for name in ("worker-0", "worker-1"):
        book.heartbeat(name, 61.0)
    assert book.overdue(61.0) == [Overdue("worker-0", ExitReason.HANG, "its program has made no progress for 61 s")]


def test_progress_is_not_expected_of_a_role_that_serves_others() -> None:
    book = running(1, policy(progress_timeout=60.0))
    book.heartbeat("worker-0", 1000.0)
    assert book.overdue(1000.0) == []


def test_progress_is_expected_from_the_start_of_the_program_on() -> None:
    book = a_book(1, policy(progress_timeout=60.0, heartbeat_timeout=1e6), reports_progress=True)
    book.start(0.0)
    book.accepted(0.0, node="worker-0")
    book.registered(0.0, node="worker-0", agent_pid=10, host="here")
    assert book.overdue(1000.0) == [], "its program waits for its group"
    book.program_started(1000.0, node="worker-0", incarnation=0, pid=11)
    assert book.overdue(1060.0) == []
    assert [o.node for o in book.overdue(1061.0)] == ["worker-0"]


def test_an_agent_that_registers_again_is_no_progress_of_its_program() -> None:
    book = running(1, policy(progress_timeout=60.0, heartbeat_timeout=1e6), reports_progress=True)
    book.registered(50.0, node="worker-0", agent_pid=10, host="here")
    assert [o.node for o in book.overdue(61.0)] == ["worker-0"]


def test_a_short_pause_of_the_master_does_not_excuse_a_long_hang() -> None:
    book = running(1, policy(progress_timeout=60.0), reports_progress=True)
    for now in range(10, 71, 10):
        book.paused(float(now), 1.0)
    book.heartbeat("worker-0", 68.0)
    assert [o.node for o in book.overdue(67.0)] == []
    assert [o.node for o in book.overdue(68.0)] == ["worker-0"]


def test_of_those_that_work_in_step_the_one_furthest_behind_is_replaced_and_the_others_count_anew() -> None:
    rules = policy(progress_timeout=60.0, heartbeat_timeout=1e6)
    book = running(3, rules, reports_progress=True, max_replicas=4)
    book.in_step(("worker-0", "worker-1", "worker-2"))
    for now, name in enumerate(("worker-2", "worker-0", "worker-1")):
        book.progress(name, float(now))
    (late,) = book.overdue(100.0)
    assert late.node == "worker-2"
    book.lost(100.0, node=late.node, exit_reason=late.exit_reason.value, message=late.message)
    assert book.overdue(160.0) == []
    assert [o.node for o in book.overdue(161.0)] == ["worker-0"]


def test_a_restarted_program_gets_the_whole_time_for_its_first_progress() -> None:
    book = running(1, policy(progress_timeout=60.0), reports_progress=True)
    exits(book, "worker-0", "Killed", now=50.0)
    book.heartbeat("worker-0", 100.0)
    assert book.overdue(100.0) == []


def test_nobody_is_overdue_because_the_master_was_away() -> None:
    book = running(2)
    again = a_book()
    again.restore(json.loads(json.dumps(book.snapshot())))
    again.touch_all(1000.0)
    assert again.overdue(1015.0) == []
    assert len(again.overdue(1016.0)) == 2


def test_signs_of_life_of_ended_or_unknown_nodes_are_ignored() -> None:
    book = running(1)
    ends(book, "worker-0", "Completed")
    book.heartbeat("worker-0", 2.0)
    book.progress("worker-77", 2.0)
    assert book.overdue(1e9) == []


def test_an_agent_that_outlives_the_end_of_its_node_is_to_be_removed() -> None:
    book = running(1)
    exits(book, "worker-0", "Completed", now=1.0)
    assert book.removals(10.9) == []
    assert book.removals(11.0) == [Remove("worker-0", 0.0, "it ended but its agent kept running")]


# --- the record ---


def test_only_the_last_ended_nodes_are_remembered_and_the_budgets_of_living_lines_are_not_lost() -> None:
    book = running(1, keep_ended=5)
    exits(book, "worker-0", "Error")
    for number in range(1000):
        ends(book, f"worker-{number}", "Preempted")
        run(book, f"worker-{number + 1}")
    assert len(book.nodes()) == 6
    assert book.get("worker-1000").failures == {"Error": 1, "Preempted": 1000}
    assert ends(book, "worker-0", "Error") == []
    assert len(json.dumps(book.snapshot())) < 10_000
    with pytest.raises(NotFound, match="its record was deleted"):
        book.get("worker-0")


def test_a_restored_book_is_equal_and_goes_on_alike() -> None:
    book = running(3)
    exits(book, "worker-0", "Error")
    ends(book, "worker-1", "OOM")
    book.scale(3.0, role="worker", replicas=2, reason="smaller")
    other = a_book()
    other.restore(json.loads(json.dumps(book.snapshot())))
    assert other.snapshot() == book.snapshot()
    assert other.nodes() == book.nodes()
    assert exits(other, "worker-0", "Error", incarnation=0) == exits(book, "worker-0", "Error", incarnation=0)
    assert other.snapshot() == book.snapshot()


def test_what_a_reader_was_given_does_not_change() -> None:
    book = running(1)
    node = book.get("worker-0")
    ends(book, "worker-0", "Preempted")
    assert (node.state, node.failures) == (NodeState.RUNNING, {})


def test_counts_tell_the_nodes_of_a_role_by_state() -> None:
    book = running(3)
    ends(book, "worker-0", "Preempted")
    exits(book, "worker-1", "Completed")
    counts = {state.value: count for state, count in book.counts("worker").items() if count}
    assert counts == {"Pending": 1, "Running": 1, "Succeeded": 1, "Failed": 1}
    assert not book.all_done("worker")
    assert [node.name for node in book.live()] == ["worker-2", "worker-3"]


def test_a_role_that_cannot_be_is_refused() -> None:
    for least, most, replicas in ((3, 2, 2), (-1, 2, 0), (1, 2, 3), (1, 2, 0)):
        with pytest.raises(PliantError, match="role worker"):
            NodeBook({"worker": RoleSpec("worker", least, most, replicas)}, policy())


# --- suspension, room, priorities, machines ---


def test_a_suspended_job_has_no_nodes_and_goes_on_with_the_same_lines() -> None:
    book = running(2, rules=policy(memory=MemoryGrowth(2.0)))
    exits(book, "worker-0", "OOM")
    run(book, "worker-2")
    removals = book.suspend(5.0, reason="a person asked")
    assert [d.node for d in removals] == ["worker-1", "worker-2"]
    for node in ("worker-1", "worker-2"):
        book.node_ended(6.0, node=node, exit_reason="Preempted", message="removed")
    assert book.live() == []
    assert book.due(100.0) == []
    book.scale(7.0, role="worker", replicas=3, reason="while it is suspended")
    assert book.live() == []
    launches = [d for d in book.resume(8.0, reason="a person asked") if isinstance(d, Launch)]
    assert [launch.node for launch in launches] == ["worker-3", "worker-4", "worker-5"]
    assert [launch.resources.memory_mb for launch in launches] == [1000, 2000, 1000], "memory that was needed is kept"


def test_a_job_that_is_described_as_suspended_starts_without_nodes() -> None:
    roles = {"worker": RoleSpec("worker", 1, 4, 2)}
    book = NodeBook(roles, policy(), suspended="the spec says so")
    assert book.start(0.0) == []
    assert len(book.resume(1.0, reason="now")) == 2


def test_a_node_without_room_is_not_expected_to_register_and_later_asks_for_less() -> None:
    rules = policy(start_timeout=30.0, unschedulable_shrink_after=100.0)
    book = a_book(1, rules, min_resources=Resources(1.0, 500))
    book.start(0.0)
    book.accepted(0.0, node="worker-0")
    book.unschedulable(1.0, node="worker-0", message="0/2 nodes are available")
    assert book.overdue(99.0) == []
    assert book.starved(100.0) == []
    assert book.starved(101.0) == ["worker-0"]
    removal, launch = book.shrink(101.0, node="worker-0")
    assert isinstance(removal, Remove)
    assert isinstance(launch, Launch)
    assert launch.resources == Resources(1.5, 750)
    assert "0/2 nodes are available" in launch.reason
    assert book.get("worker-1").failures == {}


def test_that_there_is_no_room_may_be_told_before_the_launch_is_known_to_be_taken() -> None:
    book = a_book(1, policy(unschedulable_shrink_after=100.0), min_resources=Resources(1.0, 500))
    book.start(0.0)
    book.unschedulable(1.0, node="worker-0", message="0/2 nodes are available")
    book.accepted(2.0, node="worker-0")
    assert book.starved(101.0) == ["worker-0"]


def test_a_node_that_found_room_is_expected_to_register_from_then_on() -> None:
    book = a_book(1, policy(start_timeout=30.0))
    book.start(0.0)
    book.accepted(0.0, node="worker-0")
    book.unschedulable(1.0, node="worker-0", message="full")
    book.room_found(500.0, node="worker-0")
    assert book.overdue(529.0) == []
    assert [late.node for late in book.overdue(531.0)] == ["worker-0"]


def test_a_node_that_can_ask_for_nothing_less_waits() -> None:
    book = a_book(1, policy(unschedulable_shrink_after=1.0))
    book.start(0.0)
    book.accepted(0.0, node="worker-0")
    book.unschedulable(1.0, node="worker-0", message="full")
    assert book.starved(1e6) == []


def test_a_share_of_the_workers_has_high_priority_and_their_replacements_keep_it() -> None:
    book = running(3, high_share=0.5)
    assert [node.high_priority for node in book.nodes()] == [True, True, False]
    book.node_ended(1.0, node="worker-0", exit_reason="Preempted", message="")
    book.node_ended(1.0, node="worker-2", exit_reason="Preempted", message="")
    assert [(n.name, n.high_priority) for n in book.live()] == [
        ("worker-1", True),
        ("worker-3", True),
        ("worker-4", False),
    ]
    assert [launch.high_priority for launch in book.due(2.0)] == [True, False]


def on_hosts(*hosts: str) -> NodeBook:
    book = a_book(len(hosts), policy(budgets={ExitReason.UNKNOWN: Budget(9, Backoff(0.0))}))
    book.start(0.0)
    for number, host in enumerate(hosts):
        book.accepted(0.0, node=f"worker-{number}")
        book.registered(0.0, node=f"worker-{number}", agent_pid=1, host=host)
    return book


@pytest.mark.parametrize(
    ("kind", "when", "avoided"),
    [("Unknown", 5.0, ("bad",)), ("Unknown", 700.0, ()), ("Preempted", 5.0, ()), ("OOM", 5.0, ())],
)
def test_a_machine_on_which_nodes_keep_failing_is_avoided_for_a_while(
    kind: str, when: float, avoided: tuple[str, ...]
) -> None:
    book = on_hosts("bad", "bad", "good")
    for node in ("worker-0", "worker-1"):
        book.node_ended(1.0, node=node, exit_reason=kind, message="x")
    assert {launch.avoid_hosts for launch in book.due(when)} == {avoided}


def test_a_program_that_fails_everywhere_is_no_reason_to_run_nowhere() -> None:
    book = on_hosts("a", "a", "b", "b")
    for number in range(4):
        book.node_ended(1.0, node=f"worker-{number}", exit_reason="Unknown", message="x")
    assert {launch.avoid_hosts for launch in book.due(5.0)} == {()}


def test_a_role_has_limits_of_its_own() -> None:
    roles = {"worker": RoleSpec("worker", 0, 4, 1)}
    strict = policy(budgets={ExitReason.PREEMPTED: Budget(0)})
    book = NodeBook(roles, policy(), policies={"worker": strict})
    book.start(0.0)
    run(book, "worker-0")
    book.node_ended(1.0, node="worker-0", exit_reason="Preempted", message="")
    assert book.live() == []


def test_one_node_is_removed_and_the_role_has_one_less() -> None:
    book = running(3)
    assert [d.node for d in book.remove(1.0, node="worker-1", reason="asked")] == ["worker-1"]
    assert book.role("worker").spec.replicas == 2
    assert [node.name for node in book.active("worker")] == ["worker-0", "worker-2"]


def test_a_node_is_replaced_by_one_with_other_resources() -> None:
    book = running(1)
    _, launch = book.replace(1.0, node="worker-0", reason="larger", resources=Resources(4.0, 4000).to_json())
    assert isinstance(launch, Launch)
    assert launch.resources == Resources(4.0, 4000)


def test_reserved_names_are_not_given() -> None:
    book = a_book(1)
    book.reserve(0.0, role="worker", number=6)
    assert [d.node for d in book.start(0.0) if isinstance(d, Launch)] == ["worker-7"]


def test_a_share_of_many_workers_is_rounded_as_it_was_written() -> None:
    book = a_book(100, high_share=0.55, max_replicas=100)
    book.start(0.0)
    assert sum(node.high_priority for node in book.nodes()) == 55


def fails_permanently(book: NodeBook, node: str, kind: str = "MissingModule", **about: Any) -> list[Decision]:
    return book.program_exited(
        1.0,
        node=node,
        incarnation=book.get(node).incarnation,
        exit_reason="Error",
        message="exit code 1: no module",
        permanent=kind,
        **about,
    )


def test_a_permanent_error_on_a_single_machine_fails_the_job_although_enough_nodes_are_left() -> None:
    book = running(3)
    [failed] = fails_permanently(book, "worker-1", single_machine=True)
    assert isinstance(failed, FailJob)
    assert failed.node == "worker-1"
    assert failed.reason.startswith("worker-1 failed: a module cannot be imported; not restarted")
    assert fails_permanently(book, "worker-0", single_machine=True) == [], "its peers fail in the same way, and quietly"
    assert book.failure == failed


def test_a_module_that_is_missing_on_one_machine_is_looked_for_on_another_once() -> None:
    book = running(2)
    [launch] = fails_permanently(book, "worker-0")
    assert isinstance(launch, Launch)
    assert "trying another machine" in launch.reason
    run(book, launch.node)
    [failed] = fails_permanently(book, launch.node)
    assert isinstance(failed, FailJob)


def test_a_module_that_is_missing_on_two_machines_is_missing_everywhere() -> None:
    book = a_book(2)
    book.start(0.0)
    for name, host in (("worker-0", "here"), ("worker-1", "there")):
        book.accepted(0.0, node=name)
        book.registered(0.0, node=name, agent_pid=10, host=host)
    assert isinstance(fails_permanently(book, "worker-0")[0], Launch)
    assert isinstance(fails_permanently(book, "worker-1")[0], FailJob)


def test_a_syntax_error_is_the_same_on_every_machine() -> None:
    assert isinstance(fails_permanently(running(2), "worker-0", "SyntaxError")[0], FailJob)


def test_a_node_of_a_job_that_has_trained_is_restarted_whatever_it_lacks() -> None:
    book = running(2)
    [decision] = fails_permanently(book, "worker-0", single_machine=True, progress=2)
    assert isinstance(decision, RestartProgram)


def test_the_failure_and_the_peak_of_a_node_survive_a_restart_of_the_master() -> None:
    book = running(2)
    fails_permanently(book, "worker-0", peak_mb=655)
    again = a_book(2)
    again.restore(json.loads(json.dumps(book.snapshot())))
    assert again.get("worker-0") == book.get("worker-0")
    assert again.get("worker-0").peak_mb == 655
    assert isinstance(fails_permanently(again, "worker-1")[0], Launch), "it is on the same machine"


def test_an_unknown_permanent_error_is_refused_before_anything_changes() -> None:
    book = running(1)
    with pytest.raises(InvalidRequest, match="MissingModule"):
        fails_permanently(book, "worker-0", "Nonsense")
    assert book.get("worker-0").state is NodeState.RUNNING
