from __future__ import annotations

from pliant.core.job import Phase
from pliant.core.memory_advice import memory_advice
from pliant.core.nodes.fault_policy import ExitReason
from pliant.core.nodes.states import NodeState
from pliant.core.status import JobStatus, NodeStatus, RoleStatus


def line(
    *limits: int, role: str = "worker", peak: int = 0, last: ExitReason = ExitReason.COMPLETED, at: int = 0
) -> list[NodeStatus]:
    """A line of replacements, of which all but the last ran out of memory."""
    nodes = []
    for number, limit in enumerate(limits):
        is_last = number == len(limits) - 1
        nodes.append(
            NodeStatus(
                f"{role}-{at + number}",
                role,
                NodeState.SUCCEEDED if is_last and last is ExitReason.COMPLETED else NodeState.FAILED,
                exit_reason=last if is_last else ExitReason.OOM,
                memory_limit_mb=limit,
                peak_memory_mb=peak if is_last else limit,
                replaces=f"{role}-{at + number - 1}" if number else "",
            )
        )
    return nodes


def sentences(*nodes: NodeStatus, phase: Phase = Phase.SUCCEEDED) -> list[str]:
    roles = tuple(RoleStatus(name, 1, 2, 2) for name in ("worker", "ps", "chief"))
    return [advice.sentence() for advice in memory_advice(JobStatus("job", phase, roles=roles, nodes=nodes))]


def test_memory_that_was_enough_in_the_end_is_what_to_ask_for_next_time() -> None:
    assert sentences(*line(200, 456, 712, peak=655)) == [
        "worker ran out of memory with 200 MB and 456 MB; 712 MB was enough (peak 655 MB): use --memory 712Mi next time"
    ]


def test_several_lines_of_a_role_are_one_advice() -> None:
    nodes = [*line(200, 456, peak=300), *line(200, 456, 712, peak=500, at=10)]
    [said] = sentences(*nodes)
    assert "with 200 MB and 456 MB; 712 MB was enough (peak 500 MB)" in said


def test_a_job_that_never_had_enough_is_told_to_ask_for_more() -> None:
    assert sentences(*line(200, 456, 712, peak=712, last=ExitReason.OOM), phase=Phase.FAILED) == [
        "worker ran out of memory with 200 MB, 456 MB and 712 MB (peak 712 MB): use more than --memory 712Mi, or smaller batches"
    ]


def test_a_job_that_ended_for_another_reason_does_not_know_what_is_enough() -> None:
    [said] = sentences(*line(200, 456, last=ExitReason.PREEMPTED), phase=Phase.STOPPED)
    assert said.endswith("it ran with 456 MB at the end: use at least --memory 456Mi next time")


def test_each_role_has_the_option_of_its_own() -> None:
    servers, chiefs = line(200, 456, role="ps"), line(100, 356, role="chief")
    assert [said.partition(": use ")[2] for said in sentences(*servers, *chiefs)] == [
        "--ps-memory 456Mi next time",
        "roles.chief.resources.memory: 356Mi next time",
    ]


def test_nothing_is_said_without_a_limit_or_without_a_loss() -> None:
    assert sentences(*line(0, 0)) == []
    assert sentences(*line(200)) == []
