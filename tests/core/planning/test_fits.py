"""Models of speed: known coefficients are found again, intervals hold what they claim, and what was measured is believed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import least_squares
from scipy.optimize import nnls as scipy_nnls

from pliant.core.planning.configuration import Bounds, Configuration, RoleBounds, Shape
from pliant.core.planning.fits import (
    AllreduceModel,
    Datum,
    Fit,
    PsModel,
    QueueModel,
    SpeedModel,
    fit_history,
    fit_rates,
)
from pliant.core.planning.fits.model import Speedup
from pliant.core.planning.fits.smooth_max import Array, Problem, _best_subset, nnls, solve, times_of
from pliant.core.planning.history import FinishedJob, JobHistory, JobKind, NodeView, Period, Room, StepParts

Truth = Callable[[Configuration], float]


def workers(count: int, cpu: float = 1.0) -> Configuration:
    return Configuration(Shape(count, cpu))


def with_servers(count: int, servers: int, cpu: float = 1.0, server_cpu: float = 1.0) -> Configuration:
    return Configuration(Shape(count, cpu), Shape(servers, server_cpu), 32)


def truth_of(model: SpeedModel, coefficients: Sequence[float], overlap: float) -> Truth:
    is_shared = np.array([term.is_shared for term in model.terms])

    def rate(configuration: Configuration) -> float:
        features = np.array([model.features(configuration)])
        time = times_of(features, is_shared, np.array([coefficients]), np.array([overlap]))[0, 0]
        return model.work(configuration) / float(time)

    return rate


def measured(rate: Truth, at: Sequence[Configuration], noise: float, rng: np.random.Generator) -> list[Datum]:
    return [Datum(there, rate(there) * float(np.exp(noise * rng.standard_normal())), noise) for there in at]


def fitted(model: SpeedModel, data: Sequence[Datum]) -> Fit:
    found = fit_rates(model, data)
    assert found is not None
    return found


QUEUE_AT = [workers(1), workers(2), workers(4), workers(8), workers(8, 2.0)]
PS_AT = [with_servers(2, 1), with_servers(4, 1), with_servers(4, 2), with_servers(8, 2)]
PS_AT += [with_servers(8, 2, 2.0), with_servers(8, 2, 2.0, 2.0), with_servers(16, 4, 2.0, 2.0)]


def test_the_batched_solver_finds_what_scipy_finds() -> None:
    rng = np.random.default_rng(3)
    rows, right = rng.normal(size=(40, 7, 5)), rng.normal(size=(40, 7))
    found = nnls(np.swapaxes(rows, 1, 2) @ rows, np.einsum("dnk,dn->dk", rows, right))
    expected = np.array([scipy_nnls(a, b)[0] for a, b in zip(rows, right, strict=True)])
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("overlap", [1.0, 2.5, 12.0])
def test_no_other_coefficients_explain_the_data_better(overlap: float) -> None:
    rng = np.random.default_rng(5)
    model = AllreduceModel(16)
    rate = truth_of(model, [0.2, 0.5, 1.0, 0.05, 0.002], overlap)
    at = [workers(count) for count in (1, 2, 4, 6, 8, 16)]
    features = np.array([model.features(there) for there in at])
    times = np.array([model.work(there) / rate(there) for there in at]) * np.exp(0.02 * rng.standard_normal(len(at)))
    shared = np.array([term.is_shared for term in model.terms])
    found = solve(Problem(features, shared, times, np.full(len(at), 0.02), np.ones(5), np.zeros(5)))

    def misses(coefficients: Array, power: float) -> Array:
        modelled = times_of(features, shared, coefficients[None, :], np.array([power]))[0]
        return np.asarray((modelled / times - 1.0) / 0.02)

    ours = float(np.sum(misses(found.coefficients, found.overlap) ** 2))
    starts = [np.array(start) for start in ([0.5] * 5, [0.1, 1.0, 2.0, 0.1, 0.01], [0.2, 0.5, 1.0, 0.05, 0.002])]
    theirs = min(
        2 * least_squares(misses, start, bounds=(0.0, np.inf), args=(power,)).cost
        for start in starts
        for power in (1.0, 1.5, 2.5, 5.0, 12.0)
    )
    assert ours <= theirs + 0.3


@pytest.mark.parametrize(
    ("model", "coefficients", "at", "error"),
    [
        (QueueModel(), [0.2, 0.5, 0.05, 0.0], QUEUE_AT, 0.05),
        (PsModel(), [0.1, 0.02, 0.15, 0.05, 0.0], PS_AT, 0.15),
        (AllreduceModel(16), [0.1, 0.5, 0.8, 0.1, 0.0], [workers(count) for count in (1, 2, 3, 4, 6, 8, 16)], 0.15),
    ],
)
def test_known_coefficients_are_found_again(
    model: SpeedModel, coefficients: list[float], at: list[Configuration], error: float
) -> None:
    """Each term's part of the time at the largest configuration, within ``error`` of the whole time; noise is 0.5 %."""
    rate = truth_of(model, coefficients, 1.0)
    fit = fitted(model, measured(rate, at * 4, 0.005, np.random.default_rng(1)))
    features, whole = model.features(at[-1]), model.work(at[-1]) / rate(at[-1])
    for term, coefficient, feature in zip(model.terms, coefficients, features, strict=True):
        assert fit.coefficients()[term.name] * feature == pytest.approx(coefficient * feature, abs=error * whole), term


