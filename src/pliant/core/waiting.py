"""What a job waits for, as a condition: machines that are large enough, room on them, or somebody who scales it up.

Beside ``core/end_policy.py``, which decides when a job is over: a job that waits is not. ``core/status_builder.py`` makes this a
part of the job's status, and whoever shows a status shows it.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pliant.core.end_policy import roles_at_zero, worker_roles
from pliant.core.job_state import JobState
from pliant.core.nodes.book import NodeBook
from pliant.core.plurals import counted
from pliant.core.status import WAITING, Condition

TOO_LARGE, UNSCHEDULABLE, SCALED_TO_ZERO = (
    "RequestTooLarge",
    "Unschedulable",
    "ScaledToZero",
)  # reasons of the condition


def waiting_condition(state: JobState, now: float) -> Condition | None:
    """None: the job waits for no node."""
    nodes = state.nodes
    if nodes is None or state.job.over or nodes.closed or nodes.suspended or not nodes.started:
        return None
    return _oversized(nodes, now) or _unschedulable(nodes) or _at_zero(nodes, state.job.started_at)


def _oversized(nodes: NodeBook, now: float) -> Condition | None:
    found = nodes.oversized(now)
    if not found:
        return None
    first, others = found[0], len(found) - 1
    who = first.node + (f" and {others} more" if others else "")
    limit = nodes.give_up_after
    then = f"giving up after {limit:g} s (fault.unschedulable.give_up_after)" if limit else "waiting indefinitely"
    if first.shrinks:
        then = f"requesting less after {nodes.shrink_after:g} s (fault.unschedulable.shrink_after)"
    return _condition(TOO_LARGE, f"{who} cannot be scheduled: {first.problem}; {then}", min(f.since for f in found))


def _unschedulable(nodes: NodeBook) -> Condition | None:
    waiting = [node for node in nodes.live() if node.waiting_since is not None]
    if not waiting:
        return None
    message = f"{counted(len(waiting), 'node')} unschedulable: {waiting[0].message}"
    return _condition(UNSCHEDULABLE, message, min(node.waiting_since or 0.0 for node in waiting))


def _at_zero(nodes: NodeBook, started_at: float) -> Condition | None:
    """Only if nobody else works."""
    roles = roles_at_zero(nodes)
    if not roles or any(nodes.live(role) for role in worker_roles(nodes)):
        return None
    since = [at for role in roles if (at := nodes.role(role).at_zero_since) is not None]
    message = f"{' and '.join(roles)} scaled to 0; scale up to continue"
    return _condition(SCALED_TO_ZERO, message, max(since, default=started_at))


def _condition(reason: str, message: str, since: float) -> Condition:
    moment = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Condition(WAITING, "True", reason, message, moment)
