"""How well a policy did: the measures of one simulation, beside the oracle's under the same seed.

*Regret* of a job is how much longer it took than under the oracle, as a share: 0.1 is ten percent. A job that never finished
counts as if it had taken until the end of the simulation; the number of those is a measure of its own.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pliant.core.planning.history import Objective
from pliant.sim.job import SimulatedSpec
from pliant.sim.optimum import SpeedCurve, best, options
from pliant.sim.outcome import JobOutcome
from pliant.sim.simulation import SimulationResult

NEAR_BEST = 0.95
MAX_EXHAUSTIVE_JOBS = 100  # whose best rate is looked for


@dataclass(frozen=True, slots=True)
class Measures:
    """Over all jobs of one simulation. None: there is nothing to measure it by."""

    policy: str
    jobs: int
    finished: int
    failed: int
    completion_s: float  # mean
    node_hours: float  # sum
    core_hours: float
    memory_gb_hours: float
    regret_mean: float | None  # of completion time, against the oracle
    regret_p95: float | None
    node_seconds_ratio: float | None  # sum, against the oracle
    to_best_s: float | None  # median time until 95 % of the best rate
    reached_best: int | None  # jobs that ever were so fast
    ooms: int
    changes_per_hour: float  # of running jobs
    refused: int
    out_of_bounds: int
    prediction_error: float | None  # median, relative
    coverage: float | None  # share of intervals that held
    predictions: int
    makespan_s: float
    completion_sum_s: float = 0.0
    slowdown_mean: float | None = (
        None  # completion time against that of the job alone with the whole quota, at its best
    )
    slowdown_max: float | None = None
    unfairness_max: float | None = (
        None  # completion time against that with an equal share, of as many jobs as there were
    )
    waiting_max_s: float = 0.0  # from an arrival until the first node is granted
    most_used_cores: float = 0.0  # at any moment

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def best_rates(specs: Sequence[SimulatedSpec]) -> dict[str, float]:
    """Of each job, the rate that its objective's best configuration has; nothing if there are too many jobs."""
    if len(specs) > MAX_EXHAUSTIVE_JOBS:
        return {}
    found: dict[str, float] = {}
    known: dict[tuple[int, str, Objective], float] = {}
    for spec in specs:
        key = (id(spec.truth), str(spec.bounds), spec.objective)
        if key not in known:
            known[key] = best(options(spec.truth, spec.bounds), spec.objective).rate
        found[spec.name] = known[key]
    return found


def seconds_of(job: JobOutcome, ended: float) -> float:
    return job.completion_s if job.completion_s is not None else max(ended - job.arrival, 0.0)


def regrets(result: SimulationResult, oracle: SimulationResult | None) -> list[float]:
    """Of completion time, job by job; of those that both simulations have."""
    if oracle is None:
        return []
    theirs = {job.name: seconds_of(job, oracle.ended) for job in oracle.jobs}
    found = []
    for job in result.jobs:
        if theirs.get(job.name, 0.0) > 0:
            found.append(seconds_of(job, max(result.ended, oracle.ended)) / theirs[job.name] - 1.0)
    return found


def waited_s(job: JobOutcome, ended: float) -> float:
    first = next((point.time for point in job.curve if point.nodes), None)
    return (first if first is not None else job.ended or ended) - job.arrival


def slowdowns(result: SimulationResult, curves: Mapping[str, SpeedCurve]) -> list[float]:
    """Against the job alone, with the whole quota: 1 is a bound that nobody reaches for all jobs."""
    return [seconds_of(job, result.ended) / curves[job.name].seconds() for job in result.jobs if job.name in curves]


def unfairness(result: SimulationResult, curves: Mapping[str, SpeedCurve], cores: float) -> list[float]:
    """Finish-time fairness: above 1, the job would rather have had its equal share of the quota, by itself."""
    spans = [(job.arrival, job.arrival + seconds_of(job, result.ended)) for job in result.jobs]
    found = []
    for job, (began, ended) in zip(result.jobs, spans, strict=True):
        if job.name in curves and ended > began:
            shared = sum(max(0.0, min(ended, other[1]) - max(began, other[0])) for other in spans)
            found.append((ended - began) / curves[job.name].seconds(cores / (shared / (ended - began))))
    return found


def measure(
    result: SimulationResult,
    oracle: SimulationResult | None = None,
    best_rate: Mapping[str, float] | None = None,
    curves: Mapping[str, SpeedCurve] | None = None,
    quota_cpu: float = 0.0,
) -> Measures:
    jobs = result.jobs
    seconds = [seconds_of(job, result.ended) for job in jobs]
    running_hours = sum(seconds) / 3600
    plans = [plan for job in jobs for plan in job.plans]
    errors = [plan.error for plan in plans if plan.error is not None]
    covered = [plan.is_covered for plan in plans if plan.is_covered is not None]
    regret = regrets(result, oracle)
    times = [job.reached(NEAR_BEST * best_rate[job.name]) for job in jobs if best_rate and job.name in best_rate]
    reached = [time for time in times if time is not None]
    node_seconds = sum(job.node_seconds for job in jobs)
    oracle_seconds = sum(job.node_seconds for job in oracle.jobs) if oracle is not None else 0.0
    slow = slowdowns(result, curves or {})
    unfair = unfairness(result, curves or {}, quota_cpu)
    return Measures(
        policy=result.policy,
        jobs=len(jobs),
        finished=sum(job.succeeded for job in jobs),
        failed=sum(bool(job.failure) for job in jobs),
        completion_s=statistics.fmean(seconds) if seconds else 0.0,
        node_hours=node_seconds / 3600,
        core_hours=sum(job.core_seconds for job in jobs) / 3600,
        memory_gb_hours=sum(job.memory_mb_seconds for job in jobs) / 1024 / 3600,
        regret_mean=statistics.fmean(regret) if regret else None,
        regret_p95=percentile(regret, 0.95) if regret else None,
        node_seconds_ratio=node_seconds / oracle_seconds if oracle_seconds else None,
        to_best_s=statistics.median(reached) if reached else None,
        reached_best=len(reached) if times else None,
        ooms=sum(job.ooms for job in jobs),
        changes_per_hour=len(plans) / running_hours if running_hours else 0.0,
        refused=sum(job.refused for job in jobs),
        out_of_bounds=sum(job.out_of_bounds for job in jobs),
        prediction_error=statistics.median(errors) if errors else None,
        coverage=sum(covered) / len(covered) if covered else None,
        predictions=len(errors),
        makespan_s=result.ended,
        completion_sum_s=sum(seconds),
        slowdown_mean=statistics.fmean(slow) if slow else None,
        slowdown_max=max(slow, default=None),
        unfairness_max=max(unfair, default=None),
        waiting_max_s=max((waited_s(job, result.ended) for job in jobs), default=0.0),
        most_used_cores=result.most_used_cores,
    )


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