def random_truth(
    kind: str, rng: np.random.Generator
) -> tuple[SpeedModel, Truth, list[Configuration], list[Configuration]]:
    overlap = float(rng.choice([1.0, 1.0, 2.0, 4.0, 10.0]))
    if kind == "queue":
        queue = QueueModel()
        rate = truth_of(queue, [rng.uniform(0, 1), rng.uniform(0, 1), rng.uniform(0, 0.1), 0.0], overlap)
        return queue, rate, QUEUE_AT[:4], [workers(count) for count in (3, 6, 12, 16)]
    if kind == "ps":
        servers = PsModel()
        drawn = rng.uniform(0, 1, 5) * [1.0, 0.03, 0.2, 0.2, 0.015] * rng.choice([0, 1], 5, p=[0.3, 0.7]) + 0.001
        rate = truth_of(servers, [float(value) for value in drawn], overlap)
        asked = [with_servers(16, 4, 1.0, 2.0), with_servers(6, 2), with_servers(8, 3), with_servers(4, 1, 2.0)]
        return servers, rate, PS_AT[:6], asked
    allreduce = AllreduceModel(16)
    drawn = [rng.uniform(0, 0.5), rng.uniform(0.2, 1), rng.uniform(0, 2), rng.uniform(0, 0.2), rng.uniform(0, 0.01)]
    rate = truth_of(allreduce, drawn, overlap)
    return allreduce, rate, [workers(count) for count in (1, 2, 4, 8)], [workers(count) for count in (3, 6, 10, 16)]


@pytest.mark.parametrize("kind", ["queue", "ps", "allreduce"])
@pytest.mark.parametrize("noise", [0.02, 0.05])
def test_intervals_that_claim_90_percent_hold_at_least_85(kind: str, noise: float) -> None:
    rng = np.random.default_rng(11)
    hits, errors = [], []
    for _ in range(60):
        model, rate, at, asked = random_truth(kind, rng)
        fit = fitted(model, measured(rate, at, noise, rng))
        for there in asked:
            found = fit.predict(there)
            hits.append(found.low <= rate(there) <= found.high)
            errors.append(abs(found.rate / rate(there) - 1.0))
    assert np.mean(hits) >= 0.85
    assert np.median(errors) <= 0.08


def test_the_same_data_and_seed_give_the_same_fit() -> None:
    rate = truth_of(QueueModel(), [0.5, 0.2, 0.05, 0.0], 2.0)
    data = measured(rate, QUEUE_AT, 0.05, np.random.default_rng(2))
    assert fitted(QueueModel(), data).predict(workers(16)) == fitted(QueueModel(), data).predict(workers(16))


def test_what_was_never_tried_is_expected_to_scale_and_the_interval_says_that_it_may_not() -> None:
    found = fitted(QueueModel(), [Datum(workers(1), 10.0, 0.02)]).predict(workers(2))
    assert found.rate == pytest.approx(20.0, rel=0.2), "optimistic"
    assert found.low < 11.0, "but nothing is known"
    one = fitted(AllreduceModel(8), [Datum(workers(1), 10.0, 0.02)]).predict(workers(2))
    assert one.rate == pytest.approx(20.0, rel=0.25)
    assert one.low < 12.0


def test_a_configuration_that_was_tried_is_predicted_as_it_was_whatever_the_model_says() -> None:
    odd = [(1, 10.0), (2, 20.0), (3, 9.0), (4, 40.0)]  # no model has such a dip
    fit = fitted(QueueModel(), [Datum(workers(count), rate, 0.02) for count, rate in odd])
    for count, rate in odd:
        assert fit.predict(workers(count)).rate == pytest.approx(rate, rel=0.2)


