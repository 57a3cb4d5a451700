"""The planner: one plan at a time, judged by what it achieves; a person wins."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from threading import Event
from typing import Any

import pytest

from pliant.core.errors import Conflict, InvalidRequest, NotFound
from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.explain import explain, waits_for
from pliant.core.planning.guarded_algorithm import GaveUp
from pliant.core.planning.history import JobHistory, JobKind, NodeView, Objective, Period, Room
from pliant.core.planning.plan import ResourcePlan
from pliant.core.planning.plan_record import Outcome, PlanRecord
from pliant.core.planning.planner import Planner, PlannerSettings, PlannerState
from pliant.core.planning.proposal import Algorithm, Prediction, Proposal
from pliant.core.resources import Resources, RolloutMode
from pliant.testing.waiting import MAX_WAIT_S

BOUNDS = Bounds(RoleBounds(1, 16))
Found = Callable[[JobHistory, float], Proposal | None]


@dataclass(frozen=True)
class Says:
    """An algorithm of a team's own."""

    name: str
    find: Found

    def __call__(self, history: JobHistory, now: float) -> Proposal | None:
        return self.find(history, now)


def workers(count: int) -> Configuration:
    return Configuration(Shape(count))


def to(count: int, rate: float, low: float | None = None, name: str = "ours", **more: Any) -> Proposal:
    prediction = Prediction(rate, low if low is not None else 0.95 * rate, 1.05 * rate)
    return Proposal(name, f"{count} workers", workers(count), prediction, **more)


def always(proposal: Proposal) -> Algorithm:
    """Proposes it unless the job has it already."""
    return Says(
        proposal.algorithm, lambda history, now: None if history.configuration == proposal.configuration else proposal
    )


class Job:
    """A job whose rate and configuration a test sets; feeds the planner and obeys it."""

    def __init__(self, *algorithms: Algorithm, **settings: Any) -> None:
        self.planner = Planner(PlannerSettings(**settings), algorithms)
        self.now, self.version = 1000.0, 1
        self.configuration = workers(4)
        self.rates = {4: 40.0}
        self.began = 0.0
        self.obeys = True
        self.more: dict[str, Any] = {}

    def history(self) -> JobHistory:
        rate = self.rates.get(self.configuration.worker.replicas, 0.0)
        settled = self.now - self.began >= 30.0
        ours = Period(
            self.configuration, self.began + 20.0, self.now, rate, 0.01 * rate, int(self.now - self.began) // 5
        )
        periods = (ours,) if settled and rate else ()
        job = JobHistory(
            JobKind.QUEUE,
            self.configuration,
            BOUNDS,
            version=self.version,
            periods=periods,
            settling_since=None if settled and rate else self.began,
        )
        return replace(job, **self.more)

    def step(self, seconds: float = 5.0) -> str:
        self.now += seconds
        step = self.planner.next_step(self.history(), self.now)
        if step is None:
            return ""
        plan = self.planner.apply(step.method, self.now, step.arguments)
        if step.method == "looked":
            return ""
        if isinstance(plan, ResourcePlan) and self.obeys:
            self.carry_out(plan)
        return step.method

    def carry_out(self, plan: ResourcePlan) -> None:
        replicas = plan.roles["worker"].replicas
        assert replicas is not None
        self.configuration, self.began, self.version = workers(replicas), self.now, self.version + 1
        self.planner.accepted(self.now, plan=plan.id)

    def run(self, seconds: float) -> list[str]:
        return [found for _ in range(int(seconds / 5)) if (found := self.step())]

    def outcomes(self) -> list[tuple[str, str]]:
        return [(record.proposal.algorithm, record.outcome.value) for record in self.planner.records()]


