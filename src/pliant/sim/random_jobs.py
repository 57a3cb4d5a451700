"""Random truths for judging a policy over many jobs: each number drawn from a seed, the length chosen so that jobs are comparable.

Lengths are those of the best configuration that the oracle finds: log-uniform, from half an hour to six hours unless the caller
says otherwise. A planner that has to learn on the job cannot be judged by jobs that are over before anything could be learned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from pliant.core.planning.configuration import Bounds, RoleBounds
from pliant.core.planning.history import JobKind, Objective
from pliant.sim.fleet import Grants
from pliant.sim.optimum import best, options
from pliant.sim.truth.allreduce import AllreduceTruth
from pliant.sim.truth.base import Cores, Costs, Hardships, Memory, Noise, Truth
from pliant.sim.truth.queue import QueueTruth
from pliant.sim.truth.servers import ServersTruth

KINDS = (JobKind.QUEUE, JobKind.ALLREDUCE, JobKind.PS_ASYNC, JobKind.PS_SYNC)


@dataclass(frozen=True, slots=True)
class RandomJob:
    truth: Truth
    bounds: Bounds
    grants: Grants


def random_job(
    seed: int | str,
    *,
    kinds: Sequence[JobKind] = KINDS,
    objective: Objective = Objective.FASTEST,
    shortest_s: float = 1800.0,
    longest_s: float = 21_600.0,
    max_workers: int = 64,
) -> RandomJob:
    random = Random(f"truth {seed}")
    kind = random.choice(list(kinds))
    make = {JobKind.QUEUE: _queue, JobKind.ALLREDUCE: _allreduce}.get(kind, _servers)
    truth, bounds = make(random, kind, max_workers)
    grants = Grants(
        delay_s=_log_uniform(random, 1.0, 30.0),
        delay_sigma=random.uniform(0.2, 1.0),
        preemptions_per_node_hour=random.choice([0.0, 0.0, 0.0, 0.05]),
        can_resize=random.random() < 0.5,
    )
    found = best(options(truth, bounds), objective)
    length = _log_uniform(random, shortest_s, longest_s)
    records = max(1000, int((length - truth.costs.start_s - truth.tail_s) * found.rate))
    return RandomJob(replace(truth, records=records), bounds, grants)


def _log_uniform(random: Random, low: float, high: float) -> float:
    return math.exp(random.uniform(math.log(low), math.log(high)))


def _common(random: Random) -> dict[str, object]:
    grows = random.random() < 0.4
    start = _log_uniform(random, 200.0, 3000.0)
    return {
        "worker_memory": Memory(start, random.uniform(0.5, 4.0) * start if grows else 0.0, random.random() < 0.5),
        "noise": Noise(
            sample_sigma=_log_uniform(random, 0.02, 0.2),
            drift_sigma=random.choice([0.0, 0.02, 0.05]),
            lost_reports=random.choice([0.0, 0.0, 0.1, 0.4]),
        ),
        "costs": Costs(
            start_s=_log_uniform(random, 5.0, 60.0),
            reform_s=_log_uniform(random, 0.3, 10.0),
            move_s=_log_uniform(random, 5.0, 120.0),
        ),
        "hardships": Hardships(
            straggler_share=random.choice([0.0, 0.0, 0.0, 0.05, 0.1]),
            straggler_speed=random.uniform(0.3, 0.8),
            slowdowns_per_hour=random.choice([0.0, 0.0, 0.0, 0.01]),
        ),
        "tail_s": random.uniform(0.0, 20.0),
    }


def _worker_bounds(random: Random, max_workers: int) -> RoleBounds:
    cores = random.choice([1.0, 2.0, 4.0])
    low = cores if random.random() < 0.5 else min(1.0, cores)
    high = cores if low == cores and random.random() < 0.5 else max(cores, 8.0)
    most = random.choice([n for n in (8, 16, 32, 64) if n <= max_workers] or [max_workers])
    return RoleBounds(1, most, min_cpu=low, max_cpu=high, min_memory_mb=256, max_memory_mb=32_768)


def _cores(random: Random) -> Cores:
    return Cores(limit=random.choice([1.0, 2.0, 4.0, 8.0]), serial=random.uniform(0.0, 0.3))


def _queue(random: Random, kind: JobKind, max_workers: int) -> tuple[Truth, Bounds]:
    bounds = Bounds(_worker_bounds(random, max_workers))
    wait, cpu = _log_uniform(random, 0.001, 0.1), _log_uniform(random, 0.001, 0.1)
    cores = _cores(random)
    alone = 1.0 / (wait + cpu / cores.speedup(bounds.worker.max_cpu))
    limit = alone * _log_uniform(random, 2.0, 4.0 * bounds.worker.max_replicas) if random.random() < 0.75 else 0.0
    truth = QueueTruth(
        **_common(random),  # type: ignore[arg-type]
        wait_s=wait,
        cpu_s=cpu,
        cores=cores,
        source_limit=limit,
        knee=random.uniform(2.0, 10.0),
        thrash=random.choice([0.0, 0.1, 0.4]),
    )
    return truth, bounds


def _allreduce(random: Random, kind: JobKind, max_workers: int) -> tuple[Truth, Bounds]:
    bounds = Bounds(_worker_bounds(random, max_workers))
    unit = _log_uniform(random, 0.05, 2.0)
    virtual = random.choice([16, 32, 64, 96])
    most = min(bounds.worker.max_replicas, virtual)
    bounds = Bounds(replace(bounds.worker, max_replicas=most))
    truth = AllreduceTruth(
        **_common(random),  # type: ignore[arg-type]
        virtual_workers=virtual,
        micro_batch=random.choice([8, 32, 128]),
        unit_s=unit,
        cores=_cores(random),
        sync_s=unit * _log_uniform(random, 0.01, 1.0),
        sync_step_s=unit * _log_uniform(random, 0.001, 0.05),
        workers_per_machine=random.choice([4, 8, 16]),
        cross_factor=random.uniform(1.0, 4.0),
        knee_workers=random.choice([0, most // 2, most // 3]),
        congestion=random.uniform(0.5, 4.0),
        overlap=random.uniform(1.0, 3.0),
        spread=random.uniform(0.0, 0.15),
    )
    return truth, bounds


def _servers(random: Random, kind: JobKind, max_workers: int) -> tuple[Truth, Bounds]:
    server = RoleBounds(
        1, random.choice([4, 8, 16]), min_cpu=1.0, max_cpu=random.choice([2.0, 4.0, 8.0]), max_memory_mb=65_536
    )
    workers = _worker_bounds(random, max_workers)
    cpu = _log_uniform(random, 0.0005, 0.02)
    ratio = _log_uniform(random, 2.0, 100.0)  # cores of workers that one core of a server can feed
    truth = ServersTruth(
        **_common(random),  # type: ignore[arg-type]
        server_memory=Memory(400.0, _log_uniform(random, 500.0, 30_000.0), random.random() < 0.7),
        batch=random.choice([32, 128, 512]),
        cpu_s=cpu,
        latency_s=_log_uniform(random, 0.002, 0.1),
        apply_s=cpu / ratio,
        worker_cores=_cores(random),
        server_cores=Cores(limit=8.0, serial=random.uniform(0.0, 0.3)),
        skew=random.choice([0.0, 0.2, 0.6, 1.0]),
        locks=random.choice([0.0, 0.0, 0.02, 0.05]),
        knee=random.uniform(2.0, 8.0),
        synchronous=kind is JobKind.PS_SYNC,
        spread=random.uniform(0.0, 0.2),
    )
    return truth, Bounds(workers, server)