def test_where_the_time_goes_adds_up_and_what_was_varied_is_identified() -> None:
    rate = truth_of(PsModel(), [0.01, 0.001, 0.5, 0.0, 0.0], 1.0)
    fit = fitted(PsModel(), measured(rate, PS_AT, 0.005, np.random.default_rng(4)))
    shares = fit.shares(with_servers(8, 1))
    assert sum(shares.values()) == pytest.approx(1.0)
    assert max(shares, key=lambda term: shares[term]) == "CPU of servers"
    once = fitted(PsModel(), measured(rate, PS_AT[:1], 0.005, np.random.default_rng(4)))
    there = with_servers(8, 2)
    assert fit.identified(there)["CPU of servers"] > once.identified(there)["CPU of servers"] + 0.3


def test_allreduce_has_plateaus_where_more_workers_leave_the_slowest_one_as_much_to_do() -> None:
    model = AllreduceModel(8)
    assert [model.units(count) for count in (1, 2, 3, 4, 5, 7, 8)] == [8, 4, 3, 2, 2, 2, 1]
    rate = truth_of(model, [0.0, 1.0, 0.1, 0.0, 0.0], 1.0)
    fit = fitted(model, measured(rate, [workers(count) for count in (1, 2, 4, 8)], 0.005, np.random.default_rng(1)))
    assert fit.predict(workers(6)).rate == pytest.approx(fit.predict(workers(5)).rate, rel=0.05)


def test_workers_on_several_machines_have_a_collective_of_their_own_cost() -> None:
    model = AllreduceModel(16, workers_per_host=4)
    rate = truth_of(model, [0.0, 1.0, 0.01, 0.0, 0.0, 3.0, 0.0], 1.0)
    at = [workers(count) for count in (1, 2, 4, 8)]
    fit = fitted(model, measured(rate, at, 0.005, np.random.default_rng(1)))
    assert fit.predict(workers(16)).rate == pytest.approx(rate(workers(16)), rel=0.1)


BOUNDS = Bounds(RoleBounds(1, 64))


def history(rates: Sequence[tuple[int, float]], **more: object) -> JobHistory:
    periods = tuple(
        Period(workers(count, 0.0), 100.0 * i, 100.0 * i + 60.0, rate, 0.01 * rate, 12)
        for i, (count, rate) in enumerate(rates)
    )
    job = JobHistory(JobKind.QUEUE, workers(rates[-1][0] if rates else 1, 0.0), BOUNDS, periods=periods)
    return replace(job, **more)  # type: ignore[arg-type]


def test_without_a_period_nothing_is_fitted() -> None:
    assert fit_history(history([])) is None


def test_the_rates_of_similar_jobs_are_a_weak_prior() -> None:
    alike = (FinishedJob(1.0, 0.0, workers(32, 0.0), 40.0), FinishedJob(0.8, 0.0, workers(16, 0.0), 38.0))
    alone, helped = fit_history(history([(1, 10.0)])), fit_history(history([(1, 10.0)], similar=alike))
    assert alone is not None
    assert helped is not None
    assert helped.predict(workers(16, 0.0)).rate < 0.7 * alone.predict(workers(16, 0.0)).rate
    assert helped.predict(workers(1, 0.0)).rate == pytest.approx(10.0, rel=0.05), "own periods weigh more"


def test_the_knee_is_where_the_cpu_of_the_machine_runs_out_unless_more_was_tried() -> None:
    nodes = tuple(NodeView(f"worker-{i}", "worker", cpu=1.0) for i in range(2))
    job = history([(1, 10.0), (2, 20.0)], nodes=nodes, room=Room(free_cpu=2.0, free_memory_mb=1000.0))
    fit = fit_history(job)
    assert fit is not None
    assert fit.predict(workers(16, 0.0)).rate == pytest.approx(fit.predict(workers(4, 0.0)).rate, rel=0.05)
    tried = fit_history(replace(job, periods=history([(1, 10.0), (2, 20.0), (8, 80.0)]).periods))
    assert tried is not None
    assert tried.predict(workers(8, 0.0)).rate == pytest.approx(80.0, rel=0.05)


def seen(configuration: Configuration, rate: float, at: float, compute: float = 0.0) -> Period:
    return Period(configuration, at, at + 60.0, rate, 0.02 * rate, 12, StepParts(compute=compute))


def job_of(kind: JobKind, *periods: Period, **more: object) -> JobHistory:
    server = RoleBounds(1, 8) if periods[-1].configuration.server is not None else None
    job = JobHistory(kind, periods[-1].configuration, Bounds(RoleBounds(1, 64), server), periods=periods)
    return replace(job, **more)  # type: ignore[arg-type]


