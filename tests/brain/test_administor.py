from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.core.planning.histories import NOW, usual_history

from pliant.brain.administor import Administor, AdministorState, ReportedState
from pliant.brain.optimize_events import EventKind, OptimizeEvent
from pliant.core.planning.cluster.report import PlannerFacts
from pliant.core.planning.history import JobHistory, NodeView, Objective, OutOfMemory
from pliant.core.planning.plan_record import Outcome, PlanRecord
from pliant.core.planning.planner_state import PlannerState
from pliant.core.planning.proposal import Proposal

LED = PlannerFacts("observing", is_led=True)


def state_of(history: JobHistory | None = None, planner: PlannerFacts = LED, **more: object) -> ReportedState:
    found = ReportedState("Running", 1, planner, history or usual_history())
    return replace(found, **more)  # type: ignore[arg-type]


def record(origin: str, *, ended: bool) -> PlanRecord:
    configuration = usual_history().configuration
    proposal = Proposal("plan_job", "because", configuration)
    return PlanRecord(
        *("auto-1", NOW, proposal, configuration, 1.0, 0.1, Objective.BALANCED, 1, NOW + 60),
        outcome=Outcome.KEPT if ended else Outcome.CARRIED_OUT,
        ended_at=NOW if ended else None,
        origin=origin,
    )


def begun() -> Administor:
    return Administor(has_begun=True)


def test_a_new_job_is_asked_how_to_begin_even_before_the_brain_leads() -> None:
    administor = Administor()
    empty = replace(usual_history(), nodes=(), periods=())
    event = administor.reported(NOW, state_of(empty, PlannerFacts("observing")))
    assert event is not None
    assert event.kind is EventKind.CREATED
    administor.processed(NOW)
    assert administor.state is AdministorState.OBSERVING
    assert administor.reported(NOW + 1, state_of(empty)) is None, "it was answered"


def test_a_job_that_began_by_itself_is_only_observed() -> None:
    administor = Administor()
    event = administor.reported(NOW, state_of())
    assert event is not None
    assert event.kind is not EventKind.CREATED


def test_one_event_at_a_time_and_each_state_of_affairs_once() -> None:
    administor = begun()
    first = administor.reported(NOW, state_of())
    assert first is not None
    assert administor.reported(NOW + 1, state_of()) is None, "it is being dealt with"
    administor.processed(NOW + 2)
    second = administor.reported(NOW + 3, state_of())
    assert second is None or second.kind is not first.kind


def test_what_could_not_be_dealt_with_is_raised_again() -> None:
    administor = begun()
    first = administor.reported(NOW, state_of())
    administor.failed(NOW)
    assert administor.reported(NOW + 1, state_of()) == first
    fresh = Administor()
    empty = replace(usual_history(), nodes=(), periods=())
    assert fresh.reported(NOW, state_of(empty)) is not None
    fresh.failed(NOW)
    again = fresh.reported(NOW + 1, state_of(empty))
    assert again is not None
    assert again.kind is EventKind.CREATED


def test_nothing_is_raised_while_the_planner_rests_or_a_person_has_paused_it() -> None:
    for planner in (
        PlannerFacts("observing", rests_s=10.0, is_led=True),
        PlannerFacts("paused", rests_s=10.0, is_led=True),
        PlannerFacts("observing", is_led=False),
    ):
        assert begun().reported(NOW, state_of(planner=planner)) is None


def test_what_is_urgent_waits_for_no_rest() -> None:
    oom = replace(usual_history(), out_of_memory=(OutOfMemory(NOW, "worker", 2048, 2048),))
    event = begun().reported(NOW, state_of(oom, PlannerFacts("settling", is_led=True)))
    assert event is not None
    assert event.kind is EventKind.OUT_OF_MEMORY
    paused = begun().reported(NOW, state_of(oom, PlannerFacts("paused", rests_s=9.0, is_led=True)))
    assert paused is None, "a person wins"