def test_a_plan_is_made_carried_out_settles_and_is_judged() -> None:
    job = Job(always(to(8, 80.0)))
    job.rates[8] = 78.0
    assert job.run(200.0) == ["plan", "settled", "judged"]
    (record,) = job.planner.records()
    assert record.outcome is Outcome.KEPT
    assert record.achieved_rate == 78.0
    assert record.judgement == "better: 78 records per second, predicted 80, 40 before"
    assert job.planner.state is PlannerState.OBSERVING


def test_states_follow_the_plan() -> None:
    job = Job(always(to(8, 80.0, name="probe")))
    job.rates[8] = 78.0
    job.obeys = False
    job.run(40.0)
    assert job.planner.state is PlannerState.PLANNED
    record = job.planner.under_way
    assert record is not None
    job.carry_out(record.resource_plan())
    assert job.planner.state.value == "probing"
    while job.step() != "settled":
        pass
    assert job.planner.state.value == "judging"


def test_what_is_worse_is_rolled_back_and_not_tried_again_for_a_while() -> None:
    job = Job(always(to(8, 80.0, low=30.0)))
    job.rates[8] = 35.0
    assert job.run(2000.0) == ["plan", "settled", "judged", "settled"]
    assert job.outcomes() == [("ours", "rolled back"), ("judge", "kept")]
    assert job.configuration == workers(4)
    verdict = job.planner.verdict(job.history(), job.now)
    assert "tried and rolled back" in verdict.blocked
    job.run(4000.0)
    assert job.outcomes()[2:] == [("ours", "rolled back"), ("judge", "kept")]
    job.run(4500.0)
    assert len(job.outcomes()) == 4, "the second time it waits twice as long"


def test_an_algorithm_that_predicts_badly_only_advises_until_it_predicts_well_again() -> None:
    target = to(8, 200.0)
    job = Job(Says("ours", lambda history, now: target if history.configuration != target.configuration else None))
    job.rates |= {8: 30.0, 6: 60.0}
    job.run(400.0)
    assert job.planner.error_of("ours", job.now) > 0.3
    target = to(6, 61.0)
    job.run(800.0)
    assert job.outcomes()[-1] == ("ours", "advised")
    assert job.run(300.0) == [], "the same advice is recorded once"
    job.configuration, job.began = workers(6), job.now  # somebody else thinks so too
    job.run(200.0)
    assert job.planner.records()[-1].judgement.startswith("as advice, better: 60")
    assert job.planner.error_of("ours", job.now) < 0.3
    target = to(8, 30.0)
    assert not job.planner.verdict(job.history(), job.now + 20_000).is_advice


def test_trust_returns_with_time() -> None:
    job = Job(always(to(8, 200.0)))
    job.rates[8] = 30.0
    job.run(400.0)
    assert job.planner.error_of("ours", job.now) > 0.3
    assert job.planner.error_of("ours", job.now + 7200.0) < 0.3


def test_a_plan_that_is_not_answered_expires_and_one_that_is_refused_is_recorded() -> None:
    job = Job(always(to(8, 80.0)), expiry_s=30.0)
    job.obeys = False
    assert job.run(80.0) == ["plan", "expired"]
    job.run(100.0)
    record = job.planner.under_way
    assert record is not None
    job.planner.refused(job.now, plan=record.id, reason="the job is at version 7")
    assert job.outcomes() == [("ours", "expired"), ("ours", "refused")]
    with pytest.raises(Conflict, match="not under way: refused"):
        job.planner.accepted(job.now, plan=record.id)
    with pytest.raises(NotFound):
        job.planner.accepted(job.now, plan="auto-77")


def test_a_plan_that_is_under_way_ends_with_its_job_and_a_job_that_is_continued_can_plan() -> None:
    job = Job(always(to(8, 80.0)), always(to(12, 120.0, name="next")))
    job.rates |= {8: 78.0, 12: 118.0}
    job.run(15.0)
    assert job.planner.records()[0].standing == "under way"
    job.planner.job_ended(job.now)
    [record] = job.planner.records()
    assert (record.standing, record.ended_at) == ("carried out", job.now)
    assert job.planner.under_way is None
    job.planner.job_ended(job.now)
    job.run(400.0)
    assert len(job.planner.records()) > 1


