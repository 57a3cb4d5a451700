from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

from tests.core.planning.records import KEPT, NOW

from pliant.cli.following.plan_reporter import PlanReporter
from pliant.core.errors import MasterUnavailable
from pliant.core.job import Phase
from pliant.core.planning.plan_record import Outcome, PlanRecord
from pliant.core.planning.planner_state import PlannerState
from pliant.core.planning.reports import JobPlans
from pliant.core.status import JobStatus, PlannerStatus
from pliant.handles.job_handle import Caller
from pliant.rpc.planning import plans_message

UNDER_WAY = replace(KEPT, outcome=Outcome.CARRIED_OUT, ended_at=None, judgement="")
OBSERVING, SETTLING = PlannerStatus(PlannerState.OBSERVING), PlannerStatus(PlannerState.SETTLING, plan="auto-1")
MADE = "plan auto-1 (plan_job): 8 workers are twice as fast; expects 80 records/s (70 to 90)"


@dataclass
class Master:
    """Answers as a master does that has these plans; None: it is away."""

    records: tuple[PlanRecord, ...] | None = ()
    asked: int = 0
    planning: Any = field(default_factory=lambda: SimpleNamespace(GetPlans=None))

    def call(self, method: object, request: object, *, timeout: float) -> Any:
        self.asked += 1
        if self.records is None:
            raise MasterUnavailable("away")
        return plans_message(JobPlans("digits", OBSERVING, self.records))


def look(reporter: PlanReporter, master: Master, planner: PlannerStatus | None) -> None:
    status = JobStatus("digits", Phase.RUNNING, time=NOW, planner=planner)
    reporter.report(status, cast(Caller, master), timeout=1.0)


def test_plans_are_asked_for_only_when_something_has_changed() -> None:
    said: list[str] = []
    reporter, master = PlanReporter(said.append, from_now_on=False), Master()
    look(reporter, master, None)
    assert master.asked == 0
    for _ in range(3):
        look(reporter, master, OBSERVING)
    assert (master.asked, said) == (1, [])
    master.records = (UNDER_WAY,)
    look(reporter, master, SETTLING)
    master.records = (KEPT,)
    look(reporter, master, OBSERVING)
    assert said == [MADE, "plan auto-1 kept: better: 78 records per second"]


def test_a_master_that_is_away_is_asked_again() -> None:
    said: list[str] = []
    reporter, master = PlanReporter(said.append, from_now_on=False), Master(None)
    look(reporter, master, SETTLING)
    master.records = (UNDER_WAY,)
    look(reporter, master, SETTLING)
    assert said == [MADE]


def test_who_attaches_is_told_of_what_comes_and_not_of_what_was() -> None:
    said: list[str] = []
    reporter, master = PlanReporter(said.append, from_now_on=True), Master((UNDER_WAY,))
    look(reporter, master, SETTLING)
    assert said == []
    master.records = (KEPT,)
    look(reporter, master, OBSERVING)
    assert said == ["plan auto-1 kept: better: 78 records per second"]


def test_a_pause_is_said_once_with_its_reason() -> None:
    said: list[str] = []
    reporter, master = PlanReporter(said.append, from_now_on=False), Master()
    for _ in range(2):
        look(reporter, master, PlannerStatus(PlannerState.PAUSED, NOW + 90, "scaled by hand"))
        look(reporter, master, PlannerStatus(PlannerState.PAUSED, NOW + 90, "scaled by hand", dry_run=True))
    assert said == ["planner paused for another 90 s: scaled by hand"]
