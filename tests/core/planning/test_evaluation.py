from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import pytest
from tests.core.planning.recorded_jobs import BEGAN, KNEE, TRUTHS, Doubles, configuration, recorded
from tests.core.planning.world import World

from pliant.core.planning.algorithms.plan_job import PlanJob
from pliant.core.planning.configuration import Bounds, RoleBounds
from pliant.core.planning.evaluation import Evaluation, Kind, evaluate
from pliant.core.planning.history import FinishedJob, JobHistory, Objective, OutOfMemory
from pliant.core.planning.planner import Planner
from pliant.core.planning.proposal import Prediction, Proposal
from pliant.core.planning.registry import algorithm
from pliant.core.planning.replay import RecordedJob, moments

UP = recorded("up", KNEE, [1, 2, 4, 8, 16])
DOWN = recorded("down", KNEE, [64, 32, 16])


@dataclass(frozen=True)
class Silent:
    name: str = "silent"
    seen: list[tuple[JobHistory, float]] = field(default_factory=list)

    def __call__(self, history: JobHistory, now: float) -> Proposal | None:
        self.seen.append((history, now))
        return None


def kinds(found: Evaluation) -> list[Kind]:
    return [proposal.kind for row in found.rows for proposal in row.proposals]


# --- what an algorithm sees


def test_an_algorithm_sees_nothing_of_the_future() -> None:
    ooms = tuple(OutOfMemory(BEGAN + at, "worker", 1024.0, 1000.0) for at in (50.0, 700.0, 5000.0))
    other = FinishedJob(0.9, BEGAN + 2000.0, configuration(KNEE, 4), 100.0)
    job = replace(UP, history=replace(UP.history, out_of_memory=ooms, similar=(other,), pending=("worker-9",)))
    silent = Silent()
    evaluate(silent, [job])
    assert [now for _, now in silent.seen] == [period.ended for period in UP.history.periods]
    for index, (history, now) in enumerate(silent.seen):
        assert history.periods == UP.history.periods[: index + 1]
        assert history.configuration == UP.history.periods[index].configuration
        assert all(oom.time <= now for oom in history.out_of_memory)
        assert all(similar.ended <= now for similar in history.similar)
        assert history.pending == ()
        assert history.settling_since is None
        assert (history.nodes != ()) == (index == 4), "nodes are those of the last configuration"
    assert silent.seen[-1][0].out_of_memory == ooms[:2]


def test_what_the_job_took_since_was_left_then() -> None:
    job = replace(UP, history=replace(UP.history, budget_node_s=1000.0))
    first, *_, before, last = moments(job)
    assert last.history.remaining_records == 1_000_000
    assert last.history.budget_node_s == 1000.0
    assert last.history.room == UP.history.room
    assert before.history.remaining_records == 1_000_000 + round(600 * KNEE.rate_of(configuration(KNEE, 16)))
    assert before.history.budget_node_s == 1000.0 + 600 * 16
    assert first.history.budget_node_s == 1000.0 + 600 * (2 + 4 + 8 + 16)
    assert first.history.room is not None
    assert (first.history.room.free_cpu, first.history.room.free_memory_mb) == (25.0, 10_000.0 + 15 * 1024)


# --- how it is judged


def test_one_that_knows_the_truth_is_never_wrong() -> None:
    found = evaluate(Doubles(), [UP, recorded("again", KNEE, [2, 4, 8])])
    assert (found.algorithm, found.jobs, found.asked, found.proposals) == ("doubles", 2, 8, 8)
    assert (found.compared, found.not_tried, found.failures) == (6, 2, {})
    assert found.median_error == pytest.approx(0.0)
    assert found.p90_error == pytest.approx(0.0)
    assert found.coverage == 1.0
    assert found.right_direction == 1.0