def test_a_configuration_that_never_settles_is_taken_back() -> None:
    job = Job(always(to(8, 80.0)), settle_timeout_s=100.0)
    job.rates[8] = 0.0
    assert "unsettled" in job.run(300.0)
    assert job.configuration == workers(4)
    assert job.planner.error_of("ours", job.now) == 0.0, "that is not the fault of its prediction"


def test_a_persons_request_wins_and_pauses_the_planner_which_says_so() -> None:
    job = Job(always(to(8, 80.0)), pause_s=300.0)
    job.obeys = False
    job.run(40.0)
    job.planner.person_changed(job.now, reason="scaled to 2 workers")
    assert job.outcomes() == [("ours", "superseded")]
    assert job.planner.state is PlannerState.PAUSED
    assert "a person changed the job: scaled to 2 workers" in waits_for(job.planner, job.history(), job.now)
    assert job.run(290.0) == []
    assert job.run(20.0)[0] == "resume"
    assert job.planner.state is not PlannerState.PAUSED


def test_no_second_plan_while_one_is_under_way_unless_it_is_urgent() -> None:
    normal, urgent = to(8, 80.0), replace(to(6, 60.0, name="pending_fit"), urgent=True, prediction=None)
    appears: list[bool] = []
    job = Job(Says("pending_fit", lambda history, now: urgent if appears else None), always(normal))
    job.rates |= {8: 78.0, 6: 58.0}
    job.run(15.0)
    assert job.planner.state is PlannerState.SETTLING
    with pytest.raises(Conflict):
        job.planner.plan(
            job.now, proposal=normal.to_json(), before=workers(4).to_json(), version=1, objective="balanced"
        )
    appears.append(True)
    job.step()
    appears.clear()
    assert job.outcomes() == [("ours", "superseded"), ("pending_fit", "kept")]
    assert job.configuration == workers(6)


def test_what_all_wait_for_is_repaired_before_a_plan_is_judged_and_what_is_not_urgent_waits() -> None:
    repair = Proposal("straggler", "worker-3 is slow", workers(8), replace=("worker-3",), urgent=True)
    seen: list[Proposal] = []
    job = Job(Says("straggler", lambda history, now: seen[-1] if seen else None), always(to(8, 80.0)))
    job.rates |= {8: 30.0}
    job.more = {"nodes": (NodeView("worker-3", "worker"),)}
    job.run(15.0)
    seen.append(replace(repair, urgent=False))
    assert job.step() == ""
    assert job.planner.state is PlannerState.SETTLING
    seen.append(repair)
    job.obeys = False
    assert job.step() == "plan"
    assert job.outcomes() == [("ours", "superseded"), ("straggler", "planned")]


@pytest.mark.parametrize(("rate", "outcome"), [(78.0, "kept"), (30.0, "rolled back")])
def test_a_try_that_a_repair_interrupts_is_judged_after_it(rate: float, outcome: str) -> None:
    repair = Proposal("straggler", "worker-3 is slow", workers(8), replace=("worker-3",), urgent=True)
    is_slow: list[bool] = []
    job = Job(
        Says("straggler", lambda history, now: repair if is_slow else None), always(to(8, 80.0, 20.0, name="probe"))
    )
    job.more = {"nodes": (NodeView("worker-3", "worker"),)}
    job.rates |= {8: rate}
    job.run(15.0)
    is_slow.append(True)
    job.obeys = False
    assert job.step() == "plan"
    is_slow.clear()
    assert job.outcomes() == [("probe", "superseded"), ("straggler", "planned")]
    job.began = job.now
    job.planner.accepted(job.now, plan="auto-2")
    assert job.outcomes() == [("probe", "carried out"), ("straggler", "kept")], "there was nothing to compare it with"
    assert job.planner.state is PlannerState.PROBING
    job.run(200.0)
    assert job.outcomes()[:2] == [("probe", outcome), ("straggler", "kept")]


