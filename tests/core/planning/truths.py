"""Random true speeds of jobs, none of which the fitted models can express exactly."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import ceil

from pliant.core.planning.configuration import Configuration

Truth = Callable[[Configuration], float]


def queue_truth(rng: random.Random) -> Truth:
    """A power law up to a contention knee, from where more workers hinder each other a little."""
    each, power = rng.uniform(5, 50), rng.uniform(0.8, 1.0)
    knee, thrash = rng.uniform(2, 80), rng.uniform(0.0, 0.02)

    def rate(configuration: Configuration) -> float:
        workers = configuration.worker.replicas
        useful = min(workers, knee)
        return float(each * useful**power / (1.0 + thrash * max(0.0, workers - knee)))

    return rate


def allreduce_truth(rng: random.Random, virtual_workers: int) -> Truth:
    """A logarithmic collective, a slowest worker that is slower the more there are, partial overlap."""
    unit, sync, skew = rng.uniform(0.1, 1.0), rng.uniform(0.01, 1.0), rng.uniform(0.0, 0.1)
    overlap = rng.uniform(0.0, 0.6)

    def rate(configuration: Configuration) -> float:
        workers = configuration.worker.replicas
        compute = unit * ceil(virtual_workers / workers) * (1 + skew * (workers - 1) ** 0.5 / 4)
        collective = sync * (workers - 1).bit_length() ** 1.2 if workers > 1 else 0.0
        return float(32 * virtual_workers / (compute + collective - overlap * min(compute, collective)))

    return rate


def ps_truth(rng: random.Random) -> Truth:
    """Servers are a queue: the time at them grows with their utilisation, then limits; CPU helps workers only so far."""
    wait, compute = rng.uniform(0.05, 0.5), rng.uniform(0.2, 2.0)
    service, useful_cpu = rng.uniform(0.01, 0.2), rng.uniform(1.0, 4.0)
    skew = rng.uniform(1.0, 1.5)

    def rate(configuration: Configuration) -> float:
        worker, server = configuration.worker, configuration.server
        assert server is not None
        own = wait + compute / min(worker.cpu or 1.0, useful_cpu)
        capacity = server.replicas * (server.cpu or 1.0) / (service * skew)  # steps per second
        asked = worker.replicas / (own + service)
        smooth = (asked**-3 + capacity**-3) ** (-1 / 3)
        return float(32 * smooth)

    return rate