def test_a_biased_one_is_off_by_its_bias_and_outside_of_its_intervals() -> None:
    found = evaluate(Doubles(bias=1.5), [UP])
    assert found.median_error == pytest.approx(0.5)
    assert found.p90_error == pytest.approx(0.5)
    assert found.coverage == 0.0
    assert [proposal.achieved for row in found.rows for proposal in row.proposals][:4] == [
        period.rate for period in UP.history.periods[1:]
    ]


def test_an_interval_holds_if_what_was_measured_may_lie_inside() -> None:
    noisy = [replace(period, error=0.1 * period.rate) for period in UP.history.periods]
    job = replace(UP, history=replace(UP.history, periods=tuple(noisy)))
    assert evaluate(Doubles(bias=1.2), [UP]).coverage == 0.0
    assert evaluate(Doubles(bias=1.2), [job]).coverage == 1.0


def test_one_that_promises_speed_where_there_is_loss_has_the_wrong_direction() -> None:
    assert KNEE.rate_of(configuration(KNEE, 64)) < 0.9 * KNEE.rate_of(configuration(KNEE, 16))
    beyond = recorded("beyond", KNEE, [16, 32, 64])
    assert evaluate(Doubles(), [beyond]).right_direction == 1.0
    assert evaluate(Doubles(bias=3.0), [beyond]).right_direction == 0.0


def test_of_many_errors_the_median_and_the_ninetieth_percentile_are_told_apart() -> None:
    @dataclass(frozen=True)
    class SometimesWrong(Doubles):
        def __call__(self, history: JobHistory, now: float) -> Proposal | None:
            made = Doubles(bias=3.0 if history.configuration.worker.replicas == 1 else 1.0)(history, now)
            return made and replace(made, algorithm=self.name)

    found = evaluate(SometimesWrong(), [UP])
    assert found.median_error == pytest.approx(0.0)
    assert found.p90_error == pytest.approx(2.0)
    assert found.coverage == pytest.approx(0.75)


def test_what_was_never_tried_is_counted_and_estimated_by_itself() -> None:
    found = evaluate(Doubles(factor=1.5), [UP])
    tried = [proposal.configuration.worker.replicas for row in found.rows for proposal in row.proposals]
    assert tried == [3, 6, 12, 24]
    assert kinds(found) == [Kind.NOT_TRIED] * 4
    assert (found.compared, found.not_tried, found.estimated) == (0, 4, 3)
    assert found.median_error is None
    assert found.coverage is None
    assert found.median_estimated_error is not None
    assert found.median_estimated_error < 0.15
    assert all(proposal.achieved is None for row in found.rows for proposal in row.proposals)


def test_far_from_what_was_measured_nothing_is_estimated() -> None:
    found = evaluate(Doubles(factor=8.0), [recorded("two", KNEE, [1, 2])])
    assert (found.not_tried, found.estimated, found.median_estimated_error) == (2, 0, None)


def test_a_way_back_to_what_it_has_seen_proves_nothing() -> None:
    assert kinds(evaluate(Doubles(factor=0.5), [recorded("up", KNEE, [4, 8])])) == [Kind.NOT_TRIED, Kind.TRIED_BEFORE]


def test_what_does_not_change_the_speed_or_predicts_none_is_not_compared() -> None:
    @dataclass(frozen=True)
    class MoreMemory(Silent):
        def __call__(self, history: JobHistory, now: float) -> Proposal | None:
            worker = replace(history.configuration.worker, memory_mb=2048)
            return Proposal(self.name, "more memory", replace(history.configuration, worker=worker))

    @dataclass(frozen=True)
    class Unsure(Doubles):
        def __call__(self, history: JobHistory, now: float) -> Proposal | None:
            made = super().__call__(history, now)
            return made and replace(made, prediction=None)

    assert kinds(evaluate(MoreMemory(), [DOWN])) == [Kind.SAME_SPEED] * 3
    assert kinds(evaluate(Unsure(), [recorded("two", KNEE, [1, 2])])) == [Kind.NO_PREDICTION] * 2