def test_what_would_spoil_a_judgement_comes_before_it() -> None:
    repair = Proposal("hot_ps", "one is hot", workers(8), moves={"ps-0": 0.3}, urgent=True)
    is_hot: list[bool] = []
    job = Job(Says("hot_ps", lambda history, now: repair if is_hot else None), always(to(8, 80.0)))
    job.more = {"nodes": (NodeView("ps-0", "ps"),)}
    job.rates |= {8: 78.0}
    while job.planner.state is not PlannerState.JUDGING:
        job.step()
    is_hot.append(True)
    job.obeys = False
    assert job.step() == "plan"
    is_hot.clear()
    job.planner.accepted(job.now, plan="auto-2")
    assert job.run(100.0) == 2 * ["settled", "judged"], "first what was moved, then what was interrupted"
    assert job.outcomes() == [("ours", "kept"), ("hot_ps", "kept")]


def test_where_nodes_were_unschedulable_it_does_not_go_again_for_a_while() -> None:
    down = replace(to(3, 30.0, name="pending_fit"), urgent=True, prediction=None)
    job = Job(
        Says("pending_fit", lambda history, now: down if history.pending else None), always(to(8, 80.0)), room_s=600.0
    )
    job.rates |= {8: 78.0, 3: 30.0}
    job.more = {"pending": ("worker-3",)}
    job.step()
    job.more = {}
    assert job.configuration == workers(3)
    job.run(500.0)
    assert job.configuration == workers(3)
    job.run(400.0)
    assert job.configuration == workers(8)


def test_a_proposal_beyond_the_bounds_is_never_planned() -> None:
    job = Job(always(to(17, 170.0)))
    assert job.run(200.0) == []
    assert "beyond the bounds" in job.planner.verdict(job.history(), job.now).blocked


def raises(history: JobHistory, now: float) -> Proposal | None:
    raise SystemExit("boom")


@pytest.mark.parametrize(
    ("find", "why"),
    [
        (raises, "SystemExit: boom (test_planner.py:"),
        (lambda history, now: 42, "returned int, neither a Proposal nor None"),
        (lambda history, now: Proposal("ours", "no", None), "proposal"),  # type: ignore[arg-type]
        (lambda history, now: to(8, float("nan")), "proposal.prediction.rate"),
    ],
)
def test_an_algorithm_that_fails_is_named_and_the_rest_of_the_chain_is_heard(find: Found, why: str) -> None:
    job = Job(Says("broken", find), always(to(8, 80.0)))
    job.rates |= {8: 78.0}
    job.run(60.0)
    assert job.configuration == workers(8)
    [failing] = job.planner.failing
    assert failing.name == "broken"
    assert why in failing.failure
    assert f"broken failed: {why}" in explain(job.planner, job.history(), job.now).not_yet


@pytest.mark.parametrize("nonsense", [{"replace": ("nobody",)}, {"seats": {"worker-0": 3}}, {"moves": {"ps-9": 2.0}}])
def test_a_proposal_that_makes_no_sense_for_the_job_is_never_planned_and_others_go_on(nonsense: Any) -> None:
    job = Job(always(replace(to(6, 60.0, name="nonsense"), **nonsense)), always(to(8, 80.0)))
    job.rates |= {8: 78.0}
    job.run(60.0)
    assert job.outcomes()[0][0] == "ours"
    assert job.configuration == workers(8)


def test_a_proposal_carries_the_name_by_which_its_algorithm_is_in_the_chain() -> None:
    """Else one could take on the trust, or lose that, of another one."""
    job = Job(Says("theirs", lambda history, now: to(8, 80.0, name="pending_fit", urgent=True)))
    found = job.planner.verdict(job.history(), job.now).proposal
    assert found is not None
    assert found.algorithm == "theirs"


