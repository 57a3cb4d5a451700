"""The administor of one job: looks at what its master reports, and raises optimize events, one at a time.

A pure state machine: events in, decisions out, no clock and no I/O of its own.

    created -> observing -> issue seen -> waiting for judgement -> observing
                   ^             |                  |
                   +-------------+------------------+            ended, from any state

- At most one event is dealt with at a time, and at most one offer is out. An urgent event may come while an offer is out: the
  job's planner decides what that supersedes.
- Each state of affairs is raised once (``OptimizeEvent.key``); nothing is raised for a job that cannot take a plan now: its planner
  rests, is paused or settles, or the job plans by itself.
- An offer is out until its outcome is reported, it has expired, or the job has another master, which never heard of it.
- A Brain that takes over knows only what is in the database: whether the job was ever told how to begin. The rest it sees again;
  that a master plans the same thing twice is ruled out there, by the version that an offer was made for.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pliant.brain.optimize_events import EventKind, OptimizeEvent
from pliant.brain.symptoms import symptoms
from pliant.core.job import FINAL_PHASES, Phase
from pliant.core.planning.cluster.report import PlannerFacts
from pliant.core.planning.history import JobHistory
from pliant.core.planning.plan_record import PlanRecord
from pliant.core.planning.planner_state import PlannerState

_IDLE = ("", PlannerState.OBSERVING.value)
_SETTLES = (PlannerState.PROBING.value, PlannerState.SETTLING.value, PlannerState.JUDGING.value)
OUTCOME_TIMEOUT_S = 1800.0  # for which the judgement of an accepted plan is waited for


class AdministorState(StrEnum):
    CREATED = "created"
    OBSERVING = "observing"
    ISSUE_SEEN = "issue seen"
    WAITING = "waiting for judgement"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class ReportedState:
    """What a report says that the administor goes by."""

    phase: str
    session: int
    planner: PlannerFacts
    history: JobHistory | None  # None: nothing is planned for this job
    plans: tuple[PlanRecord, ...] = ()  # whose outcome changed


class Administor:
    def __init__(self, *, has_begun: bool = False) -> None:
        """``has_begun``: the job was told how to begin, or has nodes already."""
        self.state = AdministorState.OBSERVING if has_begun else AdministorState.CREATED
        self._raised: dict[EventKind, str] = {}
        self._event: OptimizeEvent | None = None
        self._offer = ""
        self._expires = 0.0
        self._session = 0
        self._reported: ReportedState | None = None

    @property
    def event(self) -> OptimizeEvent | None:
        """The one that is being dealt with."""
        return self._event

    @property
    def offer(self) -> str:
        """The one that is out; empty: none."""
        return self._offer

    def reported(self, now: float, reported: ReportedState) -> OptimizeEvent | None:
        """The event that is raised now, if any: deal with it and call ``processed``."""
        if self.state is AdministorState.ENDED:
            return None
        self._reported = reported
        if reported.session != self._session:
            self._session = reported.session
            self._offer = ""
        if Phase(reported.phase) in FINAL_PHASES:
            self.state, self._event, self._offer = AdministorState.ENDED, None, ""
            return None
        self._note_outcomes(now, reported)
        return self.look(now)

    def look(self, now: float) -> OptimizeEvent | None:
        """As ``reported``, without news of the job: time has passed, or its grant has changed."""
        if self._offer and now >= self._expires:
            self._offer = ""
        if self.state is AdministorState.WAITING and not self._offer:
            self.state = AdministorState.OBSERVING
        if self.state in (AdministorState.ENDED, AdministorState.ISSUE_SEEN) or self._reported is None:
            return None
        found = self._next(now, self._reported)
        if found is not None:
            self._event, self._raised[found.kind] = found, found.key
            self.state = AdministorState.ISSUE_SEEN
        return found

    def processed(self, now: float, *, offer: str = "", holds_s: float = 0.0) -> None:
        """The event was dealt with: by an offer, or by nothing."""
        if self.state is AdministorState.ENDED:
            return
        self._event = None
        if offer:
            self._offer, self._expires = offer, now + holds_s
        self.state = AdministorState.WAITING if self._offer else AdministorState.OBSERVING

    def failed(self, now: float, *, again_at_next_report: bool = True) -> None:
        """The event could not be dealt with (no process, no database): it is raised again."""
        if self._event is not None and again_at_next_report:
            self._raised.pop(self._event.kind, None)
        if (
            self._event is not None
            and self._event.kind is EventKind.CREATED
            and self.state is not AdministorState.ENDED
        ):
            self._event, self.state = None, AdministorState.CREATED
            return
        self.processed(now)

    # --- inside

    def _next(self, now: float, reported: ReportedState) -> OptimizeEvent | None:
        history = reported.history
        if history is None or not reported.planner.state:
            return None
        if self.state is AdministorState.CREATED:
            if history.nodes or history.periods:
                self.state = AdministorState.OBSERVING  # it has begun by itself
            else:
                return OptimizeEvent(EventKind.CREATED, f"a job of the kind {history.kind.value}", "created")
        if not reported.planner.is_led or reported.planner.state == PlannerState.PAUSED.value:
            return None
        is_free = reported.planner.state in _IDLE and reported.planner.rests_s <= 0 and not self._offer
        takes_urgent = reported.planner.state in (*_IDLE, *_SETTLES)
        for found in symptoms(history, now):
            if self._raised.get(found.kind) == found.key:
                continue
            if is_free or (found.is_urgent and takes_urgent):
                return found
        return None

    def _note_outcomes(self, now: float, reported: ReportedState) -> None:
        for record in reported.plans:
            if self._offer and record.origin == self._offer:
                if record.ended_at is not None:
                    self._offer = ""
                else:
                    self._expires = max(self._expires, now + OUTCOME_TIMEOUT_S)
