"""Any sequence of operations: one plan under way, refusals leave no trace, and the journal yields the same planner again."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pliant.core.errors import PliantError
from pliant.core.planning.configuration import Configuration, Shape
from pliant.core.planning.history import Objective
from pliant.core.planning.plan import ResourcePlan
from pliant.core.planning.plan_record import Outcome
from pliant.core.planning.planner import Planner, PlannerSettings, PlannerState
from pliant.core.planning.proposal import Prediction, Proposal

OPEN = (Outcome.PLANNED, Outcome.CARRIED_OUT)

configurations = st.builds(
    lambda count, memory: Configuration(Shape(count, 1.0, memory)), st.integers(1, 4), st.just(100)
)
predictions = st.none() | st.sampled_from([Prediction(50.0, 40.0, 60.0), Prediction(200.0, 190.0, 210.0)])
proposals = st.builds(
    Proposal,
    st.sampled_from(["probe", "plan_job", "pending_fit"]),
    st.just("because"),
    configurations,
    predictions,
    urgent=st.booleans(),
    at_next_restart=st.booleans(),
)
plans = st.integers(1, 12).map(lambda number: f"auto-{number}")
rates = st.sampled_from([0.0, 30.0, 50.0, 200.0])


class Operations(RuleBasedStateMachine):
    @initialize(dry_run=st.booleans())
    def begin(self, dry_run: bool) -> None:
        self.settings = PlannerSettings(dry_run=dry_run, max_records=6)
        self.planner = Planner(self.settings, algorithms=[])
        self.other = Planner(self.settings, algorithms=[])  # is restored from snapshots on the way
        self.journal: list[tuple[str, float, str]] = []
        self.now = 0.0

    def apply(self, method: str, arguments: dict[str, Any]) -> Any:
        self.now += 7.0
        text = json.dumps(arguments)
        before = self.planner.snapshot()
        try:
            result = self.planner.apply(method, self.now, json.loads(text))
        except PliantError:
            assert self.planner.snapshot() == before, "a refused operation leaves no trace"
            return None
        self.journal.append((method, self.now, text))
        assert self.other.apply(method, self.now, json.loads(text)) == result
        return result

    @rule(
        proposal=proposals,
        before=configurations,
        rate=rates,
        advice=st.booleans(),
        objective=st.sampled_from(Objective),
    )
    def plan(self, proposal: Proposal, before: Configuration, rate: float, advice: bool, objective: Objective) -> None:
        arguments = {"proposal": proposal.to_json(), "before": before.to_json(), "version": 1}
        more = {"objective": objective.value, "rate": rate, "error": rate / 50, "advice": advice}
        plan = self.apply("plan", {**arguments, **more})
        if isinstance(plan, ResourcePlan):
            assert not self.settings.dry_run
            assert self.planner.under_way is not None
            assert self.planner.under_way.id == plan.id

    def under_way(self) -> str:
        record = self.planner.under_way
        return record.id if record is not None else "auto-0"

    @rule(method=st.sampled_from(["accepted", "settled"]), plan=plans, right=st.booleans())
    def go_on(self, method: str, plan: str, right: bool) -> None:
        self.apply(method, {"plan": self.under_way() if right else plan})

    @rule(method=st.sampled_from(["refused", "expired"]), plan=plans, right=st.booleans())
    def end(self, method: str, plan: str, right: bool) -> None:
        self.apply(method, {"plan": self.under_way() if right else plan, "reason": "so it is"})

    @rule(rate=rates, right=st.booleans(), plan=plans)
    def judge(self, rate: float, right: bool, plan: str) -> None:
        arguments = {"plan": self.under_way() if right else plan, "rate": rate, "error": rate / 50, "version": 2}
        back = self.apply("judged", arguments)
        if isinstance(back, ResourcePlan):
            assert self.planner.state is PlannerState.ROLLED_BACK

    @rule(plan=plans, rate=rates)
    def judge_advice(self, plan: str, rate: float) -> None:
        self.apply("advice_judged", {"plan": plan, "rate": rate, "error": rate / 50})

    @rule()
    def never_settles(self) -> None:
        self.apply("unsettled", {"plan": self.under_way(), "reason": "never", "version": 2})

    @rule()
    def person(self) -> None:
        self.apply("person_changed", {"reason": "scaled"})
        assert self.planner.state is PlannerState.PAUSED
        assert self.planner.under_way is None

    @rule(key=st.sampled_from(["a", "b"]))
    def look(self, key: str) -> None:
        self.apply("looked", {"key": key})

    @rule()
    def resume(self) -> None:
        self.apply("resume", {})

    @rule()
    def restart(self) -> None:
        self.other = Planner(self.settings, algorithms=[])
        self.other.restore(json.loads(json.dumps(self.planner.snapshot())))

    @invariant()
    def at_most_one_plan_is_under_way(self) -> None:
        open_plans = [record.id for record in self.planner.records() if record.outcome in OPEN]
        record = self.planner.under_way
        assert open_plans == ([record.id] if record is not None else [])
        assert (record is None) == (self.planner.state in (PlannerState.OBSERVING, PlannerState.PAUSED))
        assert len(self.planner.records()) <= 6

    @invariant()
    def a_restored_planner_is_the_same(self) -> None:
        assert self.other.snapshot() == self.planner.snapshot()

    def teardown(self) -> None:
        replayed = Planner(self.settings, algorithms=[])
        for method, now, text in self.journal:
            replayed.apply(method, now, json.loads(text))
        assert replayed.snapshot() == self.planner.snapshot()


TestOperations = Operations.TestCase
TestOperations.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