def test_an_algorithm_that_is_given_up_is_not_asked_before_it_returned_and_its_late_answer_is_dropped() -> None:
    entered, leave = Event(), Event()

    def hangs(history: JobHistory, now: float) -> Proposal | None:
        entered.set()
        assert leave.wait(MAX_WAIT_S)
        return to(6, 60.0)

    job = Job(Says("hanging", hangs), always(to(8, 80.0)))
    with ThreadPoolExecutor(1) as beside:
        stuck = beside.submit(job.planner.verdict, job.history(), job.now)
        assert entered.wait(MAX_WAIT_S)
        job.planner.give_up("did not answer")
        found = job.planner.verdict(job.history(), job.now).proposal
        assert [(each.name, each.failure) for each in job.planner.failing] == [("hanging", "did not answer")]
        leave.set()
        with pytest.raises(GaveUp):
            stuck.result(MAX_WAIT_S)
    assert found is not None
    assert found.algorithm == "ours"
    again = job.planner.verdict(job.history(), job.now).proposal
    assert again is not None
    assert again.algorithm == "hanging", "it answers again"


def test_a_dry_run_only_advises_and_each_advice_once() -> None:
    job = Job(always(to(8, 80.0)), always(to(6, 60.0, name="other")), dry_run=True)
    assert job.run(1000.0) == ["plan", "plan"]
    assert job.outcomes() == [("ours", "advised"), ("other", "advised")]
    assert job.configuration == workers(4)


def test_advice_for_people_is_recorded_once_and_never_carried_out_and_others_go_on() -> None:
    advice = replace(to(8, 80.0), advice=True)
    job = Job(always(advice), always(to(6, 60.0, name="other")))
    job.rates[6] = 60.0
    job.run(1000.0)
    assert ("ours", "advised") in job.outcomes()
    assert [name for name, _ in job.outcomes()].count("ours") == 1
    assert job.configuration == workers(6), "the plan of the other"


def test_the_cool_down_grows_while_plans_bring_nothing() -> None:
    counts = iter(range(5, 17))
    job = Job(Says("ours", lambda history, now: to(next(counts), 41.0)))
    job.rates |= dict.fromkeys(range(5, 17), 42.0)
    job.run(6000.0)
    made = [record.time for record in job.planner.records() if not record.rolls_back]
    waits = [later - earlier for earlier, later in pairwise(made)]
    assert len(waits) >= 3
    assert waits == sorted(waits)
    assert waits[-1] > 2 * waits[0]


def test_a_plan_that_leaves_cpu_alone_is_reached_whatever_cpu_nodes_have_that_were_launched_before() -> None:
    fewer = Proposal("ours", "fewer", Configuration(Shape(8, 1.2)))
    record = PlanRecord("auto-1", 0.0, fewer, Configuration(Shape(16, 1.2)), 1.0, 0.1, Objective.BALANCED, 1, 60.0)
    assert record.is_reached_by(Configuration(Shape(8, 2.0)))
    assert not record.is_reached_by(Configuration(Shape(16, 1.2)))
    resized = replace(record, before=Configuration(Shape(16, 2.0)))
    assert not resized.is_reached_by(Configuration(Shape(8, 2.0))), "nodes are not resized yet"


def test_what_is_urgent_is_heard_before_the_rest_of_the_chain_and_what_is_not_in_its_order() -> None:
    slow = Proposal("straggler", "worker-3 is slow", workers(4), replace=("worker-3",))
    job = Job(always(to(8, 80.0)), Says("straggler", lambda history, now: slow))
    job.more = {"nodes": (NodeView("worker-3", "worker"),)}
    found = job.planner.verdict(job.history(), job.now).proposal
    assert found is not None
    assert found.algorithm == "ours"
    slow = replace(slow, urgent=True)
    found = job.planner.verdict(job.history(), job.now).proposal
    assert found is not None
    assert found.algorithm == "straggler"