def test_an_offer_is_out_until_its_outcome_is_known() -> None:
    administor = begun()
    assert administor.reported(NOW, state_of()) is not None
    administor.processed(NOW, offer="one", holds_s=60)
    assert administor.state is AdministorState.WAITING
    changed = replace(usual_history(), version=9)
    assert administor.reported(NOW + 1, state_of(changed)) is None
    administor.reported(NOW + 2, state_of(changed, plans=(record("one", ended=False),)))
    assert administor.offer == "one", "accepted, and not judged"
    assert administor.reported(NOW + 3, state_of(changed, plans=(record("one", ended=True),))) is not None
    assert administor.offer == ""


def test_an_offer_that_nobody_took_expires_and_one_of_an_earlier_master_is_forgotten() -> None:
    administor = begun()
    administor.reported(NOW, state_of())
    administor.processed(NOW, offer="one", holds_s=60)
    assert administor.reported(NOW + 59, state_of(replace(usual_history(), version=9))) is None
    assert administor.reported(NOW + 61, state_of(replace(usual_history(), version=9))) is not None
    administor.processed(NOW + 61, offer="two", holds_s=60)
    administor.reported(NOW + 62, state_of(session=2))
    assert administor.offer == ""


def test_a_job_that_ended_raises_nothing_more() -> None:
    administor = begun()
    administor.reported(NOW, state_of(phase="Succeeded"))
    assert administor.state is AdministorState.ENDED
    assert administor.reported(NOW + 1, state_of()) is None
    administor.processed(NOW, offer="late", holds_s=9)
    assert administor.state is AdministorState.ENDED


def test_a_job_that_nobody_plans_for_raises_nothing() -> None:
    assert Administor().reported(NOW, replace(state_of(), history=None)) is None
    assert Administor().reported(NOW, state_of(planner=PlannerFacts(""))) is None


class AnyReports(RuleBasedStateMachine):
    """Whatever is reported, in whatever order."""

    def __init__(self) -> None:
        super().__init__()
        self.administor = Administor()
        self.now = NOW
        self.open: OptimizeEvent | None = None
        self.raised: list[tuple[EventKind, str]] = []
        self.state_of = state_of()

    @rule(
        version=st.integers(0, 3),
        state=st.sampled_from([*PlannerState]),
        rests=st.sampled_from([0.0, 5.0]),
        led=st.booleans(),
        slow=st.booleans(),
        session=st.integers(1, 3),
        ended=st.booleans(),
    )
    def report(
        self, version: int, state: PlannerState, rests: float, led: bool, slow: bool, session: int, ended: bool
    ) -> None:
        history = replace(usual_history(), version=version)
        if slow:
            nodes = tuple(NodeView(f"worker-{n}", "worker", records_per_second=1.0 if n else 0.1) for n in range(4))
            history = replace(history, nodes=nodes)
        self.now += 1
        plans = (record(self.administor.offer, ended=ended),) if self.administor.offer else ()
        self.state_of = ReportedState("Running", session, PlannerFacts(state.value, rests, led), history, plans)
        before = self.open
        event = self.administor.reported(self.now, self.state_of)
        if event is not None:
            assert before is None, "one at a time"
            assert led
            assert state is not PlannerState.PAUSED
            self.open = event
            self.raised.append((event.kind, event.key))

    @rule(offers=st.booleans())
    def process(self, offers: bool) -> None:
        if self.open is not None:
            self.administor.processed(self.now, offer=f"o{self.now}" if offers else "", holds_s=30)
            self.open = None

    @rule(seconds=st.floats(0, 100))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def its_state_says_what_is_under_way(self) -> None:
        assert (self.administor.state is AdministorState.ISSUE_SEEN) == (self.open is not None)
        if self.administor.state is AdministorState.WAITING:
            assert self.administor.offer

    @invariant()
    def nothing_is_raised_twice_in_a_row(self) -> None:
        by_kind: dict[EventKind, list[str]] = {}
        for kind, key in self.raised:
            by_kind.setdefault(kind, []).append(key)
        for keys in by_kind.values():
            assert all(one != other for one, other in pairwise(keys))


TestAnyReports = AnyReports.TestCase
TestAnyReports.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
