"""What a job's status says of its planner."""

from __future__ import annotations

from pliant.core.planning.planner import Planner
from pliant.core.status import PlannerStatus


def planner_status(planner: Planner) -> PlannerStatus:
    record, paused = planner.under_way, planner.paused
    until, reason = paused if paused is not None else (planner.not_before, "")
    return PlannerStatus(
        planner.state,
        until=0.0 if record is not None and paused is None else until,
        reason=reason or (record.proposal.reason if record is not None else ""),
        plan=record.id if record is not None else "",
        dry_run=planner.settings.dry_run,
    )