def test_room_that_the_job_could_never_use_is_no_news() -> None:
    asked: list[float] = []
    job = Job(Says("ours", lambda history, now: asked.append(now)))
    for free in (1000.0, 900.0, 800.0, 1000.0):
        job.more = {"room": Room(free, 10_000_000.0)}
        job.step(0.001)
    assert len(asked) == 1
    job.more = {"room": Room(2.0, 10_000_000.0)}
    job.step(0.001)
    assert len(asked) == 2


def test_what_is_only_for_the_next_restart_is_not_waited_for() -> None:
    smaller = Proposal("right_size", "less", Configuration(Shape(4, 0.5, 100)), at_next_restart=True)
    planner = Planner(algorithms=[])
    plan = planner.plan(
        0.0,
        proposal=smaller.to_json(),
        before=Configuration(Shape(4, 1.0, 200, gpu=1)).to_json(),
        version=3,
        objective="balanced",
        rate=40.0,
    )
    assert plan is not None
    role = plan.roles["worker"]
    assert (role.replicas, role.rollout) == (None, RolloutMode.NEW_NODES)
    assert (plan.base_version, plan.algorithm, plan.expires) == (3, "right_size", 120.0)
    planner.accepted(1.0, plan=plan.id)
    assert planner.records()[0].outcome is Outcome.KEPT


def test_a_resource_plan_has_only_what_changes_and_keeps_gpus() -> None:
    before = Configuration(Shape(4, 1.0, 200, gpu=1), Shape(2, 1.0, 100))
    after = replace(before, worker=replace(before.worker, replicas=6, cpu=2.0))
    proposal = Proposal("ours", "more", after, replace=("worker-1",), moves={"ps-0": 0.25})
    planner = Planner(algorithms=[])
    plan = planner.plan(0.0, proposal=proposal.to_json(), before=before.to_json(), version=1, objective="fastest")
    assert plan is not None
    assert list(plan.roles) == ["worker"]
    assert plan.roles["worker"].replicas == 6
    assert plan.roles["worker"].resources == Resources(2.0, 200, 1)
    assert [replacement.node for replacement in plan.replace] == ["worker-1"]
    assert plan.moves == {"ps-0": 0.25}
    (record,) = planner.records()
    assert PlanRecord.from_json(record.to_json()) == record


def test_operations_that_make_no_sense_are_refused_and_leave_no_trace() -> None:
    job = Job(always(to(8, 80.0)))
    job.run(40.0)
    before = job.planner.snapshot()
    with pytest.raises(InvalidRequest):
        job.planner.judged(job.now, plan="auto-1", rate=-1.0, error=0.0, version=1)
    with pytest.raises(InvalidRequest):
        job.planner.pause(job.now, seconds=-1.0, reason="")
    with pytest.raises(NotFound):
        job.planner.advice_judged(job.now, plan="x", rate=1.0, error=0.0)
    assert job.planner.snapshot() == before


def test_explain_says_where_time_goes_what_comes_next_and_why_not_yet() -> None:
    job = Job(always(to(8, 80.0)))
    young = explain(job.planner, replace(job.history(), periods=(), settling_since=job.now), job.now)
    assert young.curve == ()
    found = explain(job.planner, job.history(), job.now)
    assert found.rate == 40.0
    assert found.next_plan is not None
    assert found.next_plan.configuration.worker.replicas == 8
    assert sum(found.terms.values()) == pytest.approx(1.0)
    assert found.bottleneck in found.terms
    measured = {point.workers: point.measured for point in found.curve}
    assert measured[4] == 40.0
    assert max(measured) == 8
    assert all(point.low <= point.rate <= point.high for point in found.curve)
    job.run(15.0)
    busy = explain(job.planner, job.history(), job.now)
    assert busy.not_yet.startswith("plan auto-1 is settling: 8 workers")
    assert busy.to_json()["state"] == "settling"
    nothing = explain(Planner(algorithms=[]), job.history(), job.now)
    assert nothing.next_plan is None
    assert nothing.not_yet
