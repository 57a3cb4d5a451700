"""What a job's status says of its planner."""

from __future__ import annotations

from pliant.core.planning.cluster.limits import memory_of
from pliant.core.planning.cluster.offer import Grant
from pliant.core.planning.planner import Planner
from pliant.core.status import GrantStatus, PlannerStatus


def planner_status(planner: Planner, brain: str = "") -> PlannerStatus:
    """``brain``: whether it leads, which only a living master knows."""
    record, paused = planner.under_way, planner.paused
    until, reason = paused if paused is not None else (planner.not_before, "")
    return PlannerStatus(
        planner.state,
        until=0.0 if record is not None and paused is None else until,
        reason=reason or (record.proposal.reason if record is not None else ""),
        plan=record.id if record is not None else "",
        dry_run=planner.settings.dry_run,
        brain=brain,
        grant=grant_status(planner.grant),
    )


def grant_status(grant: Grant | None) -> GrantStatus | None:
    """None: no quota limits the job."""
    if grant is None or grant.is_unlimited:
        return None
    limit = grant.limit
    if limit is None:
        return GrantStatus(0, reason=grant.reason)
    return GrantStatus(limit.nodes, limit.cpu, float(memory_of(limit)), grant.reason)
