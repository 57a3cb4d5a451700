"""Events on an ElasticJob for the plans of a job that plans its own resources, made of what its master reports in the status.

The status has the newest plan only, and a reconciler may see some of its states and not others: ``pliant plans`` has them all.
What was reported before the operator started is not repeated.
"""

from __future__ import annotations

from dataclasses import dataclass

from pliant.core.planning.planner_state import PlannerState
from pliant.core.status import JobStatus, PlannerStatus, PlanStatus
from pliant.operator.actions import EmitEvent
from pliant.platforms.kubernetes.timestamps import seconds_of

RECENT_S = 60.0  # a plan that is younger is news, even to an operator that has just started
UNDER_WAY = "under way"


@dataclass(frozen=True, slots=True)
class SeenPlan:
    """What a reconciler has seen of a job's planning."""

    plan: PlanStatus | None = None
    planner: PlannerStatus | None = None


def plan_events(status: JobStatus, seen: SeenPlan | None, now: float) -> list[EmitEvent]:
    """What is new. ``seen``: None if nothing was seen yet."""
    events = []
    plan, planner = status.last_plan, status.planner
    if plan is not None and plan.algorithm:
        before = seen.plan if seen is not None else None
        is_other = before is None or before.name != plan.name
        if is_other and (seen is not None or now - seconds_of(plan.time) < RECENT_S):
            events.append(EmitEvent("Plan", f"{plan.name} by {plan.algorithm}: {plan.reason}"))
        has_ended = plan.outcome != UNDER_WAY and (is_other or (before is not None and before.outcome == UNDER_WAY))
        if seen is not None and has_ended:
            judged = f": {plan.judgement}" if plan.judgement else ""
            events.append(EmitEvent("PlanEnded", f"{plan.name} {plan.outcome}{judged}"))
    if planner is not None and seen is not None and _pause(planner) not in (None, _pause(seen.planner)):
        events.append(EmitEvent("PlannerPaused", planner.waits_for(now)))
    return events


def _pause(planner: PlannerStatus | None) -> tuple[float, str] | None:
    """None: there is none."""
    if planner is None or planner.state is not PlannerState.PAUSED:
        return None
    return planner.until, planner.reason
