"""A line for each plan of a followed job: when it is made, and what came of it.

Plans are asked for when the status says that something has changed about them, not with every look at the job.
"""

from __future__ import annotations

from collections.abc import Callable

from pliant.cli.render.plans import plan_lines
from pliant.core.errors import PliantError
from pliant.core.planning.planner_state import PlannerState
from pliant.core.status import JobStatus, PlannerStatus, PlanStatus
from pliant.handles.job_handle import Caller
from pliant.rpc import pliant_pb2 as pb
from pliant.rpc.planning import plans_from


class PlanReporter:
    def __init__(self, say: Callable[[str], None], *, from_now_on: bool) -> None:
        """``from_now_on``: plans that were made before are not said."""
        self._say = say
        self._is_silent = from_now_on
        self._known: dict[str, str] = {}  # by plan, its standing
        self._seen: tuple[PlannerStatus, PlanStatus | None] | None = None
        self._paused = ""  # until when and why, as it was said

    def report(self, status: JobStatus, caller: Caller, *, timeout: float) -> None:
        planner = status.planner
        if planner is None or (planner, status.last_plan) == self._seen:
            return
        try:
            found = plans_from(caller.call(caller.planning.GetPlans, pb.Empty(), timeout=timeout))
        except PliantError:
            return  # the master is being restarted; the next look asks again
        self._seen = (planner, status.last_plan)
        lines = plan_lines(self._known, found.plans)
        if not self._is_silent:
            for line in lines:
                self._say(line)
        self._is_silent = False
        self._say_pause(planner, status.time)

    def _say_pause(self, planner: PlannerStatus, now: float) -> None:
        paused = f"{planner.until} {planner.reason}" if planner.state is PlannerState.PAUSED else ""
        if paused and paused != self._paused:
            self._say(f"planner {planner.waits_for(now)}")
        self._paused = paused
