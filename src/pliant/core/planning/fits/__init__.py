"""Models of a job's speed, fitted to its periods (``fit_history``). Needs numpy; the rest of ``core/planning`` does not.

``model.py`` is what a model says of a kind of job (``ps.py``, ``allreduce.py``, ``queue.py``), ``smooth_max.py`` finds its
coefficients and draws of them, ``fit.py`` predicts. Everything is deterministic for a seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import log
from typing import TypeAlias

from pliant.core.planning.configuration import Configuration
from pliant.core.planning.fits.allreduce import AllreduceModel
from pliant.core.planning.fits.fit import Datum, Fit, Rates, distance, fit_rates
from pliant.core.planning.fits.model import SpeedModel, Speedup
from pliant.core.planning.fits.ps import PsModel
from pliant.core.planning.fits.queue import QueueModel
from pliant.core.planning.history import JobHistory, JobKind, Period

__all__ = [
    "AllreduceModel",
    "Datum",
    "Fit",
    "PsModel",
    "QueueModel",
    "Rates",
    "SpeedModel",
    "distance",
    "fit_history",
    "fit_rates",
]

AnyModel: TypeAlias = QueueModel | AllreduceModel | PsModel
DISTRUST = 0.05  # relative, for each doubling from the present configuration: where the job is, the model must be right
USUAL_SPEEDUP = 0.85  # percent, by a percent more cores of a worker
AGE_ERROR_PER_HOUR = 0.1  # relative: what was measured long ago says less of the present
MAX_AGE_ERROR = 0.3
PRIOR_ERROR = 0.25  # relative, of the rate of another job that is exactly alike
CONTRADICTION = 3.0  # standard errors
SAME = 0.1  # relative: rates that differ by less are no contradiction
WANDER = 0.03  # relative: how much a job's rate differs from one stretch of time to another, until it was seen ...
WANDER_COUNT = 4  # ... so often
MIN_CPU_USED = 0.2  # cores of a worker: with less, CPU is not what runs out


def fit_history(history: JobHistory, *, seed: int = 0) -> Fit | None:
    """By the periods of a job; similar jobs that ended are a weak prior. None: no period yet."""
    if not history.periods:
        return None
    latest = history.periods[-1].ended
    busy = _busiest_server(history)
    data = []
    periods = _not_outdated(history.periods)
    wander = _wander(periods)
    for period in periods:
        if period.rate > 0 and _has_servers(history, period.configuration.server is not None):
            age = min(MAX_AGE_ERROR, AGE_ERROR_PER_HOUR * (latest - period.ended) / 3600.0)
            error = float((period.error / period.rate) ** 2 + age**2) ** 0.5
            is_present = period is history.periods[-1] and period.configuration == history.configuration
            shared = busy if is_present and history.settling_since is None else 0.0
            distrust = DISTRUST * distance(period.configuration, history.configuration)
            data.append(Datum(period.configuration, period.rate, error, period.parts.compute, shared, distrust))
    if not data:
        return None
    prior = [
        Datum(job.configuration, job.rate, PRIOR_ERROR / job.similarity)
        for job in history.similar
        if job.rate > 0 and job.similarity > 0 and _has_servers(history, job.configuration.server is not None)
    ]
    model = model_of(history)
    model = replace(model, speedup=_speedup(model, data))
    return fit_rates(model, [*prior, *data], wander=wander, seed=seed)


def _wander(periods: Sequence[Period]) -> float:
    """By how much the rate of one configuration differs between its periods, beyond what each claims to be known to."""
    groups: dict[Configuration, list[Period]] = {}
    for period in periods:
        if period.rate > 0:
            groups.setdefault(period.configuration, []).append(period)
    total, count = WANDER_COUNT * WANDER**2, WANDER_COUNT
    for group in groups.values():
        logs = [log(period.rate) for period in group]
        middle = sum(logs) / len(logs)
        noise = sum((period.error / period.rate) ** 2 for period in group) / len(group)
        total += max(0.0, sum((each - middle) ** 2 for each in logs) - (len(group) - 1) * noise)
        count += len(group) - 1
    return float((total / count) ** 0.5)


def _speedup(model: AnyModel, data: Sequence[Datum]) -> Speedup:
    """By what workers needed for the same work with other cores; the newest of each number of them."""
    times = {
        datum.configuration.worker.cpu: (
            datum.compute * model.work(datum.configuration) / datum.rate / model.compute(datum.configuration)
        )
        / datum.configuration.worker.cpu
        for datum in data
        if datum.compute > 0 and datum.configuration.worker.cpu > 0
    }
    points: list[tuple[float, float]] = []
    least = min(times, default=1.0)
    for cpu, seconds in sorted(times.items()):
        speed = least * times[least] / seconds
        if points:  # never slower, never better than in proportion
            speed = min(max(speed, points[-1][1]), points[-1][1] * cpu / points[-1][0])
        points.append((cpu, speed))
    return Speedup(tuple(points), USUAL_SPEEDUP)


def _not_outdated(periods: Sequence[Period]) -> list[Period]:
    """Without those that a newer one of the same configuration contradicts: nodes were slow then, or the job has changed."""
    newest: dict[Configuration, Period] = {}
    found = []
    for period in reversed(periods):
        other = newest.setdefault(period.configuration, period)
        noise = CONTRADICTION * float(period.error**2 + other.error**2) ** 0.5
        if abs(period.rate - other.rate) <= max(noise, SAME * max(period.rate, other.rate)):
            found.append(period)
    return found[::-1]


def _busiest_server(history: JobHistory) -> float:
    """The share of its CPU that it uses; 0: nobody knows."""
    servers = [node for node in history.nodes if node.role == "ps"]
    if history.configuration.server is None or len(servers) != history.configuration.server.replicas:
        return 0.0
    return max((min(1.0, node.cpu / node.cpu_limit) for node in servers if node.cpu_limit), default=0.0)


def model_of(history: JobHistory) -> AnyModel:
    match history.kind:
        case JobKind.PS_ASYNC | JobKind.PS_SYNC:
            return PsModel(synchronous=history.kind is JobKind.PS_SYNC)
        case JobKind.ALLREDUCE:
            return AllreduceModel(history.virtual_workers, _workers_per_host(history))
        case JobKind.QUEUE:
            return QueueModel(_knee(history))


def _has_servers(history: JobHistory, given: bool) -> bool:
    return given == (history.kind in (JobKind.PS_ASYNC, JobKind.PS_SYNC))


def _workers_per_host(history: JobHistory) -> int:
    hosts = Counter(node.host for node in history.nodes if node.role == "worker" and node.host)
    return max(hosts.values()) if len(hosts) > 1 else 0


def _knee(history: JobHistory) -> float | None:
    """With how many workers the CPU runs out, if that is where the limit is. What was tried beyond it proves it wrong."""
    used = [node.cpu for node in history.nodes if node.role == "worker" and node.cpu > 0]
    if history.room is None or not used or sum(used) / len(used) < MIN_CPU_USED:
        return None
    each = sum(used) / len(used)
    tried = max(period.configuration.worker.replicas for period in history.periods)
    return max(float(tried), (sum(used) + max(0.0, history.room.free_cpu)) / each)
