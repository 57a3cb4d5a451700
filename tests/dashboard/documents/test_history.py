"""Lines of nodes and restarts, as the events tell them."""

from __future__ import annotations

from dataclasses import replace

from pliant.core.events import (
    Event,
    EventRecord,
    ExitCause,
    GroupFormed,
    JobEnded,
    NodeEnded,
    NodeLaunched,
    NodeRemoved,
    NodeRunning,
    NodeScheduled,
    NodeUnschedulable,
    ProgramExited,
    ProgramRestarted,
)
from pliant.core.job import Phase
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.nodes.states import NodeState
from pliant.core.status import JobStatus, NodeStatus
from pliant.dashboard.documents.history import MAX_INTERVALS, MAX_LINES, EventHistory
from pliant.dashboard.documents.nodes import NodesDocument


def history_of(*events: Event) -> EventHistory:
    history = EventHistory()
    history.add(EventRecord(number, 10.0 * number, event) for number, event in enumerate(events, 1))
    return history


def launched(node: str, replaces: str = "") -> NodeLaunched:
    return NodeLaunched(node=node, reason="job start", replaces=replaces)


def states(history: EventHistory, line: str) -> list[tuple[str, str | None]]:
    return [(interval.state, interval.exit_reason) for interval in history.lines[line].intervals]


def exited(node: str, reason: ExitReason, cause: ExitCause = ExitCause.OWN) -> ProgramExited:
    return ProgramExited(node=node, incarnation=0, exit_reason=reason, cause=cause, message="exit code 1")


def test_a_replacement_continues_the_line_of_the_node_before() -> None:
    history = history_of(
        launched("worker-0"),
        NodeRunning(node="worker-0", host="a"),
        NodeEnded(node="worker-0", exit_reason=ExitReason.OOM, message="out of memory"),
        launched("worker-7", replaces="worker-0"),
        NodeRunning(node="worker-7", host="b"),
    )
    (line,) = history.lines.values()
    assert list(line.nodes) == ["worker-0", "worker-7"]
    assert states(history, "worker-0") == [
        ("Creating", None),
        ("Running", "OOM"),
        ("Creating", None),
        ("Running", None),
    ]
    assert history.restarts.to_json() == {"programs": 0, "nodes": 1, "reasons": {"OOM": 1}}


def test_a_restart_in_place_has_the_reason_of_the_exit() -> None:
    history = history_of(
        launched("worker-0"),
        NodeRunning(node="worker-0", host="a"),
        exited("worker-0", ExitReason.ERROR),
        ProgramRestarted(node="worker-0", incarnation=1, delay_s=2.0, reason="Error 1 of 3"),
    )
    assert states(history, "worker-0")[1:] == [("Running", "Error"), ("Restarting", None), ("Running", None)]
    assert history.restarts.to_json() == {"programs": 1, "nodes": 0, "reasons": {"Error": 1}}
    restarting, running = list(history.lines["worker-0"].intervals)[-2:]
    assert (restarting.end, running.start, running.run) == (42.0, 42.0, 1)


def test_a_group_restarts_together() -> None:
    history = history_of(
        launched("worker-0"),
        NodeRunning(node="worker-0", host="a"),
        exited("worker-0", ExitReason.KILLED, ExitCause.GROUP),
        GroupFormed(node="worker-0", generation=2, world_size=1),
    )
    assert states(history, "worker-0")[-2:] == [("Restarting", None), ("Running", None)]


def test_waiting_for_a_machine_and_removal_are_intervals() -> None:
    history = history_of(
        launched("worker-0"),
        NodeUnschedulable(node="worker-0", reason="no room"),
        NodeUnschedulable(node="worker-0", reason="no room"),
        NodeScheduled(node="worker-0"),
        NodeRunning(node="worker-0", host="a"),
        NodeRemoved(node="worker-0", grace_s=5.0, reason="scaled"),
        exited("worker-0", ExitReason.KILLED, ExitCause.REMOVAL),
    )
    assert [state for state, _ in states(history, "worker-0")] == [
        "Creating",
        "Pending",
        "Creating",
        "Running",
        "Removing",
    ]
    assert states(history, "worker-0")[-1][1] == "Killed"


def test_the_end_of_the_job_closes_every_line_and_events_count_once() -> None:
    events = [launched("worker-0"), NodeRunning(node="worker-0", host="a"), JobEnded(phase=Phase.STOPPED, reason="x")]
    history = history_of(*events)
    history.add([EventRecord(2, 20.0, events[1])])
    assert history.lines["worker-0"].intervals[-1].end == 30.0
    assert len(history.lines["worker-0"].intervals) == 2


def test_memory_is_bounded_whatever_happens() -> None:
    history = EventHistory()
    number = 0
    for node in range(MAX_LINES + 500):
        for event in (
            launched(f"worker-{node}"),
            NodeRunning(node=f"worker-{node}", host=""),
            NodeEnded(node=f"worker-{node}", exit_reason=ExitReason.ERROR, message="m" * 4000),
        ):
            number += 1
            history.add([EventRecord(number, float(number), event)])
    last = f"worker-{node}"
    for _ in range(MAX_INTERVALS):
        number += 1
        history.add([EventRecord(number, float(number), NodeRunning(node=last, host=""))])
    assert len(history.lines) == MAX_LINES
    assert history.dropped_lines == 500
    assert len(history.lines[last].intervals) == MAX_INTERVALS
    assert history.lines[last].cut > 0
    assert len(history.lines[last].intervals[0].message) <= 500


def test_nodes_without_events_are_shown_by_the_status() -> None:
    node = NodeStatus("worker-3", "worker", NodeState.RUNNING, created_at=5.0, cpu=1.23456, memory_mb=10.0)
    status = JobStatus("mine", Phase.RUNNING, started_at=1.0, time=9.0, nodes=(node,))
    document, history = NodesDocument(), EventHistory()
    row = document.make(status, history, is_over=False)["lines"]["worker-3"]
    assert row["now"]["cpu"] == 1.235
    assert [interval["state"] for interval in row["intervals"]] == ["Running"]
    ended = replace(node, state=NodeState.FAILED, exit_reason=ExitReason.PREEMPTED, ended_at=8.0)
    row = document.make(replace(status, nodes=(ended,)), history, is_over=False)["lines"]["worker-3"]
    assert row["state"] == "Failed"
    assert (row["intervals"][-1]["end"], row["intervals"][-1]["exit_reason"]) == (8.0, "Preempted")