def predicted(job: JobHistory, configuration: Configuration) -> float:
    found = fit_history(job)
    assert found is not None
    return found.predict(configuration).rate


def test_one_configuration_says_what_more_cores_bring_if_it_is_known_how_much_workers_compute() -> None:
    computing = job_of(JobKind.QUEUE, seen(workers(4), 40.0, 0.0, compute=0.95))
    waiting = job_of(JobKind.QUEUE, seen(workers(4), 40.0, 0.0, compute=0.1))
    assert predicted(computing, workers(4, 2.0)) > 1.5 * 40.0
    assert predicted(waiting, workers(4, 2.0)) < 1.15 * 40.0


def test_busy_servers_are_known_to_be_the_limit_from_the_first_configuration_on() -> None:
    period = seen(with_servers(8, 2), 1000.0, 0.0, compute=0.3)
    busy, idle = (tuple(NodeView(f"ps-{i}", "ps", cpu=used, cpu_limit=1.0) for i in range(2)) for used in (1.0, 0.1))
    assert predicted(job_of(JobKind.PS_ASYNC, period, nodes=busy), with_servers(16, 2)) < 1400.0
    assert predicted(job_of(JobKind.PS_ASYNC, period, nodes=idle), with_servers(16, 2)) > 1500.0


def test_a_newer_period_of_the_same_configuration_outdates_what_contradicts_it() -> None:
    slow, fast = seen(workers(8), 40.0, 0.0), seen(workers(8), 80.0, 100.0)
    job = job_of(JobKind.QUEUE, seen(workers(4), 41.0, -100.0), slow, fast)
    assert predicted(job, workers(8)) == pytest.approx(80.0, rel=0.05)
    assert predicted(job, workers(16)) > 110.0


def test_cores_beyond_what_was_tried_may_bring_nothing() -> None:
    found = fit_history(job_of(JobKind.QUEUE, seen(workers(4, 2.0), 40.0, 0.0, compute=0.95)))
    assert found is not None
    assert found.predict(workers(4, 4.0)).low < 42.0
    assert found.predict(workers(4, 4.0)).high > 60.0


def test_a_speed_up_is_interpolated_and_goes_on_as_it_was_measured_last() -> None:
    found = Speedup(((1.0, 1.0), (2.0, 1.8), (4.0, 1.8)), 0.85)
    assert found.of(2.0) == pytest.approx(1.8)
    assert 1.0 < found.of(1.5) < 1.8
    assert found.of(8.0) == pytest.approx(1.8), "it uses no more than two"
    assert found.of(0.5) < 0.6
    assert Speedup().of(3.0) == pytest.approx(3.0)
    assert Speedup().of(0.0) == 1.0


def test_trying_every_set_finds_what_exchanging_finds() -> None:
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((300, 9, 5))
    gram, target = np.swapaxes(rows, 1, 2) @ rows, rng.standard_normal((300, 5))
    assert nnls(gram, target) == pytest.approx(np.maximum(_best_subset(gram, target), 0.0), abs=1e-9)


def test_a_collective_is_no_excuse_for_cores_that_bring_nothing() -> None:
    rates = {(16, 4.0): (530, 0.05), (8, 2.0): (1110, 0.8), (6, 4.0): (1390, 0.72)}
    data = [Datum(workers(count, cpu), rate, 0.03, compute) for (count, cpu), (rate, compute) in rates.items()]
    fit = fitted(AllreduceModel(16), data)
    assert fit.overlap <= 2.5, "two workers that compute most of the time do not hide a collective as long as the step"
    assert fit.predict(workers(6, 8.0)).rate > 1.1 * 1390


def test_claims_allow_for_rates_that_differ_from_time_to_time_and_decisions_do_not() -> None:
    def job(*rates: float) -> JobHistory:
        found = tuple(
            Period(workers(4), 300.0 * i, 300.0 * (i + 1), rate, 0.005 * rate, 20) for i, rate in enumerate(rates)
        )
        return JobHistory(JobKind.QUEUE, workers(4), Bounds(RoleBounds(1, 16)), periods=found)

    steady, wandering = (fit_history(job(*rates)) for rates in ((100.0,) * 4, (93.0, 107.0, 95.0, 105.0)))
    assert steady is not None
    assert wandering is not None
    for fit in (steady, wandering):
        claimed, decided = fit.predict(workers(4)), fit.predict_all([workers(4)])
        assert claimed.low < decided.low[0] < claimed.rate < decided.high[0] < claimed.high
    assert wandering.predict(workers(4)).low < steady.predict(workers(4)).low