def test_nonsense_is_a_failure_and_no_proposal() -> None:
    @dataclass(frozen=True)
    class Nonsense(Silent):
        def __call__(self, history: JobHistory, now: float) -> Proposal | None:
            return Proposal(self.name, "", history.configuration, Prediction(1.0, 1.0, 1.0))

    found = evaluate(Nonsense(), [UP])
    assert (found.proposals, found.failures, found.regret) == (0, {"unsound": 5}, None)


# --- regret


def test_to_stay_is_a_choice_and_costs_what_the_best_measured_one_brings() -> None:
    fastest = replace(UP, history=replace(UP.history, objective=Objective.FASTEST))
    found = evaluate(Silent(), [fastest])
    first, *_ = found.rows[0].regrets
    slow, fast = KNEE.rate_of(configuration(KNEE, 1)), max(period.rate for period in UP.history.periods)
    assert first == pytest.approx(1.0 - slow / fast, abs=0.02)
    assert found.rows[0].regrets[3] == 0.0 or found.rows[0].regrets[4] == 0.0
    assert found.rows[0].final_regret == found.rows[0].regrets[-1]


def test_whoever_chooses_the_best_has_no_regret_and_whoever_leaves_it_has() -> None:
    job = recorded("around the knee", KNEE, [4, 8, 4])
    good, bad = evaluate(Doubles(), [job]), evaluate(Doubles(factor=0.5), [job])
    assert good.rows[0].final_regret == 0.0
    assert good.regret is not None
    assert bad.rows[0].final_regret is None, "two workers were never measured"
    assert bad.regret is not None
    assert bad.regret > good.regret


# --- real algorithms, and the whole


def planned_by_itself(seed: int, name: str) -> RecordedJob:
    """A job with a real planner, whose true speed lies outside of the fitted models, with noise and all."""
    truth = TRUTHS[name]
    start = configuration(truth, 2)
    bounds = Bounds(RoleBounds(1, 32, max_cpu=1.0), RoleBounds(2, 2, max_cpu=2.0) if start.server is not None else None)
    world = World(truth.kind, start, bounds, truth.rate_of, Planner(), seed=seed, virtual_workers=truth.virtual_workers)
    world.run(3000.0)
    return RecordedJob(f"{name}-{seed}", world.history())


@pytest.mark.parametrize("name", TRUTHS)
def test_the_algorithms_of_planned_jobs_are_judged_by_what_these_jobs_achieved(name: str) -> None:
    jobs = [planned_by_itself(seed, name) for seed in range(3)]
    probe, plan_job = evaluate(algorithm("probe"), jobs), evaluate(algorithm("plan_job"), jobs)
    assert probe.compared >= 3
    assert probe.coverage is not None
    assert probe.coverage >= 0.5
    assert probe.regret is not None
    assert plan_job.regret is not None
    assert plan_job.final_regret is not None
    assert plan_job.final_regret < 0.1, "it is content with what it found"
    assert plan_job.median_error is None or plan_job.median_error < 0.1


def test_at_the_last_moment_a_fit_over_all_periods_knows_no_more_than_the_algorithm() -> None:
    found = evaluate(Doubles(factor=1.5), [recorded("two", KNEE, [2, 4])])
    assert [proposal.estimated is not None for proposal in found.rows[0].proposals] == [True, False]


def test_an_evaluation_is_plain_values_in_json() -> None:
    found = evaluate(Doubles(), [UP, DOWN])
    value = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert value["compared"] == found.compared
    assert [row["job"] for row in value["rows"]] == ["up", "down"]
    assert value["rows"][0]["regret"] == found.rows[0].regret
    assert value["rows"][0]["proposals"][0]["kind"] == "compared"
    assert value["rows"][0]["proposals"][0]["configuration"]["worker"]["replicas"] == 2


def test_without_jobs_or_periods_nothing_can_be_said() -> None:
    empty = RecordedJob("new", replace(UP.history, periods=()))
    for jobs in ([], [empty]):
        found = evaluate(PlanJob(), jobs)
        assert (found.asked, found.proposals, found.median_error, found.regret) == (0, 0, None, None)
